#version 450
// Sum, mean, largest or least of an image's elements over some of its dimensions; a texel of the result an invocation.
// The result's dimensions are those of x in another order, the reduced ones 1.
//@ reduce_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPacked = 0;   // of the result
layout(constant_id = 2) const uint kPackedX = 0;
layout(constant_id = 3) const uint kFunction = 0;  // 0 sum and mean, 1 largest, 2 least
layout(constant_id = 4) const uint kAxes = 0;      // two bits a dimension of the result: which one of x it is
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;
  ivec4 reduced;  // by dimension of x: 1 or 0
  float scale;    // of the result
  uint n;
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;

float join(float a, float b) {
  if (kFunction == 0) return a + b;
  return (kFunction == 1 ? b > a : b < a) || isnan(b) ? b : a;
}

// All texels of x from `begin` on that the result at that place comes from, lane by lane.
vec4 reduce(ivec4 begin, ivec3 t) {
  const ivec4 end = mix(begin + 1, ivec4(t, x_size.w), notEqual(reduced, ivec4(0)));
  const float first = kFunction == 0 ? 0.0 : uintBitsToFloat(kFunction == 1 ? 0xff800000u : 0x7f800000u);
  vec4 all = vec4(first);
  ivec4 p;
  for (p.w = begin.w; p.w < end.w; ++p.w)
    for (p.z = begin.z; p.z < end.z; ++p.z)
      for (p.y = begin.y; p.y < end.y; ++p.y)
        for (p.x = begin.x; p.x < end.x; ++p.x) {
          vec4 x = fetch(xs, position_of(p, t), t.y);
          x = mix(vec4(first), x, lessThan(ivec4(0, 1, 2, 3) + 4 * p[kPackedX], ivec4(x_size[kPackedX])));
          [[unroll]] for (int k = 0; k < 4; ++k) all[k] = join(all[k], x[k]);
        }
  return all;
}

// A place of the result among the dimensions of x.
ivec4 in_x(ivec4 y) {
  ivec4 x = ivec4(0);
  [[unroll]] for (uint d = 0; d < 4; ++d) x[kAxes >> 2 * d & 3] = y[d];
  return x;
}

void main() {
  if (flat_id() >= n) return;
  const ivec3 t = texels_of(x_size, kPackedX), y_texels = texels_of(y_size, kPacked);
  const ivec4 place = place_of(int(flat_id()), y_texels);
  vec4 y = vec4(0.0);
  if ((kAxes >> 2 * kPacked & 3) == kPackedX && reduced[kPackedX] == 0) {
    y = reduce(in_x(place), t);
  } else {
    ivec4 e = place;
    e[kPacked] <<= 2;
    for (int k = 0; k < 4 && e[kPacked] < y_size[kPacked]; ++k, ++e[kPacked]) {
      ivec4 begin = in_x(e);
      const int lane = begin[kPackedX] & 3;
      begin[kPackedX] >>= 2;
      const vec4 x = reduce(begin, t);
      y[k] = reduced[kPackedX] != 0 ? join(join(x.x, x.y), join(x.z, x.w)) : x[lane];
    }
  }
  put(ys, position_of(place, y_texels), y_texels.y, y * scale);
}
