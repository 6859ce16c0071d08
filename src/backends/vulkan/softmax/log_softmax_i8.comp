#version 450
// Logarithmic softmax of 8-bit values in fixed point over the middle of [outer, extent, inner], bit-equal with
// smelt::LogSoftmax8, whose tables are given by how much a value is below the largest: 256 parts of the sum in Q12, 256
// differences in Q5.
//@ log_softmax_{ELEMENT=i8,u8}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "fixed_point.glsl"
#include "fixed_functions.glsl"

layout(push_constant) uniform Push {
  AXIS
  int smallest, multiplier, shift;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Tables { int tables[512]; };
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };
ROW_FOLD(row_max, int, max(a, b))
ROW_FOLD(row_sum, uint, a + b)

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row / inner * extent * inner + row % inner;
  int top = ELEMENT_MIN;
  for (uint k = lane; k < extent; k += kLanes) top = max(top, int(xs[base + k * inner]));
  top = row_max(top);
  uint sum = 0;
  for (uint k = lane; k < extent; k += kLanes) sum += uint(tables[top - int(xs[base + k * inner])]);
  const int log_sum = log_q12(int(clamp(row_sum(sum), 1u << 19, 0x7fffffffu)));
  const int beyond = max(smallest, rescale_double(log_sum + (-0x7fffffff - 1), multiplier, shift));
  for (uint k = lane; k < extent; k += kLanes) {
    const uint at = base + k * inner;
    const int below = top - int(xs[at]), most = ELEMENT_MIN + 255;
    ys[at] = ELEMENT(-below > beyond ? clamp(divide_by_pot(tables[256 + below] - log_sum, 22) + most, ELEMENT_MIN, most)
                                    : ELEMENT_MIN);
  }
}
