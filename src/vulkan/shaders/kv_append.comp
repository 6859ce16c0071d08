#version 450
// y = cache [outer, room, inner] with fresh [outer, length, inner] from entry `start` on, which is data.
// Specialization constant 1: words of the start.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kStartWords = 1;
layout(push_constant) uniform Push { uint n, room, inner, count, fault_code; };
layout(set = 0, binding = 0) readonly buffer Cache { STORED cache[]; };
layout(set = 0, binding = 1) readonly buffer Fresh { STORED fresh[]; };
layout(set = 0, binding = 2) readonly buffer Start { int starts[]; };
layout(set = 0, binding = 3) buffer Faults { uint faults[]; };
layout(set = 0, binding = 4) writeonly buffer Y { STORED ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const int start = starts[0];
  if ((kStartWords == 2 && starts[1] != 0) || start < 0 || uint(start) > room - count) {
    faults[0] = fault_code;
    return;
  }
  const uint entry = i / inner % room, outer = i / (inner * room);
  if (entry >= uint(start) && entry < uint(start) + count)
    ys[i] = fresh[(outer * count + entry - uint(start)) * inner + i % inner];
  else
    ys[i] = cache[i];
}
