#pragma once

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {

/// One strided copy between input `in` and output `out` of a node (copy.comp), or one by a list of places
/// (index_map.comp).
struct Move {
  static constexpr size_t kFill = SIZE_MAX;  ///< as `in`: a source of one element, the fill value

  size_t in = 0, out = 0;
  Walk<2> walk;  ///< operand 0: x, 1: y
  int32_t x_offset = 0, y_offset = 0;
  std::vector<uint8_t> table = {};   ///< of 256 entries if any: 8-bit elements change by it on the way
  std::vector<int32_t> places = {};  ///< if any, instead of the walk: y[i] = x[places[i]], negative: y[i] stays
};

/// A kernel that is a list of moves, in order; null when an element type has no copy shader. `fill` is the bit pattern
/// of the fill value.
std::unique_ptr<Kernel> make_moves(DType dtype, std::vector<Move> moves, uint64_t fill = 0);

}  // namespace smelt::vulkan
