#version 450
// z = f(x, y) of integers with broadcasting; specialization constant 1 is the function, 2 says that neither operand
// repeats, 3 that the result is clamped.
// OUT is the type of z. CHECKED: a divisor of 0 sets `faults`.
//@ binary_{T=i32,i64}[_checked=CHECKED] OUT=T
//@ binary_{T=i32,i64}_{OUT=bool}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(constant_id = 2) const bool kSameShape = false;
layout(constant_id = 3) const bool kClamped = false;
layout(push_constant) uniform Push {
  WALK_2(x, y)
  int alpha;
  int low, high;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { T xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { T ys[]; };
layout(set = 0, binding = 2) writeonly buffer Z { OUT zs[]; };
#ifdef CHECKED
layout(set = 0, binding = 3) buffer F { uint faults[]; };
#endif

T quotient(T x, T y) { return y == T(0) ? T(0) : (y == T(-1) ? -x : x / y); }
T remainder_of(T x, T y) { return x - quotient(x, y) * y; }
T floor_quotient(T x, T y) {
  const T q = quotient(x, y), r = x - q * y;
  return y != T(0) && r != T(0) && (r < T(0)) != (y < T(0)) ? q - T(1) : q;
}
T floor_remainder(T x, T y) {
  if (y == T(0)) return T(0);
  const T r = remainder_of(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
}

T power_of(T x, T y) {
  if (y < T(0)) return x == T(1) || x == T(-1) && (y & T(1)) == T(0) ? T(1) : (x == T(-1) ? x : T(0));
  T r = T(1);
  for (T left = y; left != T(0); left >>= 1) {
    if ((left & T(1)) != T(0)) r *= x;
    x *= x;
  }
  return r;
}

T f(T x, T y) {
  switch (kFunction) {
#include "binary_int.inc"
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
#ifdef CHECKED
  if (ys[at_y] == T(0)) faults[0] = fault_code;
#endif
  const T r = f(xs[at_x], ys[at_y]);
  zs[i] = OUT(!kClamped ? r : (r < T(low) ? T(low) : (r > T(high) ? T(high) : r)));
}
