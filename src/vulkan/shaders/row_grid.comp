#version 450
// Rows of reals and the grid of integers that the range of each chooses. Variants: y = the values rounded to the grid;
// with RESULT, the stored integers, and scales and zero points of the rows. Specialization constant 2 is the rule.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rows.glsl"

const uint kSymmetric = 0;         // DynamicRange's rules: ops/elementwise/dynamic_range.h
const uint kAsymmetric = 1;
const uint kBalanced = 2;
const uint kHybrid = 3;            // TFLite's: ops/common/hybrid.h
const uint kHybridAsymmetric = 4;

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

bool is_nan(float v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }
bool is_finite(float v) { return (floatBitsToUint(v) & 0x7fffffffu) < 0x7f800000u; }
float round_away(float v) {
  const float whole = trunc(v);
  return abs(v - whole) >= 0.5 ? whole + sign(v) : whole;
}

struct Grid {
  float scale, inverse;  // inverse 0: values are divided by the scale
  int zero;
  bool none;  // every value becomes 0
};

Grid grid_of(float least, float most) {
  Grid g = Grid(1.0, 0.0, 0, false);
  const float lo = float(low), hi = float(high), range = most - least, largest = max(-least, most);
  precise float scale = 1.0, steps = 0.0;
  switch (kRule) {
    case kSymmetric:
      scale = max(largest / hi, epsilon);
      g.scale = scale > 0.0 ? scale : 1.0;
      break;
    case kAsymmetric:
      scale = max(range / (hi - lo), epsilon);
      g.scale = scale > 0.0 ? scale : 1.0;
      steps = lo - least / g.scale;
      g.zero = int(roundEven(clamp(steps, lo, hi)));
      break;
    case kBalanced:
      g.inverse = least == most ? 1.0 : (hi - lo) / range;
      if (epsilon > 0.0) g.inverse = min(g.inverse, 1.0 / epsilon);
      if (!is_finite(g.inverse)) g.inverse = 1.0;
      steps = -least * g.inverse;
      g.zero = low + (steps > 0.0 ? int(roundEven(min(steps, hi - lo))) : 0);
      g.scale = 1.0 / g.inverse;
      break;
    case kHybrid:
      g.none = !(largest > 0.0) || !is_finite(largest);
      if (g.none) break;
      g.inverse = 127.0 / largest;
      g.scale = largest / 127.0;
      break;
    default:
      g.none = !(range > 0.0) || !is_finite(range);
      if (g.none) break;
      g.scale = range / 255.0;
      g.inverse = 1.0 / g.scale;
      steps = 128.0 - least / g.scale < 127.0 + most / g.scale ? -128.0 - least / g.scale : 127.0 - most / g.scale;
      g.zero = int(clamp(round_away(steps), -128.0, 127.0));
  }
  return g;
}

// The stored integer of x.
float stored_of(float x, Grid g) {
  precise float r = g.inverse != 0.0 ? x * g.inverse : x / g.scale;
  if (g.none) return 0.0;
  if (kRule == kHybrid) return clamp(round_away(r), -127.0, 127.0);
  if (kRule == kHybridAsymmetric) {
    r = float(g.zero) + r;
    return clamp(round_away(r), -128.0, 127.0);
  }
  if (is_nan(r)) return clamp(0.0, float(low), float(high));
  r = roundEven(clamp(r, -1e6, 1e6)) + float(g.zero);
  return clamp(r, float(low), float(high));
}

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
  const Grid g = grid_of(row_least(least), row_most(most));
  for (uint k = lane; k < count; k += kLanes) {
    const float q = stored_of(float(xs[base + k]), g);
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
