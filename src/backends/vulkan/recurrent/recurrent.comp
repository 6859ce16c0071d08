#version 450
// Steps [first, first + count) of one direction of a recurrent network (ONNX RNN, GRU, LSTM), a workgroup a sequence, a
// lane some units. Between dispatches the states lie in `states`. Specialization constants: 1 the cell, 2 which
// operands are there (codes below), 3 words of a length, 4 to 6 the activations (RecurrentGate::Fn), 7 that products
// see states on the 8-bit grid of those of all sequences: then a dispatch is one step, which keeps its new states apart
// from the old ones.
//@ recurrent
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "real_functions.glsl"
#include "dynamic_quant.glsl"

const uint kRnn = 0, kGru = 1, kLstm = 2;
const uint kBias = 1, kLengths = 2, kInitialH = 4, kInitialC = 8, kPeephole = 16, kAll = 32, kLastH = 64, kLastC = 128;
const uint kBackward = 1, kLinearBeforeReset = 2, kInputForget = 4;

layout(constant_id = 1) const uint kCell = 0;
layout(constant_id = 2) const uint kPresent = 0;
layout(constant_id = 3) const uint kLengthWords = 1;
layout(constant_id = 4) const uint kFn0 = 9;
layout(constant_id = 5) const uint kFn1 = 9;
layout(constant_id = 6) const uint kFn2 = 9;
layout(constant_id = 7) const bool kRounded = false;
layout(push_constant) uniform Push {
  uint steps, inputs, hidden;
  uint x_step, x_batch, y_step, y_at, y_batch, s_at, s_batch;
  uint w_at, r_at, b_at, p_at;
  uint w_unit, w_k, r_unit, r_k;  // strides of the weights
  uint first, count, flags;
  float clip;  // 0: none
  float alpha[3], beta[3];
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { float xs[]; };
layout(set = 0, binding = 1) readonly buffer W { float ws[]; };
layout(set = 0, binding = 2) readonly buffer R { float rs[]; };
layout(set = 0, binding = 3) readonly buffer B { float bs[]; };
layout(set = 0, binding = 4) readonly buffer Lengths { int lengths[]; };
layout(set = 0, binding = 5) readonly buffer H { float h0s[]; };
layout(set = 0, binding = 6) readonly buffer C { float c0s[]; };
layout(set = 0, binding = 7) readonly buffer P { float ps[]; };
layout(set = 0, binding = 8) writeonly buffer Y { float ys[]; };
layout(set = 0, binding = 9) writeonly buffer YH { float yhs[]; };
layout(set = 0, binding = 10) writeonly buffer YC { float ycs[]; };
layout(set = 0, binding = 11) buffer States { float states[]; };  // h, and c or a gate, of each sequence
layout(set = 0, binding = 12) writeonly buffer Faults { uint faults[]; };

const uint kMaxHidden = 1024;
shared float hs[2][kMaxHidden];    // the state that a step reads, and the one that it makes
shared float reset[kMaxHidden];
shared float lows[256], highs[256];

float gate(uint fn, float x, float a, float b) {
  switch (fn) {
    case 0: return a * x + b;
    case 1: return x >= 0.0 ? x : a * expm1_of(x);
    case 2: return min(max(a * x + b, 0.0), 1.0);
    case 3: return x >= 0.0 ? x : a * x;
    case 4: return x > 0.0 ? x : 0.0;
    case 5: return a * tanh_of(b * x);
    case 6: return sigmoid_of(x);
    case 7: return softplus_of(x);
    case 8: return x / (1.0 + abs(x));
    case 10: return x > a ? x : 0.0;
  }
  return tanh_of(x);
}
float clipped(float x) { return clip > 0.0 ? (x < -clip ? -clip : (x > clip ? clip : x)) : x; }
float gate0(float x) { return gate(kFn0, clipped(x), alpha[0], beta[0]); }
float gate1(float x) { return gate(kFn1, clipped(x), alpha[1], beta[1]); }

// Biases and the products with x and h, for the gates [from, to) of a unit.
const uint kGates = kCell == kRnn ? 1 : (kCell == kGru ? 3 : 4);
float pre[4];
void products(uint unit, uint x_at, uint now, uint recurrent) {
  for (uint g = 0; g < kGates; ++g) {
    const uint row = g * hidden + unit;
    pre[g] = (kPresent & kBias) != 0 ? bs[b_at + row] : 0.0;
    if ((kPresent & kBias) != 0 && g < recurrent) pre[g] += bs[b_at + kGates * hidden + row];
  }
  for (uint k = 0; k < inputs; ++k) {
    const float x = xs[x_at + k];
    [[unroll]] for (uint g = 0; g < 4; ++g)
      if (g < kGates) pre[g] += ws[w_at + (g * hidden + unit) * w_unit + k * w_k] * x;
  }
  for (uint k = 0; k < hidden; ++k) {
    const float h = hs[now][k];
    [[unroll]] for (uint g = 0; g < 4; ++g)
      if (g < recurrent) pre[g] += rs[r_at + (g * hidden + unit) * r_unit + k * r_k] * h;
  }
}
float candidate_of(uint unit, uint now, bool of_reset) {
  const uint row = 2 * hidden + unit;
  float sum = (kPresent & kBias) != 0 ? bs[b_at + 3 * hidden + row] : 0.0;
  for (uint k = 0; k < hidden; ++k) sum += rs[r_at + row * r_unit + k * r_k] * (of_reset ? reset[k] : hs[now][k]);
  return sum;
}

// Where the states of a sequence lie as a dispatch finds them, and as it leaves them.
uint old_state(uint n) { return (kRounded && first % 2 == 1 ? gl_NumWorkGroups.x + n : n) * 2 * hidden; }
uint new_state(uint n) { return (kRounded && first % 2 == 0 ? gl_NumWorkGroups.x + n : n) * 2 * hidden; }
float state_of(uint n, uint u) {
  if (first > 0) return states[old_state(n) + u];
  return (kPresent & kInitialH) != 0 ? h0s[s_at + n * s_batch + u] : 0.0;
}

// The states of this sequence, in hs[0], take the quantization parameters of all.
void round_states(uint lane, uint width) {
  float low = 0.0, high = 0.0;
  for (uint n = 0; n < gl_NumWorkGroups.x; ++n)
    for (uint u = lane; u < hidden; u += width) {
      const float h = state_of(n, u);
      if (h < low) low = h;
      if (h > high) high = h;
    }
  lows[lane] = low;
  highs[lane] = high;
  for (uint step = width / 2; step > 0; step /= 2) {
    barrier();
    if (lane < step) {
      lows[lane] = min(lows[lane], lows[lane + step]);
      highs[lane] = max(highs[lane], highs[lane + step]);
    }
  }
  barrier();
  const QuantParams g = choose_quant_params(kAsymmetric, lows[0], highs[0], 0, 255, 0.0);
  for (uint u = lane; u < hidden; u += width)
    hs[0][u] = g.scale * (quantized_value(kAsymmetric, hs[0][u], g, 0, 255) - float(g.zero));
}

void main() {
  const uint n = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, width = gl_WorkGroupSize.x;
  const uint state_at = n * 2 * hidden;
  uint now = 0;
  for (uint u = lane; u < hidden; u += width) {
    float c = 0.0;
    if (first > 0) {
      c = states[state_at + hidden + u];
    } else if ((kPresent & kInitialC) != 0) {
      c = c0s[s_at + n * s_batch + u];
    }
    hs[0][u] = state_of(n, u);
    states[state_at + hidden + u] = c;
  }
  uint length = steps;
  if ((kPresent & kLengths) != 0) {
    const int given = lengths[n * kLengthWords];
    if (given < 0 || given > int(steps) || (kLengthWords == 2 && lengths[n * 2 + 1] != given >> 31))
      faults[0] = fault_code;
    length = uint(clamp(given, 0, int(steps)));
  }
  if (kRounded && first < length) round_states(lane, width);
  barrier();
  for (uint k = first; k < first + count; ++k) {
    const bool runs = k < length;
    const uint t = runs && (flags & kBackward) != 0 ? length - 1 - k : k;
    const uint x_at = t * x_step + n * x_batch, y_to = t * y_step + y_at + n * y_batch;
    if (!runs) {
      for (uint u = lane; u < hidden; u += width)
        if ((kPresent & kAll) != 0) ys[y_to + u] = 0.0;
      continue;
    }
    const uint next = 1 - now;
    for (uint u = lane; u < hidden; u += width) {
      const uint cell_at = state_at + hidden + u;
      if (kCell == kRnn) {
        products(u, x_at, now, 1);
        hs[next][u] = gate0(pre[0]);
      } else if (kCell == kGru) {
        products(u, x_at, now, 2);
        const float z = gate0(pre[0]), r = gate0(pre[1]);
        if ((flags & kLinearBeforeReset) != 0) {
          hs[next][u] = (1.0 - z) * gate1(pre[2] + r * candidate_of(u, now, false)) + z * hs[now][u];
        } else {
          reset[u] = r * hs[now][u];
          states[cell_at] = z;
          hs[next][u] = pre[2];
        }
      } else {
        products(u, x_at, now, 4);
        const bool peeps = (kPresent & kPeephole) != 0;
        const float c = states[cell_at];
        const float inp = gate0(pre[0] + (peeps ? ps[p_at + u] * c : 0.0));
        const float forget =
            (flags & kInputForget) != 0 ? 1.0 - inp : gate0(pre[2] + (peeps ? ps[p_at + 2 * hidden + u] * c : 0.0));
        const float updated = forget * c + inp * gate1(pre[3]);
        const float outp = gate0(pre[1] + (peeps ? ps[p_at + hidden + u] * updated : 0.0));
        states[cell_at] = updated;
        hs[next][u] = outp * gate(kFn2, updated, alpha[2], beta[2]);
      }
    }
    if (kCell == kGru && (flags & kLinearBeforeReset) == 0) {
      barrier();
      for (uint u = lane; u < hidden; u += width) {
        const float z = states[state_at + hidden + u];
        hs[next][u] = (1.0 - z) * gate1(hs[next][u] + candidate_of(u, now, true)) + z * hs[now][u];
      }
    }
    barrier();
    now = next;
    if ((kPresent & kAll) != 0)
      for (uint u = lane; u < hidden; u += width) ys[y_to + u] = hs[now][u];
  }
  const bool ends = first + count == steps;
  for (uint u = lane; u < hidden; u += width) {
    const float h = hs[now][u], c = states[state_at + hidden + u];
    states[new_state(n) + u] = h;
    const uint to = s_at + n * s_batch + u;
    if (ends && (kPresent & kLastH) != 0) yhs[to] = length == 0 ? 0.0 : h;
    if (ends && (kPresent & kLastC) != 0) ycs[to] = length == 0 ? 0.0 : c;
  }
}
