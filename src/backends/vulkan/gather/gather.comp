#version 450
// y[i] = x[an element that indices name]. A tuple of up to four indices picks in as many dimensions of x. An index out
// of range sets `faults` and gives element 0. INDEX_WORDS is 2 for 64-bit indices. TEXTURE: y is an image, x real.
//@ gather_{ELEMENT=8,16,32,64}_{INDEX_WORDS=i32:1,i64:2}
//@ GatherTexture: gather_{ELEMENT=f32,f16}_{INDEX_WORDS=i32:1,i64:2}_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "strides.glsl"
#ifdef TEXTURE
#include "texture.glsl"
#endif

layout(constant_id = 1) const uint kTuple = 1;
layout(constant_id = 2) const bool kNegative = true;  // negative indices count from the end
layout(constant_id = 3) const uint kExtent1 = 1;
layout(constant_id = 4) const uint kExtent2 = 1;
layout(constant_id = 5) const uint kExtent3 = 1;
layout(constant_id = 6) const uint kStride1 = 0;
layout(constant_id = 7) const uint kStride2 = 0;
layout(constant_id = 8) const uint kStride3 = 0;
layout(constant_id = 9) const uint kPacked = 0;  // of y
layout(push_constant) uniform Push {
#ifdef TEXTURE
  ivec4 y_size;
#endif
#ifdef TEXTURE
  WALK_2_6(x, index)
#else
  WALK_2(x, index)
#endif
  // x_stride is without the dimensions that indices replace; extent and stride are of the first of these.
  uint extent, stride;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer I { int indices[]; };
#ifdef TEXTURE
layout(set = 0, binding = 2) writeonly uniform WRITE_IMAGE ys;
#else
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };
#endif
layout(set = 0, binding = 3) buffer F { uint faults[]; };

uint place(int at, uint length) {
  int index = indices[at * INDEX_WORDS];
  bool good = true;
#if INDEX_WORDS == 2
  good = indices[at * 2 + 1] == index >> 31;
#endif
  if (index < 0 && kNegative) index += int(length);
  if (good && index >= 0 && index < int(length)) return uint(index);
  faults[0] = fault_code;
  return 0;
}

// The element of x that becomes element i of y.
uint source(uint i) {
  int from, at;
  STRIDED_OFFSET(from, i, rank, size, x_stride)
  STRIDED_OFFSET(at, i, rank, size, index_stride)
  uint offset = uint(from) + place(at, extent) * stride;
  if (kTuple > 1) offset += place(at + 1, kExtent1) * kStride1;
  if (kTuple > 2) offset += place(at + 2, kExtent2) * kStride2;
  if (kTuple > 3) offset += place(at + 3, kExtent3) * kStride3;
  return offset;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
#ifdef TEXTURE
  const ivec3 t = texels_of(y_size, kPacked);
  const ivec4 p = place_of(int(i), t);
  ivec4 e = p;
  e[kPacked] <<= 2;
  vec4 y = vec4(0.0);
  [[unroll]] for (int k = 0; k < 4; ++k) {
    if (e[kPacked] < y_size[kPacked]) y[k] = float(xs[source(uint(order_of(e, y_size)))]);
    ++e[kPacked];
  }
  put(ys, position_of(p, t), t.y, y);
#else
  ys[i] = xs[source(i)];
#endif
}
