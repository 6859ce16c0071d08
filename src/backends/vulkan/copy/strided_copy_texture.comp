#version 450
// Copies elements of one image to another; an invocation gives a texel of y. Where an element of y comes from:
// BOX   y[to + i] = x[at + step * i, permuted] for every index i of a box
// WALK  a strided copy (copy.comp) whose dimensions ascend in their strides of y
// MAP   an index map: the element of x by element of y, or -1
//@ CopyBox: copy_box_{TEXTURE=3d,2d} BOX
//@ CopyWalk: copy_walk_{TEXTURE=3d,2d} WALK
//@ CopyMap: copy_map_{TEXTURE=3d,2d} MAP
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

const uint kKept = 1, kValue = 2;  // kinds of kRest

layout(constant_id = 1) const uint kPacked = 0;  // of y
layout(constant_id = 2) const uint kRest = 0;      // what elements of y without a source become; 0: anything
layout(constant_id = 3) const bool kAll = false;   // all texels of y are looked at, else those of the box
layout(constant_id = 4) const bool kWhole = false;  // whole texels of x become texels of the box
layout(constant_id = 5) const uint kPackedX = 0;
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;
#ifdef BOX
  ivec4 box;     // elements; dimensions are those of y
  ivec4 to;        // where the box begins in y
  ivec4 at, step;  // where it begins in x, and what a step along each dimension of the box is there
  uint axes;       // two bits a dimension of the box: which dimension of x it is
#endif
  uint n;
  float value;
#ifdef WALK
  uint rank;
  int x_offset, y_offset;
  uint size[6];  // innermost first
  int x_stride[6], y_stride[6];
#endif
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) uniform READ_IMAGE before;  // y, when something of it is kept
layout(set = 0, binding = 2) writeonly uniform WRITE_IMAGE ys;
#ifdef MAP
layout(set = 0, binding = 3) readonly buffer Map { int map[]; };
#endif

// The element of x that becomes element `e` of y; false: there is none.
bool source(ivec4 e, out ivec4 s) {
#ifdef BOX
  const ivec4 i = e - to;
  s = at;
  [[unroll]] for (uint d = 0; d < 4; ++d) s[axes >> 2 * d & 3] += i[d] * step[d];
  return all(greaterThanEqual(i, ivec4(0))) && all(lessThan(i, box));
#else
  const int order = order_of(e, y_size);
  int from;
#ifdef MAP
  from = map[order];
  const bool found = from >= 0;
#else
  int left = order - y_offset;
  bool found = left >= 0;
  from = x_offset;
  for (uint d = rank; d-- > 0;) {
    const int k = left / y_stride[d];
    found = found && k < int(size[d]);
    left -= k * y_stride[d];
    from += k * x_stride[d];
  }
  found = found && left == 0;
#endif
  s = place_of(max(from, 0), x_size.xyz);
  return found;
#endif
}

vec4 texel(ivec4 e) {
  const ivec3 t = texels_of(x_size, kPackedX);
  e[kPackedX] >>= 2;
  return fetch(xs, position_of(e, t), t.y);
}

void main() {
  if (flat_id() >= n) return;
  const ivec3 t = texels_of(y_size, kPacked);
  ivec4 texel_id;
#ifdef BOX
  if (kAll) {
    texel_id = place_of(int(flat_id()), t);
  } else {
    ivec4 part = box, first = to;
    part[kPacked] += to[kPacked] & 3;
    first[kPacked] >>= 2;
    texel_id = first + place_of(int(flat_id()), texels_of(part, kPacked));
  }
#else
  texel_id = place_of(int(flat_id()), t);
#endif
  ivec4 e = texel_id, s;
  e[kPacked] <<= 2;
  vec4 y = vec4(0.0);
  bvec4 found = bvec4(false);
#ifdef BOX
  if (kWhole) {
    if (source(e, s)) {
      y = texel(s);
      found = lessThan(ivec4(0, 1, 2, 3) + (e[kPacked] - to[kPacked]), ivec4(box[kPacked]));
    }
  } else
#endif
  {
    [[unroll]] for (int k = 0; k < 4; ++k) {
      if (e[kPacked] < y_size[kPacked] && source(e, s)) {
        y[k] = texel(s)[s[kPackedX] & 3];
        found[k] = true;
      }
      ++e[kPacked];
    }
  }
  if (kRest == kValue) y = mix(vec4(value), y, found);
  if (kRest == kKept) {
    if (!any(found)) return;
    y = mix(fetch(before, position_of(texel_id, t), t.y), y, found);
  }
  put(ys, position_of(texel_id, t), t.y, y);
}
