#version 450
// y = f(x) of signed integers, element by element; specialization constant 1 is the function. RESULT is the type of y.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(push_constant) uniform Push {
  uint n;
  int low, high;
};
layout(set = 0, binding = 0) readonly buffer X { T xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { RESULT ys[]; };

T f(T x) {
#define SMELT_UNARY_INTEGER(name, code, value) case code: return value;
  switch (kFunction) {
#include "unary_integer_functions.inc"
  }
  return x;
}

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = RESULT(f(xs[i]));
}
