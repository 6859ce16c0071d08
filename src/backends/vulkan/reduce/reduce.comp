#version 450
// y[row] = the reduction of a row of x. Rows and their elements are strided walks. Specialization constant 2 is the
// function, 3 says that a row's elements are one dimension. With LOOKUP, of the least stored integer, a table gives
// what a sum of quantized values becomes.
//@ reduce_{ELEMENT=f32,f16}[_subgroups=SUBGROUPS]
//@ reduce_{ELEMENT=i32,i64,bool}
//@ reduce_lookup_{ELEMENT=i8,u8,i16} LOOKUP
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"
#include "strides.glsl"

#ifdef ELEMENT_INTEGER
#ifdef ELEMENT_I64
#define VALUE int64_t
#define HIGHEST 0x7fffffffffffffffL
#define LOWEST (-HIGHEST - 1L)
#else
#define VALUE int
#define LOWEST int(0x80000000)
#define HIGHEST 0x7fffffff
#endif
#define IS_NAN(v) false
#else
#define VALUE float
#define LOWEST (-kInfinity)
#define HIGHEST kInfinity
#define IS_NAN(v) isnan(v)
#endif

layout(constant_id = 2) const uint kFunction = 0;
layout(constant_id = 3) const bool kStraight = false;
//@ block RowWalk<1,4> walk backends/vulkan/core/row_reduction.h
#define ROW_WALK                                                                                              \
  uint rows, row_rank; uint row_size[4]; int row_stride[4]; uint count, rank; uint size[4]; int stride[4];
layout(push_constant) uniform Push {
  ROW_WALK
  float correction;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
#ifdef LOOKUP
// What each sum becomes, from the least sum of `count` elements on.
layout(set = 0, binding = 2) readonly buffer Table { ELEMENT table[]; };
#endif

VALUE join(VALUE a, VALUE b) {
#define SMELT_REDUCTION(name, code, first, map, combine, finish) case code: return combine;
  switch (kFunction) {
#include "reduce_functions.inc"
  }
#undef SMELT_REDUCTION
  return a;
}
VALUE initial() {
#define SMELT_REDUCTION(name, code, first, map, combine, finish) case code: return first;
  switch (kFunction) {
#include "reduce_functions.inc"
  }
#undef SMELT_REDUCTION
  return VALUE(0);
}
VALUE mapped(VALUE x, VALUE shift) {
#define SMELT_REDUCTION(name, code, first, map, combine, finish) case code: return map;
  switch (kFunction) {
#include "reduce_functions.inc"
  }
#undef SMELT_REDUCTION
  return x;
}
VALUE finished(VALUE a, VALUE shift) {
#define SMELT_REDUCTION(name, code, first, map, combine, finish) case code: return finish;
  switch (kFunction) {
#include "reduce_functions.inc"
  }
#undef SMELT_REDUCTION
  return a;
}
ROW_FOLD(row_join, VALUE, join(a, b))
#ifndef ELEMENT_INTEGER
ROW_FOLD(row_sum, float, a + b)
ROW_FOLD(row_max, float, (b > a || isnan(b) ? b : a))
#endif

VALUE element(int base, uint k) {
  int at;
  if (kStraight)
    at = int(k) * stride[0];
  else
    STRIDED_OFFSET(at, k, rank, size, stride)
  return VALUE(xs[base + at]);
}

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  int base;
  STRIDED_OFFSET(base, row, row_rank, row_size, row_stride)
  VALUE shift = VALUE(0);
#ifndef ELEMENT_INTEGER
  if (kFunction == 11) {
    float top = -kInfinity;
    for (uint k = lane; k < count; k += kLanes) {
      const float v = element(base, k);
      if (v > top || isnan(v)) top = v;
    }
    top = row_max(top);
    shift = isinf(top) ? 0.0 : top;
  } else if (kFunction >= 12) {
    float sum = 0.0;
    for (uint k = lane; k < count; k += kLanes) sum += element(base, k);
    shift = row_sum(sum) / float(count);
  }
#endif
  VALUE acc = initial();
  for (uint k = lane; k < count; k += kLanes) acc = join(acc, mapped(element(base, k), shift));
  acc = row_join(acc);
#ifdef LOOKUP
  if (lane == 0) ys[row] = table[acc - ELEMENT_MIN * int(count)];
#else
  if (lane == 0) ys[row] = ELEMENT(finished(acc, shift));
#endif
}
