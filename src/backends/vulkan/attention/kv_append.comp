#version 450
// y = cache [outer, capacity, inner] with fresh [outer, count, inner] from an entry on that is data: one for every
// `rows` of outer. Specialization constants: 1 words of a start, 2 that entries behind the last one are the first ones.
//@ kv_append_{ELEMENT=8,16,32,64}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kStartWords = 1;
layout(constant_id = 2) const bool kCircular = false;
layout(push_constant) uniform Push { uint n, capacity, inner, count, rows, fault_code; };
layout(set = 0, binding = 0) readonly buffer Cache { ELEMENT cache[]; };
layout(set = 0, binding = 1) readonly buffer Fresh { ELEMENT fresh[]; };
layout(set = 0, binding = 2) readonly buffer Start { int starts[]; };
layout(set = 0, binding = 3) buffer Faults { uint faults[]; };
layout(set = 0, binding = 4) writeonly buffer Y { ELEMENT ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint entry = i / inner % capacity, outer = i / (inner * capacity), at = outer / rows * kStartWords;
  const int start = starts[at];
  if ((kStartWords == 2 && starts[at + 1] != 0) || start < 0 || (!kCircular && uint(start) > capacity - count)) {
    faults[0] = fault_code;
    return;
  }
  const uint first = uint(start) % (kCircular ? capacity : 0xffffffffu);
  const uint place = entry < first ? entry + capacity : entry;
  if (place - first < count)
    ys[i] = fresh[(outer * count + place - first) * inner + i % inner];
  else
    ys[i] = cache[i];
}
