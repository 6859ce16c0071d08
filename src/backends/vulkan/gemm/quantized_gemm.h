#pragma once

#include <optional>
#include <vector>

#include "backends/vulkan/gemm/operand.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/requantize_params.h"
#include "shaders/requantize.h"

namespace smelt::vulkan {

/// The parameters of a convolution or matrix product of 8-bit operands with 32-bit accumulators and 8-bit outputs, as
/// requantize.glsl reads them.
struct QuantizedGemm {
  QuantizedPair pair;
  RequantizeParams requantize;

  /// Nullopt if the node is not such a product. `w_axis`: the weights' dimension of output channels.
  static std::optional<QuantizedGemm> make(const KernelSpec& spec, int w_axis, int64_t channels,
                                           const RescaleRule& rule);
  /// A table of one ivec4 per channel: bias, two words of the factor (requantize.glsl), and the weights' zero point
  /// (signed_weight()).
  Result<Binding> table(KernelRecorder& r) const;
  /// table() as a binding of a ShaderKernel.
  Arg table_arg() const {
    return {[q = *this](KernelRecorder& r) { return q.table(r); }};
  }
  /// The push constants, with zero points as the shader sees them.
  shaders::Requantization push(int32_t x_zero, int32_t w_zero) const {
    return {x_zero, w_zero, requantize.zero, requantize.low, requantize.high};
  }
  /// A weight as int8: uint8 weights are shifted by -128.
  int32_t signed_weight(int64_t quantized) const {
    return static_cast<int32_t>(pair.w_signed ? quantized : quantized - 128);
  }
  /// True if every zero point is in the range of its operand's type, so that value - zero point fits in 9 bits.
  bool zeros_fit() const;
  uint32_t rounding() const { return static_cast<uint32_t>(requantize.rounding); }
  /// True if results are rounded in fixed point or float64.
  bool fixed() const { return requantize.rounding != Rounding::kFloatHalfEven; }
  /// The zero point that all channels of the weights share; nullopt if they differ.
  std::optional<int32_t> w_zero() const;
};

/// True for int8 and uint8 elements on a device that stores 8-bit elements.
bool is_int8(const KernelSpec& spec, const ValueType& t);
/// How an input gives zero points; shaders take the first three as a specialization constant.
enum class ZeroPoints : uint32_t { kNone, kPerTensor, kPerChannel, kUnsupported };
/// How input i gives zero points of an operand of `channels` channels.
ZeroPoints zero_points(const KernelSpec& spec, size_t i, DType operand, int64_t channels);

}  // namespace smelt::vulkan
