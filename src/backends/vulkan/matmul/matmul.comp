#version 450
// Products of two operands along `depth`, batched: y[lane, tile] = act(alpha * sum_k p[lane, k] * q[tile, k] + beta *
// c[lane, tile]), all by strides. An invocation makes kLanes x kTile outputs; addresses of q are the same in all lanes.
// INTEGER        8-bit operands, int32 accumulators, requantized; channels go along the lanes
// ACCUMULATORS   the int32 accumulators, with zero points given as tensors: one for all, or one a lane (kLaneZeros) or
//                row of tiles (kTileZeros)
// INT64          8- and 16-bit operands, the int64 accumulators
// FP16_MULTIPLY  products in float16, accumulated in float32
//@ matmul_{LANE=f32,f16} TILE=LANE ELEMENT=LANE
//@ matmul_{LANE=f32,f16}_{TILE=f32,f16} ELEMENT=float16_t where LANE!=TILE
//@ matmul_fp16_multiply_{LANE=f32,f16} FP16_MULTIPLY TILE=LANE ELEMENT=LANE
//@ matmul_fp16_multiply_{LANE=f32,f16}_{TILE=f32,f16} FP16_MULTIPLY ELEMENT=float where LANE!=TILE
//@ MatmulQuantized: matmul_{LANE=i8,u8} INTEGER TILE=LANE ELEMENT=LANE
//@ MatmulQuantized: matmul_{LANE=i8}_{TILE=u8} INTEGER ELEMENT=TILE
//@ MatmulInteger: matmul_integer_{LANE=i8,u8} ACCUMULATORS TILE=LANE ELEMENT=int
//@ MatmulInteger: matmul_integer_{LANE=i8,u8}_{TILE=i8,u8} ACCUMULATORS ELEMENT=int where LANE!=TILE
//@ MatmulInt64: matmul_int64_{LANE=i8,u8,i16} INT64 TILE=LANE
//@ MatmulInt64: matmul_int64_{LANE=i8}_{TILE=i16} INT64
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "requantize.glsl"
#ifdef ACCUMULATORS
#define ACCUMULATOR int
#define ADDEND LANE
#define P_ZERO - p_zero[l]
#define Q_ZERO - q_zero[t]
#elif defined(INT64)
#define ACCUMULATOR int64_t
#define ADDEND LANE
#define ELEMENT int64_t
#define P_ZERO - p_zero
#define Q_ZERO - q_zero
#elif defined(INTEGER)
#define ACCUMULATOR int
#define ADDEND ivec4
#define P_ZERO - p_zero
#define Q_ZERO - q_zero
#else
#define ACCUMULATOR float
#define ADDEND float
#define P_ZERO
#define Q_ZERO
#endif
#ifdef FP16_MULTIPLY
#define FACTOR float16_t
#else
#define FACTOR ACCUMULATOR
#endif

layout(constant_id = 1) const uint kTile = 8;
layout(constant_id = 2) const uint kLanes = 1;
layout(constant_id = 3) const bool kAddend = false;
layout(constant_id = 4) const uint kRounding = 0;
#ifdef ACCUMULATORS
layout(constant_id = 5) const uint kLaneZeros = 0;  // 0: none, 1: one, 2: many
layout(constant_id = 6) const uint kTileZeros = 0;
#endif
// Extents, strides by operand and dimension, and the batch's dimensions, innermost first.
//@ block MatmulGeometry geometry
#define GEOMETRY                                                                                  \
  int lanes, tiles, depth, p_lane, p_k, q_tile, q_k, y_lane, y_tile, c_lane, c_tile;              \
  uint batch[3]; int p_batch[3], q_batch[3], c_batch[3], y_batch;
