#version 450
// Scaled dot-product attention, one workgroup a row of queries: keys in chunks, with a running maximum and sum.
// Specialization constants: 2 flags (below), 3 words between the key lengths of two batch entries, 4 words of a length.
//@ attention_{ELEMENT=f32,f16} MASK=ELEMENT
//@ attention_{ELEMENT=f16}_{MASK=f32}
//@ attention_{ELEMENT=f32,f16}_{MASK=bool}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"

const uint kCausal = 1, kFromEnd = 2, kPast = 4, kLengths = 8, kMask = 16, kSmooth = 32, kSinks = 64;
const uint kChunk = 512, kColumns = 4;  // keys at a time; columns of values a lane

#ifdef MASK_BOOL
#define MASKED(s, m) (m != uint8_t(0) ? s : -kInfinity)
#else
#define MASKED(s, m) (s + float(m))
#endif

layout(constant_id = 2) const uint kFlags = 0;
layout(constant_id = 3) const uint kLengthStep = 0;
layout(constant_id = 4) const uint kLengthWords = 1;
layout(push_constant) uniform Push {
  uint rows, q_heads, share, queries;
  int keys, past;
  uint depth, v_depth;
  uint q_stride[3], k_stride[3], v_stride[3], y_stride[3];  // batch, head, row
  uint mask_stride[4];
  int mask_keys;
  float scale, softcap;
  int window, window_right;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer Q { ELEMENT qs[]; };
layout(set = 0, binding = 1) readonly buffer K { ELEMENT ks[]; };
layout(set = 0, binding = 2) readonly buffer V { ELEMENT vs[]; };
layout(set = 0, binding = 3) readonly buffer PastK { ELEMENT past_ks[]; };
layout(set = 0, binding = 4) readonly buffer PastV { ELEMENT past_vs[]; };
layout(set = 0, binding = 5) readonly buffer Mask { MASK masks[]; };
layout(set = 0, binding = 6) readonly buffer Lengths { int lengths[]; };
layout(set = 0, binding = 7) readonly buffer Sinks { ELEMENT sinks[]; };
layout(set = 0, binding = 8) buffer Faults { uint faults[]; };
layout(set = 0, binding = 9) writeonly buffer Y { ELEMENT ys[]; };

shared float weights[kChunk];
ROW_FOLD(row_max, float, (b > a ? b : a))
ROW_FOLD(row_sum, float, a + b)

bool is(uint flag) { return (kFlags & flag) != 0; }

// The first and one past the last key that the query sees.
ivec2 visible(uint query, int valid) {
  int position = int(query);
  if (is(kFromEnd)) position += is(kPast) && !is(kLengths) ? past : valid - int(queries);
  int end = valid, begin = 0;
  if (is(kCausal)) end = clamp(position + 1, 0, valid);
  if (window_right >= 0 && window_right < valid) end = clamp(position + window_right + 1, 0, end);
  if (window >= 0 && window < valid + position) begin = clamp(position - window, 0, end);
  return ivec2(begin, is(kMask) ? min(end, mask_keys) : end);
}

float score(uint q_base, uint k_base, uint past_base, int key, uint mask_base) {
  float s = 0.0;
  if (is(kPast) && key < past) {
    const uint at = past_base + uint(key) * depth;
    for (uint d = 0; d < depth; ++d) s += float(qs[q_base + d]) * float(past_ks[at + d]);
  } else {
    const uint at = k_base + uint(key - past) * k_stride[2];
    for (uint d = 0; d < depth; ++d) s += float(qs[q_base + d]) * float(ks[at + d]);
  }
  s *= scale;
  if (softcap > 0.0) s = softcap * tanh(clamp(s / softcap, -15.0, 15.0));
  if (is(kMask)) {
    s = MASKED(s, masks[mask_base + uint(key) * mask_stride[3]]);
  }
  return s;
}

void main() {
  const uint row = flat_group(), lane = gl_LocalInvocationID.x;
  if (row >= rows) return;
  const uint query = row % queries, head = row / queries % q_heads, batch = row / (queries * q_heads);
  const uint kv = head / share, kv_heads = q_heads / share;
  int valid = keys;
  if (is(kLengths)) {
    valid = lengths[batch * kLengthStep];
    const bool high = kLengthWords == 2 && lengths[batch * kLengthStep + 1] != 0;
    if (high || valid < 0 || valid > keys) {
      if (lane == 0) faults[0] = fault_code;
      return;
    }
  }
  const ivec2 seen = visible(query, valid);
  const uint q_base = batch * q_stride[0] + head * q_stride[1] + query * q_stride[2];
  const uint k_base = batch * k_stride[0] + kv * k_stride[1], v_base = batch * v_stride[0] + kv * v_stride[1];
  const uint past_head = (batch * kv_heads + kv) * uint(past);
  const uint mask_base = batch * mask_stride[0] + head * mask_stride[1] + query * mask_stride[2];
  float top = is(kSmooth) ? 0.0 : -kInfinity, sum = is(kSmooth) ? 1.0 : 0.0;
  if (is(kSinks)) {  // one more logit
    const float sink = float(sinks[head]), most = max(top, sink);
    if (sink > -kInfinity) sum = sum * exp(top - most) + exp(sink - most);
    top = most;
  }
  float acc[kColumns];
  for (uint m = 0; m < kColumns; ++m) acc[m] = 0.0;
  for (int from = seen.x; from < seen.y; from += int(kChunk)) {
    const uint n = min(kChunk, uint(seen.y - from));
    float most = -kInfinity;
    barrier();
    for (uint j = lane; j < n; j += kLanes) {
      const float s = score(q_base, k_base, past_head * depth, from + int(j), mask_base);
      weights[j] = s;
      if (s > most) most = s;
    }
    const float next = max(top, row_max(most));
    if (next == -kInfinity) continue;
    const float factor = exp(top - next);
    float part = 0.0;
    for (uint j = lane; j < n; j += kLanes) {
      const float e = exp(weights[j] - next);
      weights[j] = e;
      part += e;
    }
    sum = sum * factor + row_sum(part);
    for (uint m = 0; m < kColumns; ++m) {
      const uint d = lane + m * kLanes;
      if (d >= v_depth) break;
      float a = acc[m] * factor;
      for (uint j = 0; j < n; ++j) {
        const int key = from + int(j);
        a += weights[j] * (is(kPast) && key < past ? float(past_vs[(past_head + uint(key)) * v_depth + d])
                                                   : float(vs[v_base + uint(key - past) * v_stride[2] + d]));
      }
      acc[m] = a;
    }
    top = next;
  }
  const uint y_base = batch * y_stride[0] + head * y_stride[1] + query * y_stride[2];
  for (uint m = 0; m < kColumns; ++m) {
    const uint d = lane + m * kLanes;
    if (d < v_depth) ys[y_base + d] = ELEMENT(sum == 0.0 ? 0.0 : acc[m] / sum);
  }
}
