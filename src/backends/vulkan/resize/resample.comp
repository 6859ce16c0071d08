#version 450
// One dimension replaced by weighted sums along it: y[o][i][k] = sum of weight * x[o][place][k] over the taps of i. A
// tap with place -1 stands for the extrapolation value.
//@ resample_{IN=f32,f16}_{OUT=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
  uint n;
  uint in_length, out_length, inner;
};
struct Tap {
  int place;
  float weight;
};
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
layout(set = 0, binding = 1) readonly buffer B { uint begins[]; };  // of the taps of every i, and the end
layout(set = 0, binding = 2) readonly buffer T { Tap taps[]; };
layout(set = 0, binding = 3) writeonly buffer Y { OUT ys[]; };

void main() {
  const uint at = flat_id();
  if (at >= n) return;
  const uint k = at % inner, i = at / inner % out_length, o = at / (inner * out_length);
  const uint row = o * in_length;
  float sum = 0.0;
  for (uint t = begins[i]; t < begins[i + 1]; ++t) {
    const Tap tap = taps[t];
    sum += tap.place < 0 ? tap.weight : tap.weight * float(xs[(row + uint(tap.place)) * inner + k]);
  }
  ys[at] = OUT(sum);
}
