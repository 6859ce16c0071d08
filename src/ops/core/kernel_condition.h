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

// Sets of types by the names that kernel lists use. Integers are quantized (Q) or not (I); the number is their bits.
namespace operand_types {
inline constexpr OperandTypes F32 = OperandTypes::unquantized({DType::kF32});
inline constexpr OperandTypes F16_32 = OperandTypes::unquantized({DType::kF16, DType::kF32});
inline constexpr OperandTypes F64 = OperandTypes::unquantized({DType::kF64});
inline constexpr OperandTypes Bool =
    OperandTypes::unquantized({DType::kBool}) | OperandTypes::quantized({DType::kBool});
inline constexpr OperandTypes I8 = OperandTypes::unquantized({DType::kI8, DType::kU8});
inline constexpr OperandTypes I16 = OperandTypes::unquantized({DType::kI16, DType::kU16});
inline constexpr OperandTypes I32 = OperandTypes::unquantized({DType::kI32});
inline constexpr OperandTypes I32_64 = OperandTypes::unquantized({DType::kI32, DType::kI64});
inline constexpr OperandTypes Q4 = OperandTypes::quantized({DType::kI4, DType::kU4});
inline constexpr OperandTypes QS8 = OperandTypes::quantized({DType::kI8});
inline constexpr OperandTypes Q8 = OperandTypes::quantized({DType::kI8, DType::kU8});
inline constexpr OperandTypes Q2_8 = OperandTypes::quantized({DType::kI2, DType::kU2}) | Q4 | Q8;
inline constexpr OperandTypes QS16 = OperandTypes::quantized({DType::kI16});
inline constexpr OperandTypes Q16 = OperandTypes::quantized({DType::kI16, DType::kU16});
inline constexpr OperandTypes Q8_32 = Q8 | OperandTypes::quantized({DType::kI16, DType::kI32});
inline constexpr OperandTypes kByte = I8 | Q8 | Bool;
}  // namespace operand_types

/// What a kernel asks of every node, before its make() looks at shapes, attributes and quantization. Absent inputs meet
/// every condition.
struct KernelCondition {
  std::array<OperandTypes, 4> in = {};  ///< types of inputs 0 to 3
  OperandTypes every_in = {};           ///< types of all inputs
  OperandTypes out = {};                ///< types of output 0
  InputSet like_out = {};               ///< inputs of output 0's element type, quantized only if it is
  InputSet constants = {};              ///< inputs that must be constants
  InputSet dynamic = {};                ///< inputs that must not be constants
  std::optional<Layout> layout = {};    ///< of images, for operators whose attributes say one
  uint32_t features = 0;                ///< of the device, as bits that the back-end defines and checks

  /// False where the node does not meet it; `why`, unless nullptr, then says what is missing.
  bool met(const NodeSpec& spec, std::string* why) const;
};

}  // namespace smelt
