#version 450
// z = table[x][y] for 8-bit x and y with broadcasting.
//@ lookup_table_pair
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"

layout(push_constant) uniform Push {
  WALK_2(x, y)
};
layout(set = 0, binding = 0) readonly buffer X { uint8_t xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { uint8_t ys[]; };
layout(set = 0, binding = 2) readonly buffer T { uint8_t table[]; };
layout(set = 0, binding = 3) writeonly buffer Z { uint8_t zs[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int at_x, at_y;
  STRIDED_OFFSET(at_x, i, rank, size, x_stride)
  STRIDED_OFFSET(at_y, i, rank, size, y_stride)
  zs[i] = table[uint(xs[at_x]) * 256 + uint(ys[at_y])];
}
