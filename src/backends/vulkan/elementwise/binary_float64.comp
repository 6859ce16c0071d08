#version 450
// z = clamp(f(x, y)) of float64 values with broadcasting; specialization constant 1 is the function, 2 says that
// neither operand repeats. OUT is the type of z.
//@ binary_{OUT=f64}
//@ binary_f64_{OUT=bool}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "float64_math.glsl"
#include "strides.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(constant_id = 2) const bool kSameShape = false;
layout(push_constant) uniform Push {
  WALK_2(x, y)
  double alpha, low, high;
};
layout(set = 0, binding = 0) readonly buffer X { double xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { double ys[]; };
layout(set = 0, binding = 2) writeonly buffer Z { OUT zs[]; };

double f(double x, double y) {
  switch (kFunction) {
#include "binary_f64.inc"
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
  zs[i] = OUT(r < low ? low : (r > high ? high : r));
}
