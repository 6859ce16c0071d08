#pragma once

#include <optional>

#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// Sums, differences and products of 8-bit values as XNNPACK computes them (Rounding::kXnnpack).
struct XnnpackArithmetic {
  bool product = false;
  int32_t a = 0, b = 0;  ///< sums: factors of the operands in units of 2^-shift, that of b negative for a difference
  int shift = 0;         ///< sums: 12 to 30
  float scale = 0;       ///< products: steps of the output for a product of one step each
  int32_t zero_a = 0, zero_b = 0, zero = 0;
  int32_t low = 0, high = 0;  ///< range of the output after the activation

  /// For operands and output of one 8-bit type, quantized per tensor. nullopt for other functions, for scales that
  /// XNNPACK does not take, for alpha and for activations that are no clamps.
  static std::optional<XnnpackArithmetic> make(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b,
                                               const Tensor& y);
  /// The output for two quantized operands.
  int32_t operator()(int32_t p, int32_t q) const;
};

/// A sum, difference or product by XnnpackArithmetic; false where it does not apply.
bool binary_xnnpack(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y);

/// Conversions (Unary::kIdentity) and leaky ReLU of 8-bit values in fixed point with 8 fractional bits. False for other
/// functions, types other than one 8-bit type and scales that XNNPACK does not take.
bool unary_xnnpack(const UnaryAttrs& attrs, const Tensor& x, Tensor& y);

/// Writes real numbers to 8-bit y as XNNPACK's table of a function does: times 1 / scale in float32, the zero point
/// added before halves go to even.
void store_xnnpack(const float* values, Tensor& y);

}  // namespace smelt
