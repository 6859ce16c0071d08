#version 450
// y = x clamped and rounded to whole steps above `low`, ties up.
//@ fake_quant_{ELEMENT=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
  uint n;
  float low, high, scale, inverse;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const float x = float(xs[i]);
  const float clamped = x > low ? (x < high ? x : high) : low;
  precise const float steps = (clamped - low) * inverse;
  const float whole = floor(steps);
  precise const float y = (steps - whole >= 0.5 ? whole + 1.0 : whole) * scale;
  ys[i] = ELEMENT(y + low);
}
