#version 450
// Sums, differences and products of quantized values with broadcasting, bit-equal with FixedArithmetic and
// ShiftedArithmetic (ops/elementwise/binary_fixed.h). Specialization constant 1 is the rule.
//@ binary_fixed_{ELEMENT=i16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"
#include "fixed_point.glsl"

const uint kProduct = 0, kSum = 1, kShifted = 2;
layout(constant_id = 1) const uint kRule = 0;
layout(push_constant) uniform Push {
  WALK_2(x, y)
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 2) readonly buffer P {
  int zero_a, zero_b, zero, low, high;
  int sign_b;     // -1 or 1
  int left;       // of both operands of a sum
  ivec2 a, b;     // their factors; of kShifted the shifts to the right
  ivec2 out_factor;
};
layout(set = 0, binding = 3) writeonly buffer Z { ELEMENT zs[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  int at_x, at_y;
  STRIDED_OFFSET(at_x, i, rank, size, x_stride)
  STRIDED_OFFSET(at_y, i, rank, size, y_stride)
  const int x = int(xs[at_x]) - zero_a, y = int(ys[at_y]) - zero_b;
  int r;
  if (kRule == kProduct) {
    r = rescale_double(x * y, out_factor.x, out_factor.y);
  } else if (kRule == kSum) {
    const int p = rescale_double(x << left, a.x, a.y), q = sign_b * rescale_double(y << left, b.x, b.y);
    r = rescale_double(p + q, out_factor.x, out_factor.y);
  } else {
    r = clamp(divide_by_pot(x, uint(a.x)) + sign_b * divide_by_pot(y, uint(b.x)), -32768, 32767);
  }
  // Beyond these bounds nothing changes any more, and the sum fits.
  zs[i] = ELEMENT(clamp(clamp(r, -0x3fffffff, 0x3fffffff) + zero, low, high));
}
