#pragma once

#include <cstdint>

#include "smelt/tensor.h"

namespace smelt::vulkan {

/// Entry i of a constant of TFLite's recurrent operators as a word of the tables that their shaders read: a stored
/// integer, or the bits of a float32.
uint32_t weight_word(const Tensor& t, int64_t i, bool stored);

}  // namespace smelt::vulkan
