#version 450
// The index of the largest (smallest) element along the middle of [outer, extent, inner]; the first NaN wins.
// Specialization constants: 2 smallest, 3 the last of equals.
//@ arg_reduce_{ELEMENT=f32,f16,i32,i64,i8,u8}_{INDEX_WORDS=i32:1,i64:2}
//@ ArgReduceTexture: arg_reduce_{INDEX_WORDS=i32:1,i64:2}_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row_reduction.glsl"

layout(constant_id = 2) const bool kMin = false;
layout(constant_id = 3) const bool kLast = false;
#if INDEX_WORDS == 2
#define INDEX uvec2
#define INDEX_OF(i) uvec2(i, 0)
#else
#define INDEX uint
#define INDEX_OF(i) i
#endif
#ifdef TEXTURE
#include "texture.glsl"
#define VALUE float
#define X_AT(i) element(xs, int(i), x_size, kPackedX)
layout(constant_id = 4) const uint kPackedX = 0;
layout(push_constant) uniform Push {
  ivec4 x_size;
  AXIS
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
#else
#define VALUE ELEMENT_VALUE
#define X_AT(i) VALUE(xs[i])
layout(push_constant) uniform Push { AXIS };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
#endif
layout(set = 0, binding = 1) writeonly buffer Y { INDEX ys[]; };

shared VALUE values[256];
shared uint places[256];

#ifdef ELEMENT_INTEGER
#define IS_NAN(v) false
#else
#define IS_NAN(v) isnan(v)
#endif

// True if (v, i) comes before (w, j).
bool before(VALUE v, uint i, VALUE w, uint j) {
  if (IS_NAN(v) || IS_NAN(w)) return IS_NAN(v) && (!IS_NAN(w) || i < j);
  if (v == w) return kLast ? i > j : i < j;
  return kMin ? v < w : v > w;
}

void main() {
  const uint row = row_id(), lane = row_lane();
  if (row >= rows) return;
  const uint base = row / inner * extent * inner + row % inner;
  uint best = min(lane, extent - 1);
  VALUE top = X_AT(base + best * inner);
  for (uint k = lane + kLanes; k < extent; k += kLanes) {
    const VALUE v = X_AT(base + k * inner);
    if (before(v, k, top, best)) {
      top = v;
      best = k;
    }
  }
  if (kLanes > 1) {
    values[lane] = top;
    places[lane] = best;
    for (uint step = kLanes / 2; step > 0; step /= 2) {
      barrier();
      if (lane < step && before(values[lane + step], places[lane + step], values[lane], places[lane])) {
        values[lane] = values[lane + step];
        places[lane] = places[lane + step];
      }
    }
    best = places[0];
  }
  if (lane == 0) ys[row] = INDEX_OF(best);
}
