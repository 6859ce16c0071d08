#version 450
// The first `keep` elements in order along the middle of [outer, extent, inner]: values and indices. One workgroup a
// row; a bitonic network over kSlots >= extent places. Specialization constants: 1 slots, 2 largest first, 3 words of
// an index (0: none wanted), 4 values wanted.
//@ sort_{ELEMENT=f32,f16,i32,i64,i8,u8,i16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kSlots = 1024;
layout(constant_id = 2) const bool kDescending = false;
layout(constant_id = 3) const uint kIndexWords = 1;
layout(constant_id = 4) const bool kValues = true;
layout(push_constant) uniform Push { AXIS uint keep; };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 2) writeonly buffer Indices { uint indices[]; };

shared ELEMENT_VALUE values[1024];
shared uint places[1024];

#ifdef ELEMENT_INTEGER
#define IS_NAN(v) false
#else
#define IS_NAN(v) isnan(v)
#endif

// True if slot a comes before slot b: not a number is largest, ties go by place, free slots (no place) are last.
bool before(uint a, uint b) {
  const uint i = places[a], j = places[b];
  if (i >= extent || j >= extent) return i < j;
  const ELEMENT_VALUE v = values[a], w = values[b];
  if (IS_NAN(v) || IS_NAN(w)) {
    if (IS_NAN(v) && IS_NAN(w)) return i < j;
    return IS_NAN(v) == kDescending;
  }
  if (v == w) return i < j;
  return kDescending ? v > w : v < w;
}

void main() {
  const uint row = flat_group(), lane = gl_LocalInvocationID.x, width = gl_WorkGroupSize.x;
  if (row >= rows) return;
  const uint outer = row / inner, column = row % inner;
  for (uint k = lane; k < kSlots; k += width) {
    places[k] = k;
    if (k < extent) values[k] = ELEMENT_VALUE(xs[(outer * extent + k) * inner + column]);
  }
  for (uint run = 2; run <= kSlots; run *= 2)
    for (uint apart = run / 2; apart > 0; apart /= 2) {
      barrier();
      for (uint k = lane; k < kSlots / 2; k += width) {
        const uint a = k / apart * apart * 2 + k % apart, b = a + apart;
        const bool up = (a & run) == 0;
        if (before(b, a) == up) {
          const ELEMENT_VALUE v = values[a];
          const uint p = places[a];
          values[a] = values[b];
          places[a] = places[b];
          values[b] = v;
          places[b] = p;
        }
      }
    }
  barrier();
  for (uint k = lane; k < keep; k += width) {
    const uint to = (outer * keep + k) * inner + column, place = places[k];
    if (kValues) ys[to] = xs[(outer * extent + place) * inner + column];
    if (kIndexWords > 0) indices[to * kIndexWords] = place;
    if (kIndexWords == 2) indices[to * 2 + 1] = 0;
  }
}
