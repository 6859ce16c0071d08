#version 450
// Sum, mean, largest or least of an image's elements over some of its dimensions, which stay as 1; a texel of the result
// an invocation.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPacked = 0;
layout(constant_id = 2) const uint kFunction = 0;  // 0 sum and mean, 1 largest, 2 least
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;
  float scale;  // of the result
  uint n;
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;

float join(float a, float b) {
  if (kFunction == 0) return a + b;
  return (kFunction == 1 ? b > a : b < a) || isnan(b) ? b : a;
}

void main() {
  if (flat_id() >= n) return;
  const ivec3 t = texels_of(x_size, kPacked), y_texels = texels_of(y_size, kPacked);
  const ivec4 place = place_of(int(flat_id()), y_texels), texels = ivec4(t, x_size.w);
  const bvec4 reduced = notEqual(x_size, y_size);
  const ivec4 begin = mix(place, ivec4(0), reduced), end = mix(place + 1, texels, reduced);
  const float first = kFunction == 0 ? 0.0 : uintBitsToFloat(kFunction == 1 ? 0xff800000u : 0x7f800000u);
  vec4 all = vec4(first);
  ivec4 p;
  for (p.w = begin.w; p.w < end.w; ++p.w)
    for (p.z = begin.z; p.z < end.z; ++p.z)
      for (p.y = begin.y; p.y < end.y; ++p.y)
        for (p.x = begin.x; p.x < end.x; ++p.x) {
          vec4 x = fetch(xs, position_of(p, t), t.y);
          x = mix(vec4(first), x, lessThan(ivec4(0, 1, 2, 3) + 4 * p[kPacked], ivec4(x_size[kPacked])));
          [[unroll]] for (int k = 0; k < 4; ++k) all[k] = join(all[k], x[k]);
        }
  if (reduced[kPacked]) all = vec4(join(join(all.x, all.y), join(all.z, all.w)));
  put(ys, position_of(place, y_texels), y_texels.y, all * scale);
}
