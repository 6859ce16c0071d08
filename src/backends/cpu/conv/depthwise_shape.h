#pragma once

#include <optional>

#include "backends/cpu/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// The most taps of a depthwise convolution of integers: pointers to them stand on the stack.
constexpr int64_t kMostDepthwiseTaps = 1024;

/// Sizes of a two-dimensional depthwise convolution with one filter a channel; nullopt: the node is none.
inline std::optional<ConvShape> depthwise_shape(const KernelSpec& spec) {
  auto g = ConvShape::in_lines(spec);
  if (!g || !g->depthwise() || g->c_out != 1 || !g->planar() || spec.outputs[0].shape.elements() == 0)
    return std::nullopt;
  return g;
}

}  // namespace smelt
