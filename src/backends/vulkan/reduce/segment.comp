#version 450
// Rows of x [ids, row] combined by their ids into [segments, row]; ids below zero are left out. Sorted ids are not
// below zero and do not fall. Specialization constants: 1 the combination (0 sum, 1 product, 2 maximum, 3 minimum), 2
// words of an id, 3 whether ids are sorted.
//@ segment_{ELEMENT=f32,i32}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#ifdef ELEMENT_INTEGER
#define LOWEST (-0x7fffffff - 1)
#define HIGHEST 0x7fffffff
#else
#define LOWEST uintBitsToFloat(0xff7fffffu)
#define HIGHEST uintBitsToFloat(0x7f7fffffu)
#endif

const uint kProduct = 1, kMaximum = 2, kMinimum = 3;
layout(constant_id = 1) const uint kCombine = 0;
layout(constant_id = 2) const uint kWords = 1;
layout(constant_id = 3) const bool kSorted = false;
layout(push_constant) uniform Push {
  uint n, row, count;
  int segments;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Ids { int ids[]; };
layout(set = 0, binding = 2) buffer Faults { uint faults[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };

// What does not fit 32 bits counts as too large or as below zero.
int id_of(uint k) {
  const int low = ids[k * kWords];
  if (kWords == 1) return low;
  const int high = ids[k * 2 + 1];
  return high == low >> 31 ? low : (high < 0 ? -1 : 0x7fffffff);
}

ELEMENT combine(ELEMENT a, ELEMENT b) {
  if (kCombine == kProduct) return a * b;
  if (kCombine == kMaximum) return a < b ? b : a;
  if (kCombine == kMinimum) return b < a ? b : a;
  return a + b;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const int own = int(i / row);
  const ELEMENT none = ELEMENT(0);
  ELEMENT sum =
      kCombine == kProduct ? ELEMENT(1) : kCombine == kMaximum ? LOWEST : kCombine == kMinimum ? HIGHEST : none;
  int before = 0;
  bool fits = true;
  for (uint k = 0; k < count; ++k) {
    const int id = id_of(k);
    if (id >= segments || (kSorted && id < before)) fits = false;
    if (kSorted) before = id;
    if (id == own) sum = combine(sum, xs[k * row + i % row]);
  }
  if (!fits && i == 0) faults[0] = fault_code;
  ys[i] = sum;
}
