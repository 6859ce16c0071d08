#version 450
// Softmax over the middle of [outer, extent, inner]. Specialization constant 2: 0 softmax, 1 its logarithm, 2 hardmax.
//@ softmax_{ELEMENT=f32,f16}[_subgroups=SUBGROUPS]
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"

layout(constant_id = 2) const uint kKind = 0;
layout(push_constant) uniform Push {
  AXIS
  float beta;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
ROW_FOLD(row_max, float, (b > a ? b : a))
ROW_FOLD(row_sum, float, a + b)
ROW_FOLD(row_first, uint, min(a, b))

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row / inner * extent * inner + row % inner;
  float top = -kInfinity;
  for (uint k = lane; k < extent; k += kLanes) {
    const float v = float(xs[base + k * inner]);
    if (v > top) top = v;
  }
  top = row_max(top);
  if (kKind == 2) {
    uint first = top == -kInfinity ? 0 : extent;
    for (uint k = lane; k < extent && first == extent; k += kLanes)
      if (float(xs[base + k * inner]) == top) first = k;
    first = row_first(first);
    for (uint k = lane; k < extent; k += kLanes) ys[base + k * inner] = ELEMENT(k == first ? 1.0 : 0.0);
    return;
  }
  float sum = 0.0;
  for (uint k = lane; k < extent; k += kLanes) sum += exp((float(xs[base + k * inner]) - top) * beta);
  sum = row_sum(sum);
  const float log_sum = log(sum), inverse = 1.0 / sum;
  for (uint k = lane; k < extent; k += kLanes) {
    const float v = (float(xs[base + k * inner]) - top) * beta;
    ys[base + k * inner] = ELEMENT(kKind == 1 ? v - log_sum : exp(v) * inverse);
  }
}
