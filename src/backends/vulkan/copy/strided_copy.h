#pragma once

#include "backends/vulkan/copy/copy_plan.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {

/// One dispatch that copies elements from input `in` of a node to output `out`, along strides (copy.comp) or by an
/// index map (index_map.comp).
struct CopyStep {
  static constexpr size_t kFill = SIZE_MAX;  ///< as `in`: a buffer of one element, the fill value

  size_t in = 0, out = 0;
  Walk<2> walk;  ///< operand 0: x, 1: y
  int32_t x_offset = 0, y_offset = 0;
  std::vector<uint8_t> lookup = {};     ///< of 256 entries if any: 8-bit elements change by it on the way
  std::vector<int32_t> index_map = {};  ///< if any, in place of the walk: y[i] = x[index_map[i]], negative: y[i] stays
};

/// A kernel that runs the steps in order; nullptr when an element type has no copy shader. `fill` is the bit pattern of
/// the fill value.
std::unique_ptr<Kernel> make_copies(DType dtype, std::vector<CopyStep> steps, uint64_t fill = 0);

}  // namespace smelt::vulkan
