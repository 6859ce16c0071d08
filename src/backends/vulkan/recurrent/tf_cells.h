#pragma once

#include <cstdint>

#include "smelt/tensor.h"

namespace smelt::vulkan {

/// Element i of a constant of TFLite's recurrent operators as a word of the shaders' weight tables: the quantized
/// integer if `quantized`, else the bits of the float32 value.
uint32_t weight_word(const Tensor& t, int64_t i, bool quantized);

}  // namespace smelt::vulkan
