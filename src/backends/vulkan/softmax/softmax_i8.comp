#version 450
// Softmax of 8-bit values in fixed point over the middle of [outer, extent, inner], bit-equal with smelt::Softmax8,
// whose tables of 256 exponentials and 256 parts of the sum are given. The exponential -1 counts as zero.
//@ softmax_{IN=i8,u8} OUT=IN OUT_MIN=IN_MIN OUT_BITS=8
//@ softmax_{IN=i8,u8}_{OUT=i16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "fixed_point.glsl"
#include "fixed_functions.glsl"

layout(push_constant) uniform Push { AXIS };
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
layout(set = 0, binding = 1) readonly buffer Tables { int tables[512]; };
layout(set = 0, binding = 2) writeonly buffer Y { OUT ys[]; };
ROW_FOLD(row_max, int, max(a, b))
ROW_FOLD(row_sum, uint, a + b)

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row / inner * extent * inner + row % inner;
  int top = IN_MIN;
  for (uint k = lane; k < extent; k += kLanes) top = max(top, int(xs[base + k * inner]));
  top = row_max(top);
  uint sum = 0;
  for (uint k = lane; k < extent; k += kLanes) sum += uint(tables[256 + top - int(xs[base + k * inner])]);
  sum = clamp(row_sum(sum), 1u, 0x7fffffffu);
  const int zeros = 31 - findMSB(sum);
  const int inverse = one_over_one_plus(int((sum << zeros) - (1u << 31)));
  const uint exponent = uint(clamp(12 - zeros + 31 - OUT_BITS, 0, 31));
  for (uint k = lane; k < extent; k += kLanes) {
    const uint at = base + k * inner;
    const int e = tables[top - int(xs[at])];
    ys[at] = OUT(e < 0 ? OUT_MIN
                          : min(divide_by_pot(high_mul(inverse, e), exponent) + OUT_MIN,
                                OUT_MIN + (1 << OUT_BITS) - 1));
  }
}
