#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "ops/common/enums.h"
#include "ops/core/node_spec.h"

namespace smelt {

/// A set of types that an operand may have: element types, each without or with quantization parameters. The default is
/// every type.
class OperandTypes {
 public:
  constexpr OperandTypes() = default;
  static constexpr OperandTypes unquantized(std::initializer_list<DType> types) { return OperandTypes(types, 0); }
  static constexpr OperandTypes quantized(std::initializer_list<DType> types) { return OperandTypes(types, kTypes); }
  constexpr OperandTypes operator|(OperandTypes other) const {
    other.bits_ |= bits_;
    return other;
  }
  bool has(const ValueType& t) const {
    return (bits_ >> (static_cast<int>(t.dtype) + (t.quant ? kTypes : 0)) & 1) != 0;
  }
  std::string str() const;  ///< "float32 or quantized int8"

 private:
  static constexpr int kTypes = 32;
  constexpr OperandTypes(std::initializer_list<DType> types, int shift) : bits_(0) {
    for (const DType t : types) bits_ |= uint64_t{1} << (static_cast<int>(t) + shift);
  }
  uint64_t bits_ = ~uint64_t{0};
};

/// A set of a node's inputs, by position.
class InputSet {
 public:
  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> inputs) {
    for (const int i : inputs) bits_ |= 1u << i;
  }
  constexpr bool has(size_t i) const { return i < 32 && (bits_ >> i & 1) != 0; }

 private:
  uint32_t bits_ = 0;
};

/// What a kernel asks of every node, before its make() looks at shapes, attributes and quantization. Absent inputs meet
/// every condition.
struct KernelCondition {
  std::array<OperandTypes, 4> in = {};  ///< types of inputs 0 to 3
  OperandTypes every_in = {};           ///< types of all inputs
  OperandTypes out = {};                ///< types of output 0
  InputSet constants = {};              ///< inputs that must be constants
  std::optional<Layout> layout = {};    ///< of images, for operators whose attributes say one

  /// False where the node does not meet it; `why`, unless nullptr, then says what is missing.
  bool met(const NodeSpec& spec, std::string* why) const;
};

}  // namespace smelt