layout(push_constant) uniform Push {
  GEOMETRY
#ifdef ACCUMULATORS
#elif defined(INT64)
  int p_zero, q_zero;
#elif defined(INTEGER)
  int p_zero, q_zero, zero, low, high;
#else
  float alpha, beta;
  ACTIVATION
#endif
};
layout(set = 0, binding = 0) readonly buffer P { LANE ps[]; };
layout(set = 0, binding = 1) readonly buffer Q { TILE qs[]; };
layout(set = 0, binding = 2) readonly buffer C { ADDEND cs[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
#ifdef ACCUMULATORS
layout(set = 0, binding = 4) readonly buffer Z { TILE zs[]; };
#endif

void main() {
  uint rest = gl_WorkGroupID.z;
  int p_at = 0, q_base = 0, c_base = 0;
  [[unroll]] for (uint d = 0; d < 3; ++d) {
    const uint next = rest / batch[d];
    const int i = int(rest - next * batch[d]);
    p_at += i * p_batch[d];
    q_base += i * q_batch[d];
    c_base += i * c_batch[d];
    rest = next;
  }
  const int y_base = int(gl_WorkGroupID.z) * y_batch;
  const int first = int(gl_WorkGroupID.y * kTile), more = tiles - 1 - first;
  const int start = int(gl_WorkGroupID.x * gl_WorkGroupSize.x * kLanes + gl_LocalInvocationID.x);
  ACCUMULATOR sum[kLanes][kTile];
  int at[kLanes];
  [[unroll]] for (uint l = 0; l < kLanes; ++l) {
    at[l] = p_at + min(start + int(l * gl_WorkGroupSize.x), lanes - 1) * p_lane;
    [[unroll]] for (uint t = 0; t < kTile; ++t) sum[l][t] = ACCUMULATOR(0);
  }
  int q_row[kTile];
  [[unroll]] for (uint t = 0; t < kTile; ++t) q_row[t] = q_base + (first + min(int(t), more)) * q_tile;

#ifdef ACCUMULATORS
  int p_zero[kLanes], q_zero[kTile];
  [[unroll]] for (uint l = 0; l < kLanes; ++l) {
    const int lane = min(start + int(l * gl_WorkGroupSize.x), lanes - 1);
    p_zero[l] = kLaneZeros == 0 ? 0 : int(cs[kLaneZeros == 1 ? 0 : lane]);
  }
  [[unroll]] for (uint t = 0; t < kTile; ++t)
    q_zero[t] = kTileZeros == 0 ? 0 : int(zs[kTileZeros == 1 ? 0 : first + min(int(t), more)]);
#endif
  int q_at = 0;
  for (int k = 0; k < depth; ++k) {
    FACTOR p[kLanes];
    [[unroll]] for (uint l = 0; l < kLanes; ++l) {
      p[l] = FACTOR(ps[at[l]]) P_ZERO;
      at[l] += p_k;
    }
    [[unroll]] for (uint t = 0; t < kTile; ++t) {
      const FACTOR q = FACTOR(qs[q_row[t] + q_at]) Q_ZERO;
      [[unroll]] for (uint l = 0; l < kLanes; ++l) sum[l][t] += ACCUMULATOR(p[l] * q);
    }
    q_at += q_k;
  }

  [[unroll]] for (uint l = 0; l < kLanes; ++l) {
    const int lane = start + int(l * gl_WorkGroupSize.x);
    if (lane >= lanes) continue;
    [[unroll]] for (uint t = 0; t < kTile; ++t) {
      if (int(t) > more) continue;
      const int tile = first + int(t), to = y_base + lane * y_lane + tile * y_tile;
#if defined(ACCUMULATORS) || defined(INT64)
      ys[to] = sum[l][t];
#elif defined(INTEGER)
      const ivec4 r = cs[lane];
      ys[to] = ELEMENT(requantize(sum[l][t] + r.x, r, kRounding, zero, low, high));
#else
      float y = alpha * sum[l][t];
      if (kAddend) y += beta * cs[c_base + lane * c_lane + tile * c_tile];
      ys[to] = ELEMENT(activate(y, act, act_a, act_b));
#endif
    }
  }
}
