#version 450
// Elements of x put where their indices say, which count elements of an image of `inner` inside of y, [.., planes].
// Where indices meet, one of the elements stays.
//@ max_unpool_{ELEMENT=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kIndexWords = 2;
layout(push_constant) uniform Push {
  uint n, limit;          // elements of x and of the inner image
  uint inner[4], y[4];    // sizes: width, height, depth, all others
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 3) buffer Faults { uint faults[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  uint at = indices[i * kIndexWords], offset = 0, step = 1;
  bool far = at >= limit || (kIndexWords == 2 && indices[i * 2 + 1] != 0);
  [[unroll]] for (int d = 0; d < 4; ++d) {
    const uint next = at / inner[d], p = at - next * inner[d];
    far = far || p >= y[d];
    offset += p * step;
    step *= y[d];
    at = next;
  }
  if (far)
    faults[0] = fault_code;
  else
    ys[offset] = xs[i];
}
