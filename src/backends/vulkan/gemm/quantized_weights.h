#pragma once

#include <optional>
#include <vector>

#include "backends/vulkan/device/device.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// Integer weights of real images: what they mean is scale * (stored - zero), with scales for each output channel and
/// block of input channels.
struct StoredWeights {
  int bits = 8;       ///< that stored - zero takes
  int64_t block = 0;  ///< input channels that share a scale; a multiple of 4 unless there is one block

  /// Nullopt: none of this kind. `o_axis`, `i_axis`: dimensions of the output and input channels.
  static std::optional<StoredWeights> make(const Device& device, const ValueType& t, const ConvShape& s, int o_axis,
                                           int i_axis);
  int64_t blocks(const ConvShape& s) const { return (s.c_in + block - 1) / block; }
  /// Number of the scale and zero point of output channel o and input channel i.
  int64_t parameter(const Quantization& q, const ConvShape& s, int64_t o, int64_t i) const;
  /// stored - zero of all elements in the order of the tensor.
  std::vector<int8_t> values(const Tensor& weights, const ConvShape& s) const;
};

}  // namespace smelt::vulkan
