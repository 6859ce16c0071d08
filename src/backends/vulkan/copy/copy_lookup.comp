#version 450
// One strided copy (copy.comp) of 8-bit elements through a table of 256: y[...] = table[x[...]].
//@ copy_lookup
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"

layout(push_constant) uniform Push {
  WALK_2(x, y)
  int x_offset, y_offset;
};
layout(set = 0, binding = 0) readonly buffer X { uint8_t xs[]; };
layout(set = 0, binding = 1) readonly buffer T { uint8_t table[]; };
layout(set = 0, binding = 2) buffer Y { uint8_t ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int from, to;
  STRIDED_OFFSET(from, i, rank, size, x_stride)
  STRIDED_OFFSET(to, i, rank, size, y_stride)
  ys[y_offset + to] = table[uint(xs[x_offset + from])];
}
