#version 450
// z = act(f(x, y)) with broadcasting; specialization constant 1 is the function, 2 says that neither operand repeats.
// RESULT is the type of z.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "real_functions.glsl"
#include "strides.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(constant_id = 2) const bool kPlain = false;
layout(push_constant) uniform Push {
  uint n, rank;
  uint size[8];
  int x_stride[8], y_stride[8];
  float alpha;
  uint act;
  float act_a, act_b;
};
layout(set = 0, binding = 0) readonly buffer X { STORED xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { STORED ys[]; };
layout(set = 0, binding = 2) writeonly buffer Z { RESULT zs[]; };

float f(float x, float y) {
#define SMELT_BINARY(name, code, value) case code: return value;
  switch (kFunction) {
#include "binary_functions.inc"
  }
  return x;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int at_x = int(i), at_y = int(i);
  if (!kPlain) {
    STRIDED_OFFSET(at_x, i, rank, size, x_stride)
    STRIDED_OFFSET(at_y, i, rank, size, y_stride)
  }
  zs[i] = RESULT(activate(f(float(xs[at_x]), float(ys[at_y])), act, act_a, act_b));
}
