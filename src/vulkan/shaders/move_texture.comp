#version 450
// A block of one image's elements put into another, its dimensions permuted: y[to + i] = x[at + step * i permuted]. An
// invocation gives a texel of the block. Specialization constant 2 says that whole texels move.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPacked = 0;
layout(constant_id = 2) const bool kWhole = false;
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;
  ivec4 block;     // elements; dimensions are those of y
  ivec4 to;        // where the block begins in y
  ivec4 at, step;  // where it begins in x, and what a step along each dimension of the block is there
  uint axes;       // two bits a dimension of the block: which dimension of x it is
  uint n;
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;

ivec4 source(ivec4 i) {
  ivec4 e = at;
  [[unroll]] for (uint d = 0; d < 4; ++d) e[axes >> 2 * d & 3] += i[d] * step[d];
  return e;
}

vec4 texel(ivec4 e) {
  const ivec3 t = texels_of(x_size, kPacked);
  e[kPacked] >>= 2;
  return fetch(xs, position_of(e, t), t.y);
}

void main() {
  const uint flat_at = flat_id();
  if (flat_at >= n) return;
  ivec4 place = place_of(int(flat_at), texels_of(block, kPacked)), i = place;
  i[kPacked] <<= 2;
  vec4 y = vec4(0.0);
  if (kWhole) {
    y = texel(source(i));
  } else {
    [[unroll]] for (int k = 0; k < 4; ++k) {
      if (i[kPacked] < block[kPacked]) {
        const ivec4 e = source(i);
        y[k] = texel(e)[e[kPacked] & 3];
      }
      ++i[kPacked];
    }
  }
  ivec4 first = to;
  first[kPacked] >>= 2;
  const ivec3 t = texels_of(y_size, kPacked);
  put(ys, position_of(place + first, t), t.y, y);
}
