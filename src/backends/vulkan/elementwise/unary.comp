#version 450
// y = f(x), element by element; specialization constant 1 is the function. OUT is the type of y. Of buffers or,
// by TEXTURE, of images of one layout.
//@ unary_{IN=f32,f16} OUT=IN
//@ unary_{IN=f32,f16}_{OUT=bool}
//@ UnaryTexture: unary_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "real_functions.glsl"
#ifdef TEXTURE
#include "texture.glsl"
#endif

layout(constant_id = 1) const uint kFunction = 0;
layout(push_constant) uniform Push {
#ifdef TEXTURE
  ivec3 texels;
#else
  uint n;
#endif
  float a, b, c;
};
#ifdef TEXTURE
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;
#else
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { OUT ys[]; };
#endif

float f(float x) {
  switch (kFunction) {
#include "unary_f32.inc"
  }
  return x;
}

#ifdef TEXTURE
void main() {
  const uint i = flat_id();
  if (i >= texels.x * texels.y * texels.z) return;
  const ivec3 at = place_of(int(i), texels).xyz;
  const vec4 x = fetch(xs, at, texels.y);
  vec4 y;
  for (int k = 0; k < 4; ++k) y[k] = f(x[k]);
  put(ys, at, texels.y, y);
}
#else
void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = OUT(f(float(xs[i])));
}
#endif
