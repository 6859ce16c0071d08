#version 450
// y = f(x) of signed integers, element by element; specialization constant 1 is the function. OUT is the type of y.
//@ unary_{T=i32,i64} OUT=T
//@ unary_{T=i32,i64}_{OUT=bool}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(push_constant) uniform Push {
  uint n;
  int low, high;
};
layout(set = 0, binding = 0) readonly buffer X { T xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { OUT ys[]; };

T f(T x) {
  switch (kFunction) {
#include "unary_int.inc"
  }
  return x;
}

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = OUT(f(xs[i]));
}
