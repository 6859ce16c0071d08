#version 450
// Rows of int8 values, each with a scale and zero point, times constant weights, four products an instruction:
// y[row, column] = act(scale[row] * sum_k (x[row, k] - zero[row]) * w[k, column] * scale of w + bias[column]). Columns
// go along the lanes; an invocation makes kLanes x kTile outputs, or a part of them, one of kSlices, when rows are few.
// Weights are words of [chunk][column]: BITS 8, four int8; 4, eight integers of four bits, those of the first word of x
// in the low halves of bytes. BLOCKS: they have scales for each `block` chunks, so that sums of blocks are real.
//@ per_token_{BITS=w8:8,w4:4}[_blocks=BLOCKS]
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#include "common.glsl"
#include "activation.glsl"
#include "integer_dot_product.glsl"
#ifdef BLOCKS
#define ACCUMULATOR float
#else
#define ACCUMULATOR int
#endif

layout(constant_id = 1) const uint kTile = 1;
layout(constant_id = 2) const uint kLanes = 1;
// More slices than one: kTile and kLanes are 1, the workgroup is of 256 at most.
layout(constant_id = 3) const uint kSlices = 1;
layout(constant_id = 4) const bool kPerTensor = false;
layout(push_constant) uniform Push {
  int rows, columns;
  int words;   // of a row of x
  int chunks;  // of a column of w
  int block, blocks;
  ACTIVATION
};
layout(set = 0, binding = 0) readonly buffer X { int xs[]; };
layout(set = 0, binding = 1) readonly buffer W { int ws[]; };
layout(set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Zeros { int8_t zeros[]; };
layout(set = 0, binding = 4) readonly buffer Columns { ivec2 parameters[]; };  // [block][column]: sum and scale of w
layout(set = 0, binding = 5) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 6) writeonly buffer Y { float ys[]; };
shared ACCUMULATOR parts[256];

// The low halves of four bytes as int8.
int low_nibbles(int v) {
  const int low = v & 0x0f0f0f0f;
  return low | (low & 0x08080808) * 30;
}

void main() {
  const int across = int(gl_WorkGroupSize.x / kSlices), lane = int(gl_LocalInvocationID.x) % across;
  const int slice = int(gl_LocalInvocationID.x) / across;
  const int first = int(gl_WorkGroupID.y * kTile), more = rows - 1 - first;
  const int start = int(gl_WorkGroupID.x) * across * int(kLanes) + lane;
  int column[kLanes], x_row[kTile], zero[kTile];
  ACCUMULATOR sum[kLanes][kTile];
  [[unroll]] for (uint t = 0; t < kTile; ++t) {
    const int row = first + min(int(t), more);
    x_row[t] = row * words;
    zero[t] = slice == 0 ? int(zeros[kPerTensor ? 0 : row]) : 0;
  }
  [[unroll]] for (uint l = 0; l < kLanes; ++l) {
    column[l] = min(start + int(l) * across, columns - 1);
    [[unroll]] for (uint t = 0; t < kTile; ++t) sum[l][t] = ACCUMULATOR(0);
  }
  for (int b = 0; b < blocks; ++b) {
    int part[kLanes][kTile];
    [[unroll]] for (uint l = 0; l < kLanes; ++l)
      [[unroll]] for (uint t = 0; t < kTile; ++t) part[l][t] = 0;
    const int end = min((b + 1) * block, chunks);
    for (int c = b * block + slice; c < end; c += int(kSlices)) {
#if BITS == 8
      int w[kLanes];
      [[unroll]] for (uint l = 0; l < kLanes; ++l) w[l] = ws[c * columns + column[l]];
      [[unroll]] for (uint t = 0; t < kTile; ++t) {
        const int x = xs[x_row[t] + c];
        [[unroll]] for (uint l = 0; l < kLanes; ++l) part[l][t] += dot_int8(x, w[l], 0);
      }
#else
      int low[kLanes], high[kLanes];
      [[unroll]] for (uint l = 0; l < kLanes; ++l) {
        const int w = ws[c * columns + column[l]];
        low[l] = low_nibbles(w);
        high[l] = low_nibbles(w >> 4);
      }
      [[unroll]] for (uint t = 0; t < kTile; ++t) {
        const int x = xs[x_row[t] + 2 * c], next = xs[x_row[t] + 2 * c + 1];
        [[unroll]] for (uint l = 0; l < kLanes; ++l)
          part[l][t] += dot_int8(x, low[l], 0) + dot_int8(next, high[l], 0);
      }
#endif
    }
    [[unroll]] for (uint l = 0; l < kLanes; ++l) {
      const ivec2 p = parameters[b * columns + column[l]];
      [[unroll]] for (uint t = 0; t < kTile; ++t) {
        const int v = part[l][t] - zero[t] * p.x;
#ifdef BLOCKS
        sum[l][t] += float(v) * intBitsToFloat(p.y);
#else
        sum[l][t] += v;
#endif
      }
    }
  }
  if (kSlices > 1) {
    parts[gl_LocalInvocationID.x] = sum[0][0];
    barrier();
    if (slice > 0) return;
    for (int s = 1; s < int(kSlices); ++s) sum[0][0] += parts[s * across + lane];
  }
  [[unroll]] for (uint l = 0; l < kLanes; ++l) {
    if (start + int(l) * across >= columns) continue;
    [[unroll]] for (uint t = 0; t < kTile; ++t) {
      if (int(t) > more) continue;
      const int row = first + int(t);
      float y = float(sum[l][t]) * scales[kPerTensor ? 0 : row];
#ifndef BLOCKS
      y *= intBitsToFloat(parameters[column[l]].y);
#endif
      ys[row * columns + column[l]] = activate(y + bias[column[l]], act, act_a, act_b);
    }
  }
}
