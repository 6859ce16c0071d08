#pragma once

#include "vulkan/kernel_recorder.h"
#include "vulkan/strides.h"

namespace smelt::vulkan {

/// One strided copy between input `in` and output `out` of a node (shaders/copy.comp).
struct Move {
  size_t in = 0, out = 0;
  Walk<2> walk;  ///< operand 0: x, 1: y
  int32_t x_offset = 0, y_offset = 0;
};

/// A kernel that is a list of moves; null when an element type has no copy shader.
std::unique_ptr<Kernel> make_moves(DType dtype, std::vector<Move> moves);

}  // namespace smelt::vulkan
