#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

#include "backends/cpu/core/constant_key.h"
#include "backends/cpu/core/kernel.h"

namespace smelt {

/// y[i] = table[x[i]] for i < n.
using LookUp8 = void (*)(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* y);
LookUp8 lookup_8(Isa isa);

/// Element type and quantization parameters, one scale for all, as a part of a key.
struct TypeKey {
  DType dtype;
  bool quantized;
  uint32_t scale = 0;  ///< the bits of the float32, which order NaN too
  int32_t zero_point = 0;
  Rounding rounding = Rounding::kFloatHalfEven;

  TypeKey(const ValueType& t) : dtype(t.dtype), quantized(t.quant != nullptr) {
    if (!quantized) return;
    scale = std::bit_cast<uint32_t>(t.quant->scale());
    zero_point = t.quant->zero_point();
    rounding = t.quant->rounding;
  }
  auto operator<=>(const TypeKey&) const = default;
};

/// What a table of a node's results depends on.
struct TableKey {
  Op op;
  const void* attrs = nullptr;         ///< null: Unary, whose nodes of equal `function` share a table
  std::array<uint64_t, 5> function{};  ///< of Unary: the fields of its attributes
  std::vector<TypeKey> types;          ///< of the result and the operands that the table covers
  std::vector<ConstantKey> constants;  ///< the other operands

  /// The result is of type `y`.
  TableKey(const Node& node, const ValueType& y);
  auto operator<=>(const TableKey&) const = default;
};

/// True if values of the type index a table of 256 entries: 8-bit integers or bool, unquantized or per tensor.
bool takes_lookup_table(const ValueType& t);

/// The node's results, by its reference kernel, for all values of its first input ([256]) or of its first two inputs
/// ([256, 256]). Later inputs are constants of the node. Null when the reference kernel fails.
Packed fill_lookup_table(const KernelSpec& spec, size_t inputs);

/// A kernel that looks up the results of a unary operator on 8-bit values, kept with the packed weights.
std::unique_ptr<Kernel> make_unary_lookup_table(const KernelSpec& spec);

}  // namespace smelt
