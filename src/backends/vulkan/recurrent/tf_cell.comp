#version 450
// Steps [first, first + count) of one direction of TFLite's RNN and LSTM operators of float32 activations, a workgroup
// a sequence, a lane some units. The weights are one table (tf_recurrent.cc): four gates (input, forget, cell, output),
// or the only one of an RNN, each with its parts in the order of part_of(); units are innermost. Specialization
// constants: 1 the workgroup's width again, 2 what there is.
//@ tf_cell
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "real_functions.glsl"
#include "dynamic_quant.glsl"
#include "activation.glsl"

const uint kQuantizes = 1, kAsymmetricRows = 2, kDiagonal = 4, kPeephole = 8, kNorm = 16, kCoupled = 32,
           kProjection = 64, kRnn = 128, kWritesY = 256, kWritesH = 512, kWritesC = 1024, kBackward = 2048;

layout(constant_id = 2) const uint kHas = 0;
layout(push_constant) uniform Push {
  uint steps, time, features, aux_features, units, outputs;
  uint x_step, x_batch, a_step, a_batch, y_step, y_batch, y_at;
  uint first, count;
  float cell_clip, projection_clip;  // 0: none
  ACTIVATION
};
layout(set = 0, binding = 0) readonly buffer X { float xs[]; };
layout(set = 0, binding = 1) readonly buffer A { float as[]; };
layout(set = 0, binding = 2) readonly buffer W { uint ws[]; };  // floats, or quantized values where rows are quantized
layout(set = 0, binding = 3) readonly buffer H { float h0s[]; };
layout(set = 0, binding = 4) readonly buffer C { float c0s[]; };
layout(set = 0, binding = 5) writeonly buffer Y { float ys[]; };
layout(set = 0, binding = 6) writeonly buffer HN { float hns[]; };
layout(set = 0, binding = 7) writeonly buffer CN { float cns[]; };
layout(set = 0, binding = 8) coherent buffer Scratch { uint scratch[]; };  // of each sequence: h, c, gates, out, rows

ROW_FOLD(row_least, float, (b < a ? b : a))
ROW_FOLD(row_most, float, (b > a ? b : a))
ROW_FOLD(row_sum, float, (a + b))

const uint kGates = (kHas & kRnn) != 0 ? 1 : 4;
bool has(uint what) { return (kHas & what) != 0; }
float real(uint at) { return uintBitsToFloat(scratch[at]); }
float weight(uint at) { return uintBitsToFloat(ws[at]); }
void settle() {
  memoryBarrierBuffer();
  barrier();
}
float act_of(float x) {
  if (act == 2) return tanh_of(x);
  return act == 4 ? sigmoid_of(x) : activate(x, act, act_a, act_b);
}
float clipped(float x, float bound) { return bound > 0.0 ? clamp(x, -bound, bound) : x; }

// Parts of a gate's weights: 0 of x, 1 of the auxiliary input, 2 of h (a vector when diagonal), 3 peephole, 4 norm,
// 5 bias; 6: the whole gate. Before the first gate are 16 scales: three a gate, then the projection's.
uint part_of(uint part) {
  uint at = 0;
  if (part > 0) at += features * units;
  if (part > 1) at += aux_features * units;
  if (part > 2) at += has(kDiagonal) ? units : outputs * units;
  if (part > 3 && has(kPeephole)) at += units;
  if (part > 4 && has(kNorm)) at += units;
  if (part > 5) at += units;
  return at;
}
uint gate_at(uint gate) { return 16 + gate * part_of(6); }

// Where the parts of this sequence's scratch begin.
uint h_at, c_at, gates_at, out_at, rows_at;

