#version 450
// y = x / (bias + alpha * sum of squares of the neighbouring channels)^beta over [outer, channels, inner].
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
  uint n, channels, inner, before, after;
  float alpha, beta, bias;
};
layout(set = 0, binding = 0) readonly buffer X { STORED xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { STORED ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint c = i / inner % channels;
  const uint from = i - min(c, before) * inner, to = i + min(channels - 1 - c, after) * inner;
  float sum = 0.0;
  for (uint k = from; k <= to; k += inner) {
    const float v = float(xs[k]);
    sum += v * v;
  }
  ys[i] = STORED(float(xs[i]) / pow(bias + alpha * sum, beta));
}
