#version 450
// Rows of x normalized by their own statistics: y = act((x - mean) * inverse * scale + bias). Rows and their elements
// are strided walks over x, scale and bias. Specialization constants: 2 the kind (norm.glsl), 3 says that a row's
// elements are one dimension, 4 which operands are there (1 scale, 2 bias, 4 mean, 8 inverse).
//@ norm_{ELEMENT=f32,f16}[_subgroups=SUBGROUPS] STATISTIC=ELEMENT
//@ norm_{ELEMENT=f16}_{STATISTIC=f32}[_subgroups=SUBGROUPS]
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "row_reduction.glsl"
#include "strides.glsl"

layout(constant_id = 2) const uint kKind = 0;
layout(constant_id = 3) const bool kStraight = false;
layout(constant_id = 4) const uint kPresent = 0;
//@ block RowWalk<3,3> walk backends/vulkan/core/row_reduction.h
#define ROW_WALK                                                                                              \
  uint rows, row_rank; uint row_size[3]; int x_row[3], scale_row[3], bias_row[3];                             \
  uint count, rank; uint size[3]; int x_stride[3], scale_stride[3], bias_stride[3];
layout(push_constant) uniform Push {
  ROW_WALK
  float epsilon;
  ACTIVATION
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Scale { ELEMENT scales[]; };
layout(set = 0, binding = 2) readonly buffer Bias { ELEMENT biases[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 4) writeonly buffer Mean { STATISTIC means[]; };
layout(set = 0, binding = 5) writeonly buffer Inverse { STATISTIC inverses[]; };
ROW_FOLD(row_sum, float, a + b)

int x_at(int base, uint k) {
  if (kStraight) return base + int(k) * x_stride[0];
  int at;
  STRIDED_OFFSET(at, k, rank, size, x_stride)
  return base + at;
}
float element(int base, uint k) { return float(xs[x_at(base, k)]); }

#include "norm.glsl"

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  int base, scale_base = 0, bias_base = 0;
  STRIDED_OFFSET(base, row, row_rank, row_size, x_row)
  if ((kPresent & 1) != 0) STRIDED_OFFSET(scale_base, row, row_rank, row_size, scale_row)
  if ((kPresent & 2) != 0) STRIDED_OFFSET(bias_base, row, row_rank, row_size, bias_row)
  float mean = 0.0, sum = 0.0;
  if (kKind == kMoments || kKind == kDeviation) {
    for (uint k = lane; k < count; k += kLanes) sum += element(base, k);
    mean = row_sum(sum) / float(count);
    sum = 0.0;
  }
  for (uint k = lane; k < count; k += kLanes) {
    const float v = element(base, k) - mean;
    sum += kKind == kL1 || kKind == kL1Max ? abs(v) : v * v;
  }
  const float inverse = inverse_of(row_sum(sum));
  for (uint k = lane; k < count; k += kLanes) {
    const int at = x_at(base, k);
    float v = (float(xs[at]) - mean) * inverse;
    int p;
    if ((kPresent & 1) != 0) {
      STRIDED_OFFSET(p, k, rank, size, scale_stride)
      v *= float(scales[scale_base + p]);
    }
    if ((kPresent & 2) != 0) {
      STRIDED_OFFSET(p, k, rank, size, bias_stride)
      v += float(biases[bias_base + p]);
    }
    ys[at] = ELEMENT(activate(v, act, act_a, act_b));
  }
  if (lane == 0 && (kPresent & 4) != 0) means[row] = STATISTIC(mean);
  if (lane == 0 && (kPresent & 8) != 0) inverses[row] = STATISTIC(inverse);
}
