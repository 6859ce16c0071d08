#pragma once

#include <optional>
#include <vector>

#include "backends/vulkan/device/device.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// Constant integer weights of a product with float activations: scale * (value - zero point), with scales per output
/// channel or per block of input channels.
struct QuantizedWeights {
  int bits = 8;       ///< of value - zero point: 4 or 8
  int64_t block = 0;  ///< input channels that share a scale; a multiple of 4 unless there is one block

  /// Nullopt if the weights are quantized in another way. `o_axis`, `i_axis`: dimensions of output and input channels.
  static std::optional<QuantizedWeights> make(const Device& device, const ValueType& t, const ConvShape& s, int o_axis,
                                              int i_axis);
  int64_t blocks(const ConvShape& s) const { return (s.c_in + block - 1) / block; }
  /// Index of the scale and zero point of output channel o and input channel i.
  int64_t parameter(const Quantization& q, const ConvShape& s, int64_t o, int64_t i) const;
  /// value - zero point of all elements in the tensor's order.
  std::vector<int8_t> values(const Tensor& weights, const ConvShape& s) const;
};

}  // namespace smelt::vulkan
