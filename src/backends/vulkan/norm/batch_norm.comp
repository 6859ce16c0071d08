#version 450
// y = (x - mean) / sqrt(variance + epsilon) * scale + bias by channels of [outer, channels, inner]. Specialization
// constant 1 says which operands are there (1 scale, 2 bias).
//@ batch_norm_{ELEMENT=f32,f16} PARAMETER=ELEMENT
//@ batch_norm_{ELEMENT=f16}_{PARAMETER=f32}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kPresent = 0;
layout(push_constant) uniform Push {
  uint n, channels, inner;
  float epsilon;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Scale { PARAMETER scales[]; };
layout(set = 0, binding = 2) readonly buffer Bias { PARAMETER biases[]; };
layout(set = 0, binding = 3) readonly buffer Mean { PARAMETER means[]; };
layout(set = 0, binding = 4) readonly buffer Variance { PARAMETER variances[]; };
layout(set = 0, binding = 5) writeonly buffer Y { ELEMENT ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint c = i / inner % channels;
  float scale = 1.0 / sqrt(float(variances[c]) + epsilon);
  if ((kPresent & 1) != 0) scale *= float(scales[c]);
  float y = (float(xs[i]) - float(means[c])) * scale;
  if ((kPresent & 2) != 0) y += float(biases[c]);
  ys[i] = ELEMENT(y);
}
