#version 450
// Two dimensions of an image replaced by weighted sums along them; neither is the packed one. `table` holds for each of
// the two where the taps of every coordinate begin, and the taps: place and weight. A tap with place -1 stands for the
// extrapolation value.
//@ resize_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPacked = 0;
layout(constant_id = 2) const uint kFirst = 0;  // the two dimensions
layout(constant_id = 3) const uint kSecond = 1;
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;
  uint begins[2];  // in the table
  uint n;
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) readonly buffer T { uint table[]; };
layout(set = 0, binding = 2) writeonly uniform WRITE_IMAGE ys;

void main() {
  if (flat_id() >= n) return;
  const ivec3 t = texels_of(x_size, kPacked), y_texels = texels_of(y_size, kPacked);
  const ivec4 place = place_of(int(flat_id()), y_texels);
  ivec4 p = place;
  vec4 sum = vec4(0.0);
  const uint a = begins[0] + place[kFirst], b = begins[1] + place[kSecond];
  for (uint i = table[a]; i < table[a + 1]; i += 2) {
    p[kFirst] = int(table[i]);
    const float w = uintBitsToFloat(table[i + 1]);
    if (p[kFirst] < 0) {
      sum += w;
      continue;
    }
    for (uint k = table[b]; k < table[b + 1]; k += 2) {
      p[kSecond] = int(table[k]);
      const float v = uintBitsToFloat(table[k + 1]);
      sum += w * v * (p[kSecond] < 0 ? vec4(1.0) : fetch(xs, position_of(p, t), t.y));
    }
  }
  put(ys, position_of(place, y_texels), y_texels.y, sum);
}
