#version 450
// y, which holds x, with elements replaced by or combined with updates at indices. An invocation walks
// one line of updates in their order: `count` of them, each with a tuple of kTuple indices; lines never meet. An index
// out of range sets `faults` and is passed over. Specialization constants: 1 the combination (ScatterAttrs::Reduce),
// 2 the length of a tuple, 3 that negative indices count from the end. INDEX_WORDS is 2 for 64-bit indices.
//@ scatter_{ELEMENT=f32,f16,i32,i64,i8,u8}_{INDEX_WORDS=i32:1,i64:2}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"

layout(constant_id = 1) const uint kReduce = 0;
layout(constant_id = 2) const uint kTuple = 1;
layout(constant_id = 3) const bool kNegative = true;
//@ block Walk<3,4> lines backends/vulkan/core/strides.h
#define LINES uint lines, rank; uint size[4]; int y_stride[4], update_stride[4], index_stride[4];
layout(push_constant) uniform Push {
  LINES
  uint count;
  int update_step, index_step;
  int extent[4], stride[4];  // of y, along the indices of a tuple
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer I { int indices[]; };
layout(set = 0, binding = 1) readonly buffer U { ELEMENT updates[]; };
layout(set = 0, binding = 2) buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 3) writeonly buffer F { uint faults[]; };

ELEMENT_VALUE combined(ELEMENT_VALUE a, ELEMENT_VALUE b) {
  switch (kReduce) {
    case 1: return a + b;
    case 2: return a * b;
    case 3: return a != a || b > a ? a : b;
    case 4: return a != a || b < a ? a : b;
  }
  return b;
}

void main() {
  const uint line = flat_id();
  if (line >= lines) return;
  int y_at, update_at, index_at;
  STRIDED_OFFSET(y_at, line, rank, size, y_stride)
  STRIDED_OFFSET(update_at, line, rank, size, update_stride)
  STRIDED_OFFSET(index_at, line, rank, size, index_stride)
  for (uint k = 0; k < count; ++k) {
    int to = y_at;
    bool inside = true;
    [[unroll]] for (uint t = 0; t < kTuple; ++t) {
      const int word = (index_at + int(t)) * INDEX_WORDS;
      int index = indices[word];
#if INDEX_WORDS == 2
      inside = inside && indices[word + 1] == index >> 31;
#endif
      if (kNegative && index < 0) index += extent[t];
      inside = inside && index >= 0 && index < extent[t];
      to += index * stride[t];
    }
    if (inside) {
      const ELEMENT_VALUE update = ELEMENT_VALUE(updates[update_at]);
      ys[to] = ELEMENT(kReduce == 0 ? update : combined(ELEMENT_VALUE(ys[to]), update));
    } else {
      faults[0] = fault_code;
    }
    update_at += update_step;
    index_at += index_step;
  }
}
