#version 450
// Two neighbouring dimensions resampled between four neighbours, quantized values unchanged: bit-equal with
// resize_in_integers (ops/resize/integer.cc). The table holds for every row and then every column of the result the
// lower and the upper neighbour and the distance from the lower, in units of 2^-10 (XNNPACK: 2^-11) or real (FLOAT).
//@ resize_{ELEMENT=i8} ACCUMULATOR=int
//@ resize_{ELEMENT=i16} ACCUMULATOR=int64_t
//@ resize_{ELEMENT=u8} FLOAT
//@ resize_xnnpack_{ELEMENT=i8,u8} ACCUMULATOR=int XNNPACK
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push { uint n, in_rows, in_columns, rows, columns, inner; };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer T { uint table[]; };
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };

#ifdef XNNPACK
#define ONE 2048
#else
#define ONE 1024
#endif

int at(uint image, uint row, uint column, uint k) {
  return int(xs[((image * in_rows + row) * in_columns + column) * inner + k]);
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint k = i % inner, pixel = i / inner, column = pixel % columns, line = pixel / columns, row = line % rows;
  const uint image = line / rows, r = 3 * row, c = 3 * (rows + column);
  const int v00 = at(image, table[r], table[c], k), v10 = at(image, table[r + 1], table[c], k);
  const int v01 = at(image, table[r], table[c + 1], k), v11 = at(image, table[r + 1], table[c + 1], k);
#ifdef FLOAT
  const float dy = uintBitsToFloat(table[r + 2]), dx = uintBitsToFloat(table[c + 2]);
  precise float a = float(v00) * (1.0 - dy), b = float(v10) * dy, p = float(v01) * (1.0 - dy), q = float(v11) * dy;
  a = a * (1.0 - dx);
  b = b * (1.0 - dx);
  p = p * dx;
  q = q * dx;
  precise float sum = a + b;
  sum = sum + p;
  sum = sum + q;
  sum = sum + 0.5;
  ys[i] = ELEMENT(int(sum));
#else
  const ACCUMULATOR dy = ACCUMULATOR(int(table[r + 2])), dx = ACCUMULATOR(int(table[c + 2]));
  const ACCUMULATOR sum = ACCUMULATOR(v00) * (ONE - dy) * (ONE - dx) + ACCUMULATOR(v10) * dy * (ONE - dx) +
                          ACCUMULATOR(v01) * (ONE - dy) * dx + ACCUMULATOR(v11) * dy * dx;
#ifdef XNNPACK
  ys[i] = ELEMENT((sum + (1 << 21)) >> 22);
#else
  ys[i] = ELEMENT(int((sum + (sum > 0 ? ACCUMULATOR(1 << 19) : ACCUMULATOR(-(1 << 19)))) / ACCUMULATOR(1 << 20)));
#endif
#endif
}
