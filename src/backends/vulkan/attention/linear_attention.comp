#version 450
// Steps [first, first + count) of linear attention: each decays the state (kGated), corrects what its key reads
// (kDelta), adds key x value and reads it by the queries. An invocation has a column of the state of one key head.
//@ linear_attention
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool kGated = false;
layout(constant_id = 2) const bool kDelta = false;
layout(push_constant) uniform Push {
  uint n, steps, key, value, q_heads, kv_heads;
  uint decay_width, beta_width;  // entries a token
  uint first, count;
  float scale;
};
layout(set = 0, binding = 0) readonly buffer Q { float qs[]; };
layout(set = 0, binding = 1) readonly buffer K { float ks[]; };
layout(set = 0, binding = 2) readonly buffer V { float vs[]; };
layout(set = 0, binding = 3) readonly buffer Decay { float decays[]; };
layout(set = 0, binding = 4) readonly buffer Beta { float betas[]; };
layout(set = 0, binding = 5) buffer State { float states[]; };  // [batch, key head, key, value]
layout(set = 0, binding = 6) writeonly buffer Y { float ys[]; };

void main() {
  const uint id = flat_id();
  if (id >= n) return;
  const uint column = id % value, head = id / value % kv_heads, image = id / (value * kv_heads);
  const uint state_at = (image * kv_heads + head) * key * value + column, group = q_heads / kv_heads;
  for (uint t = first; t < first + count; ++t) {
    const uint token = image * steps + t, k_at = (token * kv_heads + head) * key;
    const bool one_decay = decay_width == kv_heads;
    const uint decay_at = token * decay_width + (one_decay ? head : head * key);
    float seen = 0.0;
    if (kGated || kDelta)
      for (uint i = 0; i < key; ++i) {
        float m = states[state_at + i * value];
        if (kGated) {
          m *= exp(decays[decay_at + (one_decay ? 0 : i)]);
          states[state_at + i * value] = m;
        }
        seen += m * ks[k_at + i];
      }
    float step = vs[(token * kv_heads + head) * value + column];
    if (kDelta) step = (step - seen) * betas[token * beta_width + (beta_width == 1 ? 0 : head)];
    for (uint i = 0; i < key; ++i) states[state_at + i * value] += ks[k_at + i] * step;
    for (uint r = 0; r < group; ++r) {
      const uint reader = token * q_heads + head * group + r;
      float sum = 0.0;
      for (uint i = 0; i < key; ++i) sum += qs[reader * key + i] * states[state_at + i * value];
      ys[reader * value + column] = scale * sum;
    }
  }
}
