#pragma once

#include <cstdint>

#include "smelt/tensor.h"

namespace smelt::vulkan {

/// Flags of tf_cell.comp and tf_cell_integer.comp. The integer shader knows kPeephole to kProjection and kWritesY to
/// kWritesC.
inline constexpr uint32_t kQuantizes = 1, kAsymmetricRows = 2, kDiagonal = 4, kPeephole = 8, kNorm = 16, kCoupled = 32,
                          kProjection = 64, kRnn = 128, kWritesY = 256, kWritesH = 512, kWritesC = 1024,
                          kBackward = 2048;

/// Element i of a constant of TFLite's recurrent operators as a word of the shaders' weight tables: the quantized
/// integer if `quantized`, else the bits of the float32 value.
uint32_t weight_word(const Tensor& t, int64_t i, bool quantized);

}  // namespace smelt::vulkan