// The rows that products read, float or quantized. `from`: 0 x, 1 the auxiliary input, 2 h,
// 3 the output before its projection.
float source(uint from, uint at) { return from == 0 ? xs[at] : (from == 1 ? as[at] : real(at)); }
QuantParams quantize(uint from, uint at, uint n, uint to) {
  const uint rule = has(kAsymmetricRows) ? kTfliteAsymmetric : kTfliteSymmetric;
  float least = 0.0, most = 0.0;
  for (uint k = row_lane(); k < n; k += kLanes) {
    const float v = source(from, at + k);
    if (v < least) least = v;
    if (v > most) most = v;
  }
  const QuantParams g = choose_quant_params(rule, row_least(least), row_most(most), -128, 127, 0.0);
  for (uint k = row_lane(); k < n; k += kLanes)
    scratch[to + k] = uint(int(quantized_value(rule, source(from, at + k), g, -128, 127)));
  return g;
}

float pre[4];
void add_products(uint from, uint at, uint n, uint part, uint unit, float scale, int zero) {
  if (has(kQuantizes)) {
    int sums[4] = int[4](0, 0, 0, 0);
    for (uint k = 0; k < n; ++k) {
      const int v = int(scratch[at + k]) - zero;
      [[unroll]] for (uint g = 0; g < 4; ++g)
        if (g < kGates) sums[g] += int(ws[gate_at(g) + part_of(part) + k * units + unit]) * v;
    }
    for (uint g = 0; g < kGates; ++g) pre[g] += float(sums[g]) * (scale * weight(3 * g + part));
    return;
  }
  float sums[4] = float[4](0.0, 0.0, 0.0, 0.0);
  for (uint k = 0; k < n; ++k) {
    const float v = source(from, at + k);
    [[unroll]] for (uint g = 0; g < 4; ++g)
      if (g < kGates) sums[g] += weight(gate_at(g) + part_of(part) + k * units + unit) * v;
  }
  for (uint g = 0; g < kGates; ++g) pre[g] += sums[g];
}

// Mean 0 and variance 1 of a gate's accumulators, then its scale and bias.
void normalize(uint gate) {
  const uint base = gates_at + gate * units;
  float sum = 0.0, squares = 0.0;
  for (uint u = row_lane(); u < units; u += kLanes) sum += real(base + u);
  const float mean = row_sum(sum) / float(units);
  for (uint u = row_lane(); u < units; u += kLanes) {
    const float d = real(base + u) - mean;
    squares += d * d;
  }
  const float factor = 1.0 / sqrt(row_sum(squares) / float(units) + 1e-8);
  for (uint u = row_lane(); u < units; u += kLanes) {
    const float v = (real(base + u) - mean) * factor;
    scratch[base + u] =
        floatBitsToUint(v * weight(gate_at(gate) + part_of(4) + u) + weight(gate_at(gate) + part_of(5) + u));
  }
}

