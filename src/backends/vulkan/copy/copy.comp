#version 450
// One strided copy: y[y_offset + i * y_stride] = x[x_offset + i * x_stride] for every index i of a loop nest.
//@ copy_{ELEMENT=8,16,32,64}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"

layout(push_constant) uniform Push {
  WALK_2(x, y)
  int x_offset, y_offset;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT x[]; };
layout(set = 0, binding = 1) buffer Y { ELEMENT y[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int from, to;
  STRIDED_OFFSET(from, i, rank, size, x_stride)
  STRIDED_OFFSET(to, i, rank, size, y_stride)
  y[y_offset + to] = x[x_offset + from];
}
