#version 450
// Copies elements by an index map: y[i] = x[map[i]]; where the index is negative y[i] stays.
//@ index_map_{ELEMENT=8,16,32,64}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push { uint n; };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT x[]; };
layout(set = 0, binding = 1) readonly buffer M { int map[]; };
layout(set = 0, binding = 2) buffer Y { ELEMENT y[]; };

void main() {
  const uint i = flat_id();
  if (i < n && map[i] >= 0) y[i] = x[map[i]];
}
