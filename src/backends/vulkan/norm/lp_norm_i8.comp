#version 450
// Rows of 8-bit values by their Euclidean norm in fixed point, bit-equal with smelt::l2_norm_fixed.
//@ lp_norm_{ELEMENT=i8,u8}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "fixed_point.glsl"
#include "fixed_functions.glsl"

layout(push_constant) uniform Push {
  uint rows, extent;
  int zero;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
ROW_FOLD(row_sum, uint, a + b)

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  uint sum = 0;
  for (uint k = lane; k < extent; k += kLanes) {
    const int v = int(xs[row * extent + k]) - zero;
    sum += uint(v * v);
  }
  int multiplier, shift;
  inverse_sqrt(int(min(row_sum(sum), 0x7fffffffu)), multiplier, shift);
  for (uint k = lane; k < extent; k += kLanes) {
    const uint at = row * extent + k;
    const int v = int(xs[at]) - zero;
#if ELEMENT_MIN < 0
    const int r = rescale_double(v, multiplier, shift + 7);
#else
    const int r = rescale_double(128 * v, multiplier, shift) + 128;
#endif
    ys[at] = ELEMENT(clamp(r, ELEMENT_MIN, ELEMENT_MIN + 255));
  }
}
