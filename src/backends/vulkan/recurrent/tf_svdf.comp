#version 450
// TFLite's SVDF, a workgroup a row of the batch: what each filter makes of the row goes behind its last ones, which are
// the new state; units are weighted sums of their filters' states. kQuantizes: the row is quantized at run time to meet
// quantized weights. INTEGER: quantized values in fixed point. The table of weights (tf_svdf.cc): a scale, feature
// weights with filters innermost, time weights, biases. Specialization constant 1 is the workgroup's width again.
//@ tf_svdf_{ELEMENT=f32} STATE=float
//@ TfSvdfInteger: tf_svdf_{ELEMENT=i8} INTEGER STATE=int16_t
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "real_functions.glsl"
#include "dynamic_quant.glsl"
#include "activation.glsl"
#include "fixed_point.glsl"

layout(constant_id = 2) const bool kQuantizes = false;
layout(constant_id = 3) const bool kAsymmetricRows = false;
layout(push_constant) uniform Push {
  uint features, filters, units, rank, memory;
#ifdef INTEGER
  int x_zero, y_zero;
  int state_multiplier, state_shift, y_multiplier, y_shift;
#else
  ACTIVATION
#endif
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer W { uint ws[]; };
layout(set = 0, binding = 2) readonly buffer S { STATE states[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 4) coherent buffer N { STATE news[]; };

ROW_FOLD(row_least, float, (b < a ? b : a))
ROW_FOLD(row_most, float, (b > a ? b : a))

float real(uint at) { return uintBitsToFloat(ws[at]); }

void main() {
  const uint n = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  const uint x_at = n * features, time_at = 1 + features * filters, bias_at = time_at + filters * memory;
#ifndef INTEGER
  const uint rule = kAsymmetricRows ? kTfliteAsymmetric : kTfliteSymmetric;
  QuantParams params;
  if (kQuantizes) {
    float least = 0.0, most = 0.0;
    for (uint k = lane; k < features; k += kLanes) {
      const float v = xs[x_at + k];
      if (v < least) least = v;
      if (v > most) most = v;
    }
    params = choose_quant_params(rule, row_least(least), row_most(most), -128, 127, 0.0);
  }
#endif
  for (uint f = lane; f < filters; f += kLanes) {
    const uint row = (n * filters + f) * memory;
    for (uint m = 0; m + 1 < memory; ++m) news[row + m] = states[row + m + 1];
#ifdef INTEGER
    int sum = 0;
    for (uint k = 0; k < features; ++k) sum += int(ws[1 + k * filters + f]) * (int(xs[x_at + k]) - x_zero);
    news[row + memory - 1] = STATE(clamp(rescale_double(sum, state_multiplier, state_shift), -32768, 32767));
#else
    if (kQuantizes) {
      int sum = 0;
      for (uint k = 0; k < features; ++k)
        sum += int(ws[1 + k * filters + f]) *
               (int(quantized_value(rule, xs[x_at + k], params, -128, 127)) - params.zero);
      news[row + memory - 1] = float(sum) * (params.scale * real(0));
    } else {
      float sum = 0.0;
      for (uint k = 0; k < features; ++k) sum += real(1 + k * filters + f) * xs[x_at + k];
      news[row + memory - 1] = sum;
    }
#endif
  }
  memoryBarrierBuffer();
  barrier();
  for (uint u = lane; u < units; u += kLanes) {
    const uint weights = time_at + u * rank * memory, row = (n * filters + u * rank) * memory;
#ifdef INTEGER
    int sum = int(ws[bias_at + u]);
    for (uint k = 0; k < rank * memory; ++k) sum += int(ws[weights + k]) * int(news[row + k]);
    const int scaled = clamp(rescale_double(sum, y_multiplier, y_shift), -0x3fffffff, 0x3fffffff);
    ys[n * units + u] = ELEMENT(clamp(scaled + y_zero, -128, 127));
#else
    float sum = 0.0;
    for (uint k = 0; k < rank * memory; ++k) sum += real(weights + k) * news[row + k];
    ys[n * units + u] = activate(sum + real(bias_at + u), act, act_a, act_b);
#endif
  }
}
