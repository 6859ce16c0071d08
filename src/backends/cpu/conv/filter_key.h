#pragma once

#include <compare>
#include <vector>

#include "backends/cpu/core/constant_key.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// What the packed form of a convolution's filter depends on whatever the kernel: the constants, the filter's extents
/// and its strides. A part of the kernels' keys of packed weights.
struct FilterKey {
  ConstantKey filter;
  const void* bias = nullptr;  ///< nullptr: not a part of the packed form
  int64_t groups = 1, c_in = 1, c_out = 1, taps = 1, stride_o = 0, stride_i = 0, stride_s = 0;

  FilterKey(const ConvShape& g, const Tensor& filter, const Tensor* bias)
      : filter(filter),
        bias(bias ? bias->identity() : nullptr),
        groups(g.groups),
        c_in(g.c_in),
        c_out(g.c_out),
        taps(g.taps()),
        stride_o(g.filter_o),
        stride_i(g.filter_i),
        stride_s(g.filter_s) {}
  auto operator<=>(const FilterKey&) const = default;
  std::vector<int64_t> numbers() const { return {groups, c_in, c_out, taps, stride_o, stride_i, stride_s}; }
};

}  // namespace smelt
