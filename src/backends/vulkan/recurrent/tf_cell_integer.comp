#version 450
// Steps [first, first + count) of one direction of TFLite's LSTM of int8 activations with int16 gates and cells, a
// workgroup a sequence, a lane some units; bit-equal with run_integer_16 (ops/recurrent/tf_lstm_integer.cc). Tables of
// the host: what the gates' functions make of every int16, and the weights (tf_lstm_i8.cc): for each of four
// gates (input, forget, cell, output) 16 parameters, weights of x and of h with units innermost, peephole, norm and
// bias; then the projection. Specialization constants: 1 the workgroup's width again, 2 what there is.
//@ tf_cell_integer
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "fixed_point.glsl"
#include "fixed_functions.glsl"

const uint kPeephole = 8, kNorm = 16, kCoupled = 32, kProjection = 64, kWritesY = 256, kWritesH = 512, kWritesC = 1024,
           kBackward = 2048;
layout(constant_id = 2) const uint kHas = 0;
layout(push_constant) uniform Push {
  uint time, features, units, outputs;
  uint x_step, x_batch, y_step, y_batch, y_at;
  uint first, count;
  int x_zero, h_zero, hidden_zero;
  int cell_log2, cell_clip, projection_clip;  // clips: 0 is none
  int hidden_multiplier, hidden_shift, projection_multiplier, projection_shift;
};
layout(set = 0, binding = 0) readonly buffer X { int8_t xs[]; };
layout(set = 0, binding = 1) readonly buffer W { int ws[]; };
layout(set = 0, binding = 2) readonly buffer F { int16_t functions[]; };  // logistic, tanh of gates, tanh of the cell
layout(set = 0, binding = 3) readonly buffer H { int8_t h0s[]; };
layout(set = 0, binding = 4) readonly buffer C { int16_t c0s[]; };
layout(set = 0, binding = 5) writeonly buffer Y { int8_t ys[]; };
layout(set = 0, binding = 6) writeonly buffer HN { int8_t hns[]; };
layout(set = 0, binding = 7) writeonly buffer CN { int16_t cns[]; };
layout(set = 0, binding = 8) coherent buffer Scratch { int scratch[]; };  // of each sequence: h, c, gates, products

ROW_FOLD(row_sum, int64_t, (a + b))

bool has(uint what) { return (kHas & what) != 0; }
void settle() {
  memoryBarrierBuffer();
  barrier();
}
int clamp16(int v) { return clamp(v, -32768, 32767); }
int function(uint which, int v) { return int(functions[which * 65536 + uint(v + 32768)]); }

uint parts_at(uint gate, uint part) {  // 0: the parameters, 1: of x, 2: of h, 3: peephole, 4: norm, 5: bias
  const uint n = units, each = 16 + n * (features + outputs + 3);
  const uint parts[6] = uint[6](0, 16, 16 + n * features, 16 + n * (features + outputs),
                                16 + n * (features + outputs + 1),
                                16 + n * (features + outputs + 2));
  return gate * each + parts[part];
}

void normalize(uint gate, uint base) {
  const uint at = parts_at(gate, 0);
  int64_t sum = 0, squares = 0;
  for (uint u = row_lane(); u < units; u += kLanes) {
    const int v = scratch[base + u];
    sum += v;
    squares += v * v;
  }
  sum = row_sum(sum);
  squares = row_sum(squares);
  const int mean = int(sum * 1024 / int64_t(units));
  const int64_t wide = squares * int64_t((1 << 20) / int(units)) - int64_t(mean) * mean;
  int variance = int(wide / (1 << 20));
  if (variance < 1) variance = ws[at + 8];
  int multiplier, shift;
  inverse_sqrt(variance, multiplier, shift);
  for (uint u = row_lane(); u < units; u += kLanes) {
    const int scaled = rescale_double(1024 * scratch[base + u] - mean, multiplier, shift);
    const int weighted = scaled * ws[parts_at(gate, 4) + u] + ws[parts_at(gate, 5) + u];
    const int reduced = int((int64_t(weighted) + (weighted > 0 ? 512 : -512)) / 1024);
    scratch[base + u] = clamp16(rescale_double(reduced, ws[at + 6], ws[at + 7]));
  }
}

