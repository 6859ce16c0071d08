#version 450
// y = table[x] for x of 8 or 16 bits.
//@ lookup_table_{IN=u8,u16}_{OUT=8,16,32,64}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push { uint n; };
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
layout(set = 0, binding = 1) readonly buffer T { OUT table[]; };
layout(set = 0, binding = 2) writeonly buffer Y { OUT ys[]; };

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = table[uint(xs[i])];
}
