#version 450
// Blocks of an image normalized by their own statistics: y = act((x - mean) * inverse * scale + bias). kLanes
// invocations work on a block together. kJoined: the packed dimension is part of the blocks; else the four elements of
// a texel belong to four of them. Scale and bias are in buffers.
//@ norm_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "row_reduction.glsl"
#include "texture.glsl"

layout(constant_id = 2) const uint kKind = 0;  // norm.glsl
layout(constant_id = 3) const uint kPacked = 0;
layout(constant_id = 4) const bool kJoined = false;
layout(constant_id = 5) const bool kScale = false;
layout(constant_id = 6) const bool kBias = false;
layout(constant_id = 7) const uint kStatistics = 0;  // that are wanted: 1 mean, 2 inverse
layout(push_constant) uniform Push {
  ivec4 x_size;
  ivec4 block;  // texels, and images
  ivec4 scale_stride, bias_stride;
  uint rows;   // blocks
  uint count;  // elements of a block
  float epsilon;
  ACTIVATION
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) readonly buffer Scale { float scales[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float biases[]; };
layout(set = 0, binding = 3) writeonly uniform WRITE_IMAGE ys;
layout(set = 0, binding = 4) writeonly buffer Mean { float means[]; };
layout(set = 0, binding = 5) writeonly buffer Inverse { float inverses[]; };
ROW_FOLD(row_sum, vec4, a + b)
#include "norm.glsl"

// The sum over a block, for each lane of its texels.
vec4 fold(vec4 sum) {
  sum = row_sum(sum);
  return kJoined ? vec4(sum.x + sum.y + sum.z + sum.w) : sum;
}

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const ivec3 t = texels_of(x_size, kPacked);
  const ivec4 all = ivec4(t, x_size.w), base = place_of(int(row), all.xyz / block.xyz) * block;
  const int texels = block.x * block.y * block.z * block.w;
  const ivec4 lanes = ivec4(0, 1, 2, 3);
  vec4 mean = vec4(0.0), sum = vec4(0.0), inverse = vec4(1.0);
  for (int pass = kKind == kMoments || kKind == kDeviation ? 0 : 1; pass < 2 && kKind != kGiven; ++pass) {
    sum = vec4(0.0);
    for (int k = int(lane); k < texels; k += int(kLanes)) {
      const ivec4 p = base + place_of(k, block.xyz);
      vec4 v = fetch(xs, position_of(p, t), t.y) - mean;
      if (pass == 1) v = kKind == kL1 || kKind == kL1Max ? abs(v) : v * v;
      sum += mix(vec4(0.0), v, lessThan(lanes + 4 * p[kPacked], ivec4(x_size[kPacked])));
    }
    sum = fold(sum);
    if (pass == 0) mean = sum / float(count);
  }
  if (kKind != kGiven)
    [[unroll]] for (int k = 0; k < 4; ++k) inverse[k] = inverse_of(sum[k]);
  for (int k = int(lane); k < texels; k += int(kLanes)) {
    const ivec4 p = base + place_of(k, block.xyz);
    ivec4 e = p;
    e[kPacked] <<= 2;
    vec4 v = (fetch(xs, position_of(p, t), t.y) - mean) * inverse;
    [[unroll]] for (int i = 0; i < 4; ++i) {
      if (e[kPacked] < x_size[kPacked]) {
        if (kScale)
          v[i] *= scales[e.x * scale_stride.x + e.y * scale_stride.y + e.z * scale_stride.z + e.w * scale_stride.w];
        if (kBias)
          v[i] += biases[e.x * bias_stride.x + e.y * bias_stride.y + e.z * bias_stride.z + e.w * bias_stride.w];
        v[i] = activate(v[i], act, act_a, act_b);
      }
      ++e[kPacked];
    }
    put(ys, position_of(p, t), t.y, v);
  }
  if (kStatistics == 0 || lane != 0) return;
  ivec4 blocks = all / block, e = base / block;  // blocks, or single elements along the packed dimension
  if (!kJoined) {
    blocks[kPacked] = x_size[kPacked];
    e[kPacked] <<= 2;
  }
  for (int k = 0; k < (kJoined ? 1 : 4) && e[kPacked] < blocks[kPacked]; ++k, ++e[kPacked]) {
    if ((kStatistics & 1) != 0) means[order_of(e, blocks)] = mean[k];
    if ((kStatistics & 2) != 0) inverses[order_of(e, blocks)] = inverse[k];
  }
}
