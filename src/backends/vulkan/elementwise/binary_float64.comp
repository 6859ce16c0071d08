#version 450
// z = clamp(f(x, y)) of float64 values with broadcasting; specialization constant 1 is the function, 2 says that
// neither operand repeats. RESULT is the type of z.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "float64_math.glsl"
#include "strides.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(constant_id = 2) const bool kSameShape = false;
layout(push_constant) uniform Push {
  uint n, rank;
  uint size[8];
  int x_stride[8], y_stride[8];
  double alpha, low, high;
};
layout(set = 0, binding = 0) readonly buffer X { double xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { double ys[]; };
layout(set = 0, binding = 2) writeonly buffer Z { RESULT zs[]; };

double f(double x, double y) {
#define SMELT_DOUBLE(name, code, value) case code: return value;
  switch (kFunction) {
#include "float64_functions.inc"
  }
  return x;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int at_x = int(i), at_y = int(i);
  if (!kSameShape) {
    STRIDED_OFFSET(at_x, i, rank, size, x_stride)
    STRIDED_OFFSET(at_y, i, rank, size, y_stride)
  }
  const double r = f(xs[at_x], ys[at_y]);
  zs[i] = RESULT(r < low ? low : (r > high ? high : r));
}