// The gate's int16 value of every unit, its function applied, to `base`.
void run_gate(uint gate, uint x_at, uint h_at, uint c_at, uint base) {
  const uint at = parts_at(gate, 0);
  for (uint u = row_lane(); u < units; u += kLanes) {
    int from_x = has(kNorm) ? 0 : ws[parts_at(gate, 5) + u], from_h = 0;
    for (uint k = 0; k < features; ++k) from_x += ws[parts_at(gate, 1) + k * units + u] * (int(xs[x_at + k]) - x_zero);
    for (uint k = 0; k < outputs; ++k) from_h += ws[parts_at(gate, 2) + k * units + u] * (scratch[h_at + k] - h_zero);
    int v = clamp16(rescale_double(from_x, ws[at], ws[at + 1]));
    v = clamp16(clamp(rescale_double(from_h, ws[at + 2], ws[at + 3]), -0x3fffffff, 0x3fffffff) + v);
    if (has(kPeephole) && ws[at + 9] != 0) {
      const int peep = rescale_double(ws[parts_at(gate, 3) + u] * scratch[c_at + u], ws[at + 4], ws[at + 5]);
      v = clamp16(clamp(peep, -0x3fffffff, 0x3fffffff) + v);
    }
    scratch[base + u] = v;
  }
  if (has(kNorm)) normalize(gate, base);
  for (uint u = row_lane(); u < units; u += kLanes)
    scratch[base + u] = function(gate == 2 ? 1 : 0, scratch[base + u]);
}

void main() {
  const uint n = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  const uint h_at = n * (outputs + 6 * units), c_at = h_at + outputs, gates_at = c_at + units,
             product_at = gates_at + 4 * units;
  if (first == 0) {
    for (uint o = lane; o < outputs; o += kLanes) scratch[h_at + o] = int(h0s[n * outputs + o]);
    for (uint u = lane; u < units; u += kLanes) scratch[c_at + u] = int(c0s[n * units + u]);
  }
  settle();
  for (uint s = first; s < first + count; ++s) {
    const uint t = has(kBackward) ? time - 1 - s : s;
    const uint x_at = n * x_batch + t * x_step;
    for (uint g = has(kCoupled) ? 1 : 0; g < 3; ++g) run_gate(g, x_at, h_at, c_at, gates_at + g * units);
    for (uint u = lane; u < units; u += kLanes) {
      const int forget = scratch[gates_at + units + u], update = scratch[gates_at + 2 * units + u];
      const int gate = has(kCoupled) ? 32767 - forget : scratch[gates_at + u];
      // Both are cut to 16 bits before they are added.
      const int kept = divide_by_pot(forget * scratch[c_at + u], 15) << 16 >> 16;
      const int added = divide_by_pot(gate * update, uint(30 + cell_log2)) << 16 >> 16;
      const int c = clamp16(kept + added);
      scratch[c_at + u] = cell_clip > 0 ? clamp(c, -cell_clip, cell_clip) : c;
    }
    run_gate(3, x_at, h_at, c_at, gates_at + 3 * units);
    settle();  // behind it h is no longer read
    const uint to = has(kProjection) ? product_at : h_at;
    for (uint u = lane; u < units; u += kLanes) {
      const int v = scratch[gates_at + 3 * units + u] * function(2, scratch[c_at + u]);
      const int scaled = clamp(rescale_double(v, hidden_multiplier, hidden_shift), -0x3fffffff, 0x3fffffff);
      scratch[to + u] = clamp(scaled + (has(kProjection) ? -hidden_zero : hidden_zero), -128, 127);
    }
    settle();
    if (has(kProjection)) {
      const uint p_at = parts_at(4, 0);
      for (uint o = lane; o < outputs; o += kLanes) {
        int sum = ws[p_at + units * outputs + o];
        for (uint u = 0; u < units; ++u) sum += ws[p_at + u * outputs + o] * (scratch[product_at + u] + hidden_zero);
        const int scaled = clamp(rescale_double(sum, projection_multiplier, projection_shift), -0x3fffffff, 0x3fffffff);
        int h = clamp(scaled + h_zero, -128, 127);
        if (projection_clip > 0) h = clamp(h, -projection_clip, projection_clip);
        scratch[h_at + o] = h;
      }
      settle();
    }
    if (has(kWritesY))
      for (uint o = lane; o < outputs; o += kLanes) ys[y_at + n * y_batch + t * y_step + o] = int8_t(scratch[h_at + o]);
  }
  if (first + count < time) return;
  if (has(kWritesH))
    for (uint o = lane; o < outputs; o += kLanes) hns[n * outputs + o] = int8_t(scratch[h_at + o]);
  if (has(kWritesC))
    for (uint u = lane; u < units; u += kLanes) cns[n * units + u] = int16_t(scratch[c_at + u]);
}
