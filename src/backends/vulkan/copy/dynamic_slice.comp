#version 450
// Slices whose first index is data. UPDATE: y = x with `update` (of shape `part`) written from there on, starts
// clamped; else y (of shape `part`) is x from there on, and starts outside of it are a fault. Dimensions innermost
// first.
//@ dynamic_slice_{ELEMENT=8,16,32,64}
//@ dynamic_update_slice_{ELEMENT=8,16,32,64} UPDATE
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kStartWords = 1;
layout(push_constant) uniform Push {
  uint n, rank;
  uint size[8], part[8];  // of x, of the slice
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Start { int starts[]; };  // outermost first
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };
#ifdef UPDATE
layout(set = 0, binding = 3) readonly buffer Update { ELEMENT update[]; };
#else
layout(set = 0, binding = 3) buffer Faults { uint faults[]; };
#endif

// The start of dimension d as 32 bits, nearest where it has more.
int start_of(uint d) {
  const uint at = (rank - 1 - d) * kStartWords;
  const int low = starts[at];
  if (kStartWords == 1) return low;
  const int high = starts[at + 1];
  return high == low >> 31 ? low : (high < 0 ? int(0x80000000u) : 0x7fffffff);
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  uint rest = i;
#ifdef UPDATE
  uint at = 0, step = 1;
  bool inside = true;
  for (uint d = 0; d < rank; ++d) {
    const uint next = rest / size[d];
    const int place = int(rest - next * size[d]) - clamp(start_of(d), 0, int(size[d] - part[d]));
    inside = inside && place >= 0 && uint(place) < part[d];
    at += uint(place) * step;
    step *= part[d];
    rest = next;
  }
  ys[i] = xs[i];
  if (inside) ys[i] = update[at];
#else
  uint at = 0, step = 1;
  for (uint d = 0; d < rank; ++d) {
    const uint next = rest / part[d];
    const int start = start_of(d);
    if (start < 0 || uint(start) > size[d] - part[d]) {
      faults[0] = fault_code;
      return;
    }
    at += (rest - next * part[d] + uint(start)) * step;
    step *= size[d];
    rest = next;
  }
  ys[i] = xs[at];
#endif
}
