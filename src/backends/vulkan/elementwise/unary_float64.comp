#version 450
// y = f(x) of float64 values, element by element; specialization constant 1 is the function. OUT is the type of y.
//@ unary_{OUT=f64}
//@ unary_f64_{OUT=bool}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "float64_math.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(push_constant) uniform Push {
  uint n;
  double a, b, c;
};
layout(set = 0, binding = 0) readonly buffer X { double xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { OUT ys[]; };

// The nearest whole number, of two the even one.
double round_even(double x) {
  const double below = floor(x), part = x - below;
  if (part < 0.5LF) return below;
  if (part > 0.5LF) return below + 1.0LF;
  return isnan(part) ? x : (floor(below * 0.5LF) * 2.0LF == below ? below : below + 1.0LF);
}

double f(double x) {
  switch (kFunction) {
#include "unary_f64.inc"
  }
  return x;
}

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = OUT(f(xs[i]));
}
