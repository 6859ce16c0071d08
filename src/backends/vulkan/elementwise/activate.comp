#version 450
// y = act(y), element by element; specialization constant 1 is the activation's code.
//@ activate_f32
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 1) const uint kAct = 0;
layout(push_constant) uniform Push {
  uint n, act;
  float a, b;
};
layout(set = 0, binding = 0) buffer Y { float ys[]; };

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = activate(ys[i], kAct, a, b);
}
