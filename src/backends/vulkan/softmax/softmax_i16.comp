#version 450
// Softmax of int16 values in fixed point over the middle of [outer, extent, inner], bit-equal with the reference:
// exponentials and inverses are linear pieces of two tables of 513 entries.
//@ softmax_i16
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "fixed_point.glsl"

layout(push_constant) uniform Push {
  AXIS
  int multiplier, shift;
};
layout(set = 0, binding = 0) readonly buffer X { int16_t xs[]; };
layout(set = 0, binding = 1) readonly buffer Tables { int tables[1026]; };
layout(set = 0, binding = 2) writeonly buffer Y { int16_t ys[]; };
ROW_FOLD(row_max, int, max(a, b))
ROW_FOLD(row_sum, int, a + b)

int look_up(uint table, int value) {
  const uint at = table * 513 + uint(256 + (value >> 7));
  return tables[at] + (((tables[at + 1] - tables[at]) * (value & 0x7f) + 64) >> 7);
}
int exp_of(int difference) {
  const int scaled = rescale_double(difference, multiplier, shift);
  return look_up(0, clamp(clamp(scaled, -0x3fffffff, 0x3fffffff) + 32767, -32768, 32767));
}

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row / inner * extent * inner + row % inner;
  int top = -32768;
  for (uint k = lane; k < extent; k += kLanes) top = max(top, int(xs[base + k * inner]));
  top = row_max(top);
  int sum = 0;
  for (uint k = lane; k < extent; k += kLanes) sum += exp_of(int(xs[base + k * inner]) - top);
  sum = row_sum(sum);
  const int zeros = 31 - findMSB(max(sum, 1));
  // The sum to 31 bits, then rounded to 17.
  const uint whole = uint(sum) << max(zeros - 1, 0);
  const int shifted = int((whole + (1u << 13)) >> 14);
  const int inverse = look_up(1, clamp(shifted - ((1 << 15) + (1 << 16)), -32768, 32767));
  const int right = 31 - zeros;
  const int nudge = right > 0 ? 1 << (right - 1) : 0;
  for (uint k = lane; k < extent; k += kLanes) {
    const uint at = base + k * inner;
    ys[at] = int16_t(clamp((exp_of(int(xs[at]) - top) * inverse + nudge) >> right, 0, 32767));
  }
}