void main() {
  const uint n = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  h_at = n * (outputs + 6 * units + max(features + aux_features + outputs, units));
  c_at = h_at + outputs;
  gates_at = c_at + units;
  out_at = gates_at + 4 * units;
  rows_at = out_at + units;
  if (first == 0) {
    for (uint o = lane; o < outputs; o += kLanes) scratch[h_at + o] = floatBitsToUint(h0s[n * outputs + o]);
    if (!has(kRnn))
      for (uint u = lane; u < units; u += kLanes) scratch[c_at + u] = floatBitsToUint(c0s[n * units + u]);
  }
  settle();
  for (uint i = first; i < first + count; ++i) {
    const uint s = i % time, t = has(kBackward) ? time - 1 - s : s;
    const uint x_at = n * x_batch + t * x_step, a_at = n * a_batch + t * a_step;
    uint x_row = x_at, a_row = a_at, h_row = h_at;
    QuantParams x_params, a_params, h_params;
    if (has(kQuantizes)) {
      x_row = rows_at;
      a_row = x_row + features;
      h_row = a_row + aux_features;
      x_params = quantize(0, x_at, features, x_row);
      if (aux_features > 0) a_params = quantize(1, a_at, aux_features, a_row);
      if (!has(kDiagonal)) h_params = quantize(2, h_at, outputs, h_row);
      settle();
    }
    for (uint u = lane; u < units; u += kLanes) {
      for (uint g = 0; g < kGates; ++g) pre[g] = has(kNorm) ? 0.0 : weight(gate_at(g) + part_of(5) + u);
      add_products(0, x_row, features, 0, u, x_params.scale, x_params.zero);
      if (aux_features > 0) add_products(1, a_row, aux_features, 1, u, a_params.scale, a_params.zero);
      if (has(kDiagonal)) {
        for (uint g = 0; g < kGates; ++g) pre[g] += weight(gate_at(g) + part_of(2) + u) * real(h_at + u);
      } else {
        add_products(2, h_row, outputs, 2, u, h_params.scale, h_params.zero);
      }
      if (has(kPeephole))
        for (uint g = 0; g < 2; ++g) pre[g] += weight(gate_at(g) + part_of(3) + u) * real(c_at + u);
      for (uint g = 0; g < kGates; ++g) scratch[gates_at + g * units + u] = floatBitsToUint(pre[g]);
    }
    settle();  // behind it h is no longer read
    if (has(kRnn)) {
      for (uint u = lane; u < units; u += kLanes) scratch[h_at + u] = floatBitsToUint(act_of(real(gates_at + u)));
    } else {
      if (has(kNorm))
        for (uint g = has(kCoupled) ? 1 : 0; g < 3; ++g) normalize(g);
      for (uint u = lane; u < units; u += kLanes) {
        const float forget = sigmoid_of(real(gates_at + units + u));
        const float keep = has(kCoupled) ? 1.0 - forget : sigmoid_of(real(gates_at + u));
        const float c = forget * real(c_at + u) + keep * act_of(real(gates_at + 2 * units + u));
        scratch[c_at + u] = floatBitsToUint(clipped(c, cell_clip));
        if (has(kPeephole)) {
          const float peep = weight(gate_at(3) + part_of(3) + u) * real(c_at + u);
          scratch[gates_at + 3 * units + u] = floatBitsToUint(real(gates_at + 3 * units + u) + peep);
        }
      }
      if (has(kNorm)) normalize(3);
      const uint to = has(kProjection) ? out_at : h_at;
      for (uint u = lane; u < units; u += kLanes)
        scratch[to + u] = floatBitsToUint(sigmoid_of(real(gates_at + 3 * units + u)) * act_of(real(c_at + u)));
      if (has(kProjection)) {
        settle();
        QuantParams params;
        if (has(kQuantizes)) {
          params = quantize(3, out_at, units, rows_at);
          settle();
        }
        const uint p_at = gate_at(4);
        for (uint o = lane; o < outputs; o += kLanes) {
          float h = weight(p_at + units * outputs + o);
          if (has(kQuantizes)) {
            int sum = 0;
            for (uint u = 0; u < units; ++u)
              sum += int(ws[p_at + u * outputs + o]) * (int(scratch[rows_at + u]) - params.zero);
            h += float(sum) * (params.scale * weight(12));
          } else {
            float sum = 0.0;
            for (uint u = 0; u < units; ++u) sum += weight(p_at + u * outputs + o) * real(out_at + u);
            h += sum;
          }
          scratch[h_at + o] = floatBitsToUint(clipped(h, projection_clip));
        }
      }
    }
    settle();
    if (has(kWritesY))
      for (uint o = lane; o < outputs; o += kLanes) ys[y_at + n * y_batch + t * y_step + o] = real(h_at + o);
  }
  if (first + count < steps) return;
  if (has(kWritesH))
    for (uint o = lane; o < outputs; o += kLanes) hns[n * outputs + o] = real(h_at + o);
  if (has(kWritesC))
    for (uint u = lane; u < units; u += kLanes) cns[n * units + u] = real(c_at + u);
}
