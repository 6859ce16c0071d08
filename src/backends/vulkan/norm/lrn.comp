#version 450
// y = x / (bias + alpha * sum of squares of the neighbouring channels)^beta over [outer, channels, inner].
//@ lrn_{ELEMENT=f32,f16}
//@ LrnTexture: lrn_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#ifdef TEXTURE
#include "texture.glsl"
layout(constant_id = 1) const uint kPacked = 0;
layout(constant_id = 2) const uint kPackedX = 0;
#endif
#include "elements.glsl"

layout(push_constant) uniform Push {
#ifdef TEXTURE
  ivec4 x_size, y_size;
#endif
  uint n, channels, inner, before, after;
  float alpha, beta, bias;
};
#ifdef TEXTURE
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;
#else
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
#endif

float result(uint i) {
  const uint c = i / inner % channels;
  const uint from = i - min(c, before) * inner, to = i + min(channels - 1 - c, after) * inner;
  float sum = 0.0;
  for (uint k = from; k <= to; k += inner) {
    const float v = X_AT(k);
    sum += v * v;
  }
  return X_AT(i) / pow(bias + alpha * sum, beta);
}

ELEMENTS_MAIN
