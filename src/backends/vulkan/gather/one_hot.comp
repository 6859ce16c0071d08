#version 450
// y[o][c][i] = on where index [o][i] is c, else off. Specialization constants: 1 negative indices count from the end,
// 2 the index of `off` in its tensor, 3 that of `on`. INDEX_WORDS is 2 for 64-bit indices.
//@ one_hot_{ELEMENT=8,16,32,64}_{INDEX_WORDS=i32:1,i64:2}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool kNegative = true;
layout(constant_id = 2) const uint kOff = 0;
layout(constant_id = 3) const uint kOn = 0;
layout(push_constant) uniform Push { uint n, depth, inner; };
layout(set = 0, binding = 0) readonly buffer I { int indices[]; };
layout(set = 0, binding = 1) readonly buffer On { ELEMENT on[]; };
layout(set = 0, binding = 2) readonly buffer Off { ELEMENT off[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint at = i / (depth * inner) * inner + i % inner, c = i / inner % depth;
  int index = indices[at * INDEX_WORDS];
  bool inside = true;
#if INDEX_WORDS == 2
  inside = indices[at * 2 + 1] == index >> 31;
#endif
  if (kNegative && index < 0) index += int(depth);
  if (inside && index == int(c))
    ys[i] = on[kOn];
  else
    ys[i] = off[kOff];
}
