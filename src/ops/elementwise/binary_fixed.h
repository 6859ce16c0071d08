#pragma once

#include <algorithm>
#include <optional>

#include "ops/common/fixed_point.h"
#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// TFLite's integer kernels of Add, Sub, Mul and, of int8, SquaredDifference: quantized(combine(of_a(a), of_b(b))).
struct FixedArithmetic {
  bool product = false, negate_b = false;
  bool square = false;    ///< the sum is squared: SquaredDifference
  int left = 0;           ///< of sums: left shift of both operands before they are rescaled to a common scale
  FixedFactor a, b, out;  ///< a, b: of sums only
  int32_t zero_a = 0, zero_b = 0, zero = 0;
  int64_t low = 0, high = 0;

  /// For operands quantized per tensor; only y's type is used. nullopt for other functions, types and alpha.
  static std::optional<FixedArithmetic> make(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y);
  int32_t of_a(int32_t q) const { return product ? q - zero_a : on_common(q - zero_a, a); }
  int32_t of_b(int32_t q) const {
    const int32_t v = product ? q - zero_b : on_common(q - zero_b, b);
    return negate_b ? static_cast<int32_t>(0 - static_cast<uint32_t>(v)) : v;
  }
  int32_t combine(int32_t p, int32_t q) const {
    const auto u = static_cast<uint32_t>(p), v = static_cast<uint32_t>(q);
    const uint32_t sum = u + v;
    return static_cast<int32_t>(product ? u * v : square ? sum * sum : sum);
  }
  int64_t quantized(int32_t v) const {
    return std::clamp(int64_t{rescale_double(v, out)} + zero, low, std::max(low, high));
  }

 private:
  int32_t on_common(int32_t v, FixedFactor f) const {
    return rescale_double(static_cast<int32_t>(static_cast<uint32_t>(v) << left), f);
  }
};

/// TFLite's Add and Sub of int16 values with power-of-two scales: each operand is shifted right with rounding, then
/// both are added.
struct ShiftedArithmetic {
  bool negate_b = false;
  int right_a = 0, right_b = 0;
  int32_t zero_a = 0, zero_b = 0, zero = 0;
  int64_t low = 0, high = 0;
  /// nullopt for other functions and scales.
  static std::optional<ShiftedArithmetic> make(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y);
};

/// TFLite's integer kernels of binary functions; inputs and output are quantized per tensor (comparisons give bool).
/// False if TFLite has no such kernel for this function and these element types.
bool binary_fixed(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y);

}  // namespace smelt
