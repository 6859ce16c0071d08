#version 450
// Softmax along a dimension of an image, a line of texels an invocation: across the texels' elements when that
// dimension is the packed one, else four at once.
//@ softmax_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPacked = 0;
layout(constant_id = 2) const uint kAxis = 0;
layout(constant_id = 3) const bool kLog = false;
layout(push_constant) uniform Push {
  ivec4 size;
  float beta;
  uint n;
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;

#define kLowest uintBitsToFloat(0xff800000u)

// beta * x at a place; what is no element is minus infinity.
vec4 read(ivec4 place, ivec3 t) {
  const vec4 x = beta * fetch(xs, position_of(place, t), t.y);
  if (kAxis != kPacked) return x;
  return mix(vec4(kLowest), x, lessThan(ivec4(0, 1, 2, 3) + 4 * place[kAxis], ivec4(size[kAxis])));
}

void main() {
  if (flat_id() >= n) return;
  const ivec3 t = texels_of(size, kPacked);
  const ivec4 all = ivec4(t, size.w);
  ivec4 lines = all;
  lines[kAxis] = 1;
  ivec4 place = place_of(int(flat_id()), lines.xyz);
  vec4 best = vec4(kLowest);
  for (int k = 0; k < all[kAxis]; ++k) {
    place[kAxis] = k;
    const vec4 x = read(place, t);
    best = mix(best, x, greaterThan(x, best));
  }
  if (kAxis == kPacked) best = vec4(max(max(best.x, best.y), max(best.z, best.w)));
  vec4 sum = vec4(0.0);
  for (int k = 0; k < all[kAxis]; ++k) {
    place[kAxis] = k;
    sum += exp(read(place, t) - best);
  }
  if (kAxis == kPacked) sum = vec4(sum.x + sum.y + sum.z + sum.w);
  for (int k = 0; k < all[kAxis]; ++k) {
    place[kAxis] = k;
    const vec4 x = read(place, t) - best;
    put(ys, position_of(place, t), t.y, kLog ? x - log(sum) : exp(x) / sum);
  }
}
