#version 450
// y = condition ? a : b with broadcasting, for elements of any type.
//@ where_{ELEMENT=8,16,32,64}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"

layout(push_constant) uniform Push {
  WALK_3(c, a, b)
};
layout(set = 0, binding = 0) readonly buffer C { uint8_t cs[]; };
layout(set = 0, binding = 1) readonly buffer A { ELEMENT as[]; };
layout(set = 0, binding = 2) readonly buffer B { ELEMENT bs[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int at_c, at;
  STRIDED_OFFSET(at_c, i, rank, size, c_stride)
  if (uint(cs[at_c]) != 0) {
    STRIDED_OFFSET(at, i, rank, size, a_stride)
    ys[i] = as[at];
  } else {
    STRIDED_OFFSET(at, i, rank, size, b_stride)
    ys[i] = bs[at];
  }
}
