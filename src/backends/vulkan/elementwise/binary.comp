#version 450
// z = act(f(x, y)) with broadcasting; specialization constant 1 is the function, 2 says that neither operand repeats.
// OUT is the type of z. TEXTURE: x and y are images; so is z, without a OUT.
// CONSTANT: y is in a buffer, with strides; kSwap: it stands before x.
//@ binary_{IN=f32,f16} OUT=IN
//@ binary_{IN=f32,f16}_{OUT=bool}
//@ BinaryTexture: binary[_constant=CONSTANT]_{TEXTURE=3d,2d}
//@ BinaryTexture: binary[_constant=CONSTANT]_{OUT=bool}_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "real_functions.glsl"
#ifdef TEXTURE
#include "texture.glsl"
#else
#include "strides.glsl"
#endif

layout(constant_id = 1) const uint kFunction = 0;
layout(constant_id = 2) const bool kSameShape = false;
layout(constant_id = 3) const uint kPacked = 0;  // of images
layout(constant_id = 4) const bool kSwap = false;
layout(push_constant) uniform Push {
#ifdef TEXTURE
  ivec4 x_size, y_size;  // CONSTANT: of y the strides
  ivec4 z_size;
#else
  WALK_2(x, y)
#endif
  float alpha;
  ACTIVATION
};
#ifdef TEXTURE
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
#ifdef CONSTANT
layout(set = 0, binding = 1) readonly buffer Y { float ys[]; };
#else
layout(set = 0, binding = 1) uniform READ_IMAGE ys;
#endif
#ifdef OUT
layout(set = 0, binding = 2) writeonly buffer Z { OUT zs[]; };
#else
layout(set = 0, binding = 2) writeonly uniform WRITE_IMAGE zs;
#endif
#else
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { IN ys[]; };
layout(set = 0, binding = 2) writeonly buffer Z { OUT zs[]; };
#endif

float f(float x, float y) {
  switch (kFunction) {
#include "binary_f32.inc"
  }
  return x;
}

#ifdef TEXTURE
#ifdef CONSTANT
vec4 second(ivec4 place) {
  vec4 y = vec4(0.0);
  place[kPacked] <<= 2;
  [[unroll]] for (int k = 0; k < 4; ++k) {
    if (place[kPacked] < z_size[kPacked])
      y[k] = ys[place.x * y_size.x + place.y * y_size.y + place.z * y_size.z + place.w * y_size.w];
    ++place[kPacked];
  }
  return y;
}
#else
vec4 second(ivec4 place) { return spread(ys, y_size, z_size, place, kPacked); }
#endif

void main() {
  const uint i = flat_id();
  const ivec3 t = texels_of(z_size, kPacked);
  if (i >= t.x * t.y * t.z * z_size.w) return;
  const ivec4 place = place_of(int(i), t);
  vec4 x = spread(xs, x_size, z_size, place, kPacked), y = second(place);
  if (kSwap) {
    const vec4 first = y;
    y = x;
    x = first;
  }
#ifdef OUT
  ivec4 e = place;
  e[kPacked] <<= 2;
  [[unroll]] for (int k = 0; k < 4; ++k) {
    if (e[kPacked] < z_size[kPacked]) zs[order_of(e, z_size)] = OUT(f(x[k], y[k]));
    ++e[kPacked];
  }
#else
  vec4 z;
  [[unroll]] for (int k = 0; k < 4; ++k) z[k] = activate(f(x[k], y[k]), act, act_a, act_b);
  put(zs, position_of(place, t), t.y, z);
#endif
}
#else
void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int at_x = int(i), at_y = int(i);
  if (!kSameShape) {
    STRIDED_OFFSET(at_x, i, rank, size, x_stride)
    STRIDED_OFFSET(at_y, i, rank, size, y_stride)
  }
  zs[i] = OUT(activate(f(float(xs[at_x]), float(ys[at_y])), act, act_a, act_b));
}
#endif
