#version 450
// y = condition ? a : b of images with broadcasting; the condition is in a buffer.
//@ where_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPacked = 0;
layout(push_constant) uniform Push {
  ivec4 a_size, b_size, y_size;
  ivec4 c_stride;
  uint n;
};
layout(set = 0, binding = 0) readonly buffer C { uint8_t cs[]; };
layout(set = 0, binding = 1) uniform READ_IMAGE as;
layout(set = 0, binding = 2) uniform READ_IMAGE bs;
layout(set = 0, binding = 3) writeonly uniform WRITE_IMAGE ys;

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const ivec3 t = texels_of(y_size, kPacked);
  const ivec4 place = place_of(int(i), t);
  const vec4 a = spread(as, a_size, y_size, place, kPacked), b = spread(bs, b_size, y_size, place, kPacked);
  ivec4 e = place;
  e[kPacked] <<= 2;
  bvec4 c = bvec4(false);
  [[unroll]] for (int k = 0; k < 4; ++k) {
    if (e[kPacked] < y_size[kPacked])
      c[k] = uint(cs[e.x * c_stride.x + e.y * c_stride.y + e.z * c_stride.z + e.w * c_stride.w]) != 0;
    ++e[kPacked];
  }
  put(ys, position_of(place, t), t.y, mix(b, a, c));
}
