#version 450
// Dynamic quantization of rows: each row's range gives its quantization parameters by a rule, kRule
// (dynamic_quant.glsl). y: the rows' values rounded to quantized ones; with OUT, the quantized values, with scales and
// zero points of the rows.
//@ DynamicQuant: dynamic_fake_quant_{IN=f32}[_subgroups=SUBGROUPS]
//@ DynamicQuant: dynamic_quantize_{OUT=i8,u8} IN=float
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "real_functions.glsl"
#include "dynamic_quant.glsl"

layout(constant_id = 2) const uint kRule = 0;
layout(push_constant) uniform Push {
  uint rows, count;
  int low, high;  // of the quantized values
  float epsilon;  // the smallest scale
};
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
#ifdef OUT
layout(set = 0, binding = 1) writeonly buffer Y { OUT ys[]; };
layout(set = 0, binding = 2) writeonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) writeonly buffer Zeros { OUT zeros[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Y { float ys[]; };
#endif
ROW_FOLD(row_least, float, (b < a ? b : a))
ROW_FOLD(row_most, float, (b > a ? b : a))

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row * count;
  float least = 0.0, most = 0.0;  // 0 has a quantized value; NaN is passed over
  for (uint k = lane; k < count; k += kLanes) {
    const float x = float(xs[base + k]);
    if (x < least) least = x;
    if (x > most) most = x;
  }
  const QuantParams g = choose_quant_params(kRule, row_least(least), row_most(most), low, high, epsilon);
  for (uint k = lane; k < count; k += kLanes) {
    const float q = quantized_value(kRule, float(xs[base + k]), g, low, high);
#ifdef OUT
    ys[base + k] = OUT(int(q));
#else
    ys[base + k] = g.scale * (q - float(g.zero));
#endif
  }
#ifdef OUT
  if (lane == 0) {
    scales[row] = g.scale;
    zeros[row] = OUT(g.zero);
  }
#endif
}
