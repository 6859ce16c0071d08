#version 450
// Running sum, product, ... along the middle of [outer, extent, inner]; one invocation a row. Specialization constants:
// 1 the function (CumulativeAttrs::Fn), 2 exclusive, 3 from the end.
//@ cumulative_{ELEMENT=f32,f16,i32,i64}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kFunction = 0;
layout(constant_id = 2) const bool kExclusive = false;
layout(constant_id = 3) const bool kReverse = false;
layout(push_constant) uniform Push { AXIS };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };

#ifdef ELEMENT_INTEGER
#ifdef ELEMENT_I64
#define VALUE int64_t
#define kHighest 0x7fffffffffffffffL
#define kLowest (-kHighest - 1L)
#else
#define VALUE int
const int kLowest = int(0x80000000), kHighest = 0x7fffffff;
#endif
VALUE larger(VALUE a, VALUE b) { return a > b ? a : b; }
VALUE smaller(VALUE a, VALUE b) { return a < b ? a : b; }
VALUE log_sum_exp(VALUE a, VALUE b) { return a; }
#else
#define VALUE float
#define kHighest uintBitsToFloat(0x7f800000u)
#define kLowest (-kHighest)
float larger(float a, float b) { return isnan(a) || a > b ? a : b; }
float smaller(float a, float b) { return isnan(a) || a < b ? a : b; }
float log_sum_exp(float a, float b) {
  const float m = a < b ? b : a;
  return isinf(m) ? m : m + log(exp(a - m) + exp(b - m));
}
#endif

VALUE neutral() {
  switch (kFunction) {
    case 1: return VALUE(1);
    case 2: case 4: return kLowest;
    case 3: return kHighest;
  }
  return VALUE(0);
}
VALUE join(VALUE a, VALUE b) {
  switch (kFunction) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return larger(a, b);
    case 3: return smaller(a, b);
  }
  return log_sum_exp(a, b);
}

void main() {
  const uint row = flat_id();
  if (row >= rows) return;
  const uint base = row / inner * extent * inner + row % inner;
  VALUE acc = neutral();
  for (uint k = 0; k < extent; ++k) {
    const uint at = base + (kReverse ? extent - 1 - k : k) * inner;
    const VALUE next = join(acc, VALUE(xs[at]));
    ys[at] = ELEMENT(kExclusive ? acc : next);
    acc = next;
  }
}
