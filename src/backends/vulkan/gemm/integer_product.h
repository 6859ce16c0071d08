#pragma once

#include <optional>
#include <vector>

#include "backends/vulkan/gemm/operand.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/requant_params.h"

namespace smelt::vulkan {

/// A product of 8-bit operands whose 32-bit sums become 8-bit outputs: what requantize.glsl needs.
struct IntegerProduct {
  QuantizedPair pair;
  RequantParams requant;

  /// Nullopt: not this kind of node. `w_axis`: the weights' dimension of output channels.
  static std::optional<IntegerProduct> make(const KernelSpec& spec, int w_axis, int64_t channels, const Activation& act,
                                            Rounding rounding, double alpha = 1);
  /// One ivec4 a channel: bias, factor or multiplier, shift, zero point of weights as signed_weight() has them.
  Result<Binding> table(KernelRecorder& r) const;
  /// A stored weight as int8: unsigned ones less 128.
  int32_t signed_weight(int64_t stored) const { return static_cast<int32_t>(pair.w_signed ? stored : stored - 128); }
  /// Whether zero points are values that the operands can have: differences from them then have eight bits and a sign.
  bool zeros_fit() const;
  uint32_t rounding() const { return static_cast<uint32_t>(requant.rounding); }
  /// The zero point of all channels of the weights, if it is one.
  std::optional<int32_t> w_zero() const;
};

/// Stored integers of 8 bits without a grid, which the device stores too.
bool eight_bits(const KernelSpec& spec, const ValueType& t);
/// How input i gives zero points of an operand: 0 not at all, 1 one, 2 one for each of `many`; -1: in no such way.
int zero_points(const KernelSpec& spec, size_t i, DType operand, int64_t many);

/// Push constants behind the geometry in shaders of 8-bit operands.
struct IntegerPush {
  int32_t x_zero, w_zero, zero, low, high;
};

}  // namespace smelt::vulkan
