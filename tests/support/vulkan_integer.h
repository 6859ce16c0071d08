// For tests: integer convolutions of every type, with zero points of several shapes.
#pragma once

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {

/// All values of an 8-bit type.
inline Tensor any_bytes(DType t, const Shape& s, uint32_t seed) {
  return random_tensor(t, s, t == DType::kI8 ? -128 : 0, t == DType::kI8 ? 127 : 255, seed);
}

/// A ConvInteger of `channels` with constant weights; `zeros`: 0 no zero points, 1 numbers, 2 one an output channel.
inline OpCase conv_integer_case(DType x, DType w, int zeros, int64_t groups, int64_t channels) {
  ConvAttrs a;
  a.groups = groups;
  a.pads = {1, 0, 1, 2};
  a.strides = {2, 1};
  OpCase c{.label = Cat(to_string(x), " ", to_string(w), " zeros ", zeros, " groups ", groups),
           .op = Op::kConvInteger,
           .attrs = make_attrs<ConvAttrs>(a),
           .inputs = {any_bytes(x, {2, channels, 7, 6}, 1), any_bytes(w, {6, channels / groups, 3, 3}, 2)},
           .constants = {1, 3}};
  if (zeros == 1) c.inputs.insert(c.inputs.end(), {any_bytes(x, {}, 3), any_bytes(w, {}, 4)});
  if (zeros == 2) c.inputs.insert(c.inputs.end(), {any_bytes(x, {1}, 3), any_bytes(w, {6}, 4)});
  return c;
}

}  // namespace smelt::vulkan
