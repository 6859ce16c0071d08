#version 450
// Rows of reals and the grid of integers that the range of each chooses. Variants: y = the values rounded to the grid;
// with RESULT, the stored integers, and scales and zero points of the rows. Specialization constant 2 is the rule
// (row_grid.glsl).
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "real_functions.glsl"
#include "dynamic_quant.glsl"

layout(constant_id = 2) const uint kRule = 0;
layout(push_constant) uniform Push {
  uint rows, count;
  int low, high;  // of the stored integers
  float epsilon;  // the smallest scale
};
layout(set = 0, binding = 0) readonly buffer X { STORED xs[]; };
#ifdef RESULT
layout(set = 0, binding = 1) writeonly buffer Y { RESULT ys[]; };
layout(set = 0, binding = 2) writeonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) writeonly buffer Zeros { RESULT zeros[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Y { float ys[]; };
#endif
ROW_FOLD(row_least, float, (b < a ? b : a))
ROW_FOLD(row_most, float, (b > a ? b : a))

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row * count;
  float least = 0.0, most = 0.0;  // a grid holds 0; NaN is passed over
  for (uint k = lane; k < count; k += kLanes) {
    const float x = float(xs[base + k]);
    if (x < least) least = x;
    if (x > most) most = x;
  }
  const Grid g = grid_of(kRule, row_least(least), row_most(most), low, high, epsilon);
  for (uint k = lane; k < count; k += kLanes) {
    const float q = stored_of(kRule, float(xs[base + k]), g, low, high);
#ifdef RESULT
    ys[base + k] = RESULT(int(q));
#else
    ys[base + k] = g.scale * (q - float(g.zero));
#endif
  }
#ifdef RESULT
  if (lane == 0) {
    scales[row] = g.scale;
    zeros[row] = RESULT(g.zero);
  }
#endif
}
