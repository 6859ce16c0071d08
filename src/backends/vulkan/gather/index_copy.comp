#version 450
// y = x with the entries of one axis that indices name replaced by those of v: y[o][a][k] = v[o][p][k] for the last p
// with index a, x[o][a][k] where there is none. An index out of range sets `faults`. INDEX_WORDS is 2 for 64-bit
// indices.
//@ index_copy_{ELEMENT=8,16,32,64}_{INDEX_WORDS=i32:1,i64:2}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
  uint n;
  uint extent, inner, indices_count;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer I { int indices[]; };
layout(set = 0, binding = 2) readonly buffer V { ELEMENT values[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 4) buffer F { uint faults[]; };

int index_of(uint p) {  // -1: out of range
  int index = indices[p * INDEX_WORDS];
#if INDEX_WORDS == 2
  if (indices[p * 2 + 1] != index >> 31) return -1;
#endif
  if (index < 0) index += int(extent);
  return index >= 0 && index < int(extent) ? index : -1;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint k = i % inner, a = i / inner % extent, o = i / (inner * extent);
  uint found = indices_count;
  for (uint p = 0; p < indices_count; ++p) {
    const int index = index_of(p);
    if (index < 0) faults[0] = fault_code;
    if (index == int(a)) found = p;
  }
  if (found == indices_count)
    ys[i] = xs[i];
  else
    ys[i] = values[(o * indices_count + found) * inner + k];
}
