#version 450
// y = act(alpha * a * b + c) of matrices in images whose texels are four neighbours of a row; leading dimensions of 1
// repeat. FP16_MULTIPLY: products in float16, sums in float32. An invocation gives four columns of four rows. c: a row,
// in a buffer.
//@ matmul[_fp16_multiply=FP16_MULTIPLY]_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "texture.glsl"

#ifdef FP16_MULTIPLY
#define FACTORS f16vec4
#else
#define FACTORS vec4
#endif

layout(constant_id = 1) const bool kTransposeA = false;  // a is stored with a column of the product's as a row
layout(constant_id = 2) const bool kTransposeB = false;
layout(constant_id = 3) const bool kRow = false;  // there is a c
layout(push_constant) uniform Push {
  ivec4 a_size, b_size, y_size;
  int depth;
  uint n;
  float alpha;
  ACTIVATION
};
layout(set = 0, binding = 0) uniform READ_IMAGE as;
layout(set = 0, binding = 1) uniform READ_IMAGE bs;
layout(set = 0, binding = 2) readonly buffer C { float cs[]; };
layout(set = 0, binding = 3) writeonly uniform WRITE_IMAGE ys;

// The texel of columns 4 * column to 4 * column + 3; zero beyond the matrix.
vec4 texel(READ_IMAGE image, ivec4 size, int column, int row, ivec2 batch) {
  if (row >= size.y || 4 * column >= size.x) return vec4(0.0);
  const ivec3 t = texels_of(size, 0);
  batch = min(batch, size.zw - 1);
  const vec4 x = fetch(image, position_of(ivec4(column, row, batch), t), t.y);
  return mix(vec4(0.0), x, lessThan(ivec4(0, 1, 2, 3) + 4 * column, ivec4(size.x)));
}

// Four rows of four columns, from texel (column, row).
mat4 block(READ_IMAGE image, ivec4 size, int column, int row, ivec2 batch) {
  mat4 m;
  [[unroll]] for (int k = 0; k < 4; ++k) m[k] = texel(image, size, column, row + k, batch);
  return m;
}

void main() {
  if (flat_id() >= n) return;
  const ivec3 y_texels = texels_of(y_size, 0);
  const ivec4 place = place_of(int(flat_id()), ivec3(y_texels.x, (y_size.y + 3) / 4, y_texels.z));
  const int row = place.y * 4;
  mat4 sum = mat4(0.0);  // by row
  for (int k = 0; k * 4 < depth; ++k) {
    mat4 a = kTransposeA ? transpose(block(as, a_size, place.y, k * 4, place.zw)) : block(as, a_size, k, row, place.zw);
    mat4 b = kTransposeB ? transpose(block(bs, b_size, k, place.x * 4, place.zw))
                         : block(bs, b_size, place.x, k * 4, place.zw);
    [[unroll]] for (int r = 0; r < 4; ++r)
      [[unroll]] for (int i = 0; i < 4; ++i) sum[r] += vec4(FACTORS(a[r][i]) * FACTORS(b[i]));
  }
  vec4 c = vec4(0.0);
  if (kRow)
    [[unroll]] for (int k = 0; k < 4; ++k) c[k] = place.x * 4 + k < y_size.x ? cs[place.x * 4 + k] : 0.0;
  [[unroll]] for (int r = 0; r < 4; ++r) {
    if (row + r >= y_size.y) continue;
    vec4 y = alpha * sum[r] + c;
    [[unroll]] for (int k = 0; k < 4; ++k) y[k] = activate(y[k], act, act_a, act_b);
    put(ys, position_of(ivec4(place.x, row + r, place.zw), y_texels), y_texels.y, y);
  }
}
