#version 450
// Convolution with a constant filter by cooperative matrices. Four subgroups make kBlock pixels x kBlock output
// channels, each half of either. Four input channels are a chunk: a word of int8 or, by FLOAT, two words of
// float16 with sums in float32. Filters are packed as [group][output channel][tap][chunk]. Zero points,
// ACCUMULATORS and DYNAMIC as in integer_dot_product.comp, whose bindings and channels these are; FLOAT: a channel has
// a bias.
//@ CooperativeMatrixFloat: cooperative_matrix_{ELEMENT=f32,f16} FLOAT
//@ cooperative_matrix_{ELEMENT=i8,u8}
//@ CooperativeMatrixAccumulators: cooperative_matrix_accumulators_{ELEMENT=i8,u8} ACCUMULATORS
//@ CooperativeMatrixFloat: cooperative_matrix_dynamic_{ELEMENT=i8} DYNAMIC
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common.glsl"
#include "activation.glsl"
#include "packed_geometry.glsl"
#include "requantize.glsl"

layout(constant_id = 1) const uint kM = 16;  // of a matrix: pixels, output channels and what is summed, in elements
layout(constant_id = 2) const uint kN = 16;
layout(constant_id = 3) const uint kRounding = 0;
layout(constant_id = 4) const bool kNeighbours = false;  // channels of a pixel lie side by side
layout(constant_id = 5) const bool kFilterZeros = false;
layout(constant_id = 6) const bool kInputZero = false;
layout(constant_id = 7) const uint kK = 16;
layout(push_constant) uniform Push {
  PACKED_GEOMETRY
#if defined(FLOAT) || defined(DYNAMIC)
  ACTIVATION
#elif !defined(ACCUMULATORS)
  REQUANTIZATION  // x_zero as int8
#endif
};
layout(set = 0, binding = 1) readonly buffer W { uint ws[]; };
#ifdef FLOAT
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 2) readonly buffer B { float channels[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
#else
layout(set = 0, binding = 0) readonly buffer Words { uint words[]; };  // of the image
layout(set = 0, binding = 4) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 5) readonly buffer Z { ELEMENT x_zeros[]; };  // ACCUMULATORS and DYNAMIC
#ifdef ACCUMULATORS
layout(set = 0, binding = 2) readonly buffer B { ivec2 channels[]; };
layout(set = 0, binding = 3) writeonly buffer Y { int ys[]; };
#elif defined(DYNAMIC)
layout(set = 0, binding = 2) readonly buffer B { ivec4 channels[]; };
layout(set = 0, binding = 3) writeonly buffer Y { float ys[]; };
layout(set = 0, binding = 6) readonly buffer Scales { float x_scales[]; };
#else
layout(set = 0, binding = 2) readonly buffer B { ivec4 channels[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
#endif
#endif

const uint kBlock = 64;             // pixels, and output channels, of a workgroup
const uint kWords = 16;             // of a row of either operand at a time
const uint kRowWords = kWords + 4;  // in shared memory, where rows begin at different banks
const uint kSumWords = kBlock + 4;
#ifdef FLOAT
const uint kPart = 2;  // words of a chunk
#define ACCUMULATOR float
#define MATRIX_X fcoopmatNV<16, gl_ScopeSubgroup, kM, kK>
#define MATRIX_W fcoopmatNV<16, gl_ScopeSubgroup, kK, kN>
#define MATRIX_SUM fcoopmatNV<32, gl_ScopeSubgroup, kM, kN>
#else
const uint kPart = 1;
#define ACCUMULATOR int
#define MATRIX_X icoopmatNV<8, gl_ScopeSubgroup, kM, kK>
#define MATRIX_W icoopmatNV<8, gl_ScopeSubgroup, kK, kN>
#define MATRIX_SUM icoopmatNV<32, gl_ScopeSubgroup, kM, kN>
#endif
const uint kChunks = kWords / kPart;  // of a row at a time
const uint kElements = kChunks * 4;
const uint kRows = kBlock / 2 / kM, kColumns = kBlock / 2 / kN;  // matrices of a subgroup

shared uint x_rows[kBlock * kRowWords], w_rows[kBlock * kRowWords];
shared ACCUMULATOR sums[kBlock * kSumWords];
shared ivec2 origin[kBlock];  // of a pixel's window
#ifndef FLOAT
shared int x_sum[kBlock];
#endif

#ifdef ELEMENT_U8
const uint kFlip = 0x80808080u;
#else
const uint kFlip = 0;
#endif

#ifdef FLOAT
uvec2 chunk_at(int at, int c) {
  vec4 v = vec4(0.0);
  [[unroll]] for (int i = 0; i < 4; ++i)
    if (c + i < c_in) v[i] = float(xs[at + (c + i) * x_channel]);
  return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
}
#else
uint chunk_at(int at, int c) {
  if (kNeighbours && (c_in & 3) == 0) return words[(at + c) >> 2] ^ kFlip;
  uint word = 0;
  [[unroll]] for (int i = 0; i < 4; ++i)
    if (c + i < c_in) word |= ((uint(xs[at + (c + i) * x_channel]) ^ (kFlip & 0xffu)) & 0xffu) << (8 * i);
  return word;
}
// Zero points where a channel is, zero where none is.
uint outside(int zero, int c) {
  const uint all = uint(zero & 0xff) * 0x01010101u;
  return c_in - c >= 4 ? all : all & ((1u << (8 * (c_in - c))) - 1u);
}
int sum_of(uint word) {
  int s = 0;
  [[unroll]] for (int i = 0; i < 4; ++i) s += bitfieldExtract(int(word), 8 * i, 8);
  return s;
}
#endif

void main() {
  const int group = int(gl_WorkGroupID.z) % groups, image = int(gl_WorkGroupID.z) / groups;
  const int first = int(gl_WorkGroupID.y * kBlock), start = int(gl_WorkGroupID.x * kBlock);
  const uint me = gl_LocalInvocationID.x, all = gl_WorkGroupSize.x;
  const int y_pixels = y_size[0] * y_size[1];
  const int x_base = image * c_in * groups * x_size[0] * x_size[1] + group * c_in * x_channel;
  const int chunks = (c_in + 3) / 4, depth = kernel[0] * kernel[1] * chunks, channel = group * c_out + first;
#if defined(ACCUMULATORS) && defined(ELEMENT_U8)
  const int x_zero = (kInputZero ? int(x_zeros[0]) : 0) - 128;
#elif defined(ACCUMULATORS)
  const int x_zero = kInputZero ? int(x_zeros[0]) : 0;
#elif defined(DYNAMIC)
  const int x_zero = int(x_zeros[image]);
#endif
  for (uint p = me; p < kBlock; p += all) {
    const int pixel = min(start + int(p), y_pixels - 1), line = pixel / y_size[1];
    origin[p] = ivec2(line * stride[0] - pad[0], (pixel - line * y_size[1]) * stride[1] - pad[1]);
#ifndef FLOAT
    x_sum[p] = 0;
#endif
  }
  MATRIX_SUM sum[kRows][kColumns];
  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kColumns; ++j) sum[i][j] = MATRIX_SUM(ACCUMULATOR(0));
  const uint row = gl_SubgroupID / 2 * (kBlock / 2), column = gl_SubgroupID % 2 * (kBlock / 2);
  barrier();

  for (int from = 0; from < depth; from += int(kChunks)) {
    for (uint u = me; u < kBlock * kChunks; u += all) {
      const uint p = kNeighbours ? u / kChunks : u % kBlock, k = kNeighbours ? u % kChunks : u / kBlock;
      const int at = from + int(k), tap = at / chunks, c = (at - tap * chunks) * 4, ky = tap / kernel[1];
      const int iy = origin[p].x + ky * dilation[0], ix = origin[p].y + (tap - ky * kernel[1]) * dilation[1];
      const bool inside = iy >= 0 && iy < x_size[0] && ix >= 0 && ix < x_size[1];
      const uint to = p * kRowWords + k * kPart;
#ifdef FLOAT
      uvec2 v = uvec2(0);
      if (at < depth && inside) v = chunk_at(x_base + (iy * x_size[1] + ix) * x_pixel, c);
      x_rows[to] = v.x;
      x_rows[to + 1] = v.y;
#else
      uint v = 0;
      if (at < depth) v = inside ? chunk_at(x_base + (iy * x_size[1] + ix) * x_pixel, c) : outside(x_zero, c);
      x_rows[to] = v;
      if (kFilterZeros) atomicAdd(x_sum[p], sum_of(v));
#endif
    }
    for (uint u = me; u < kBlock * kWords; u += all) {
      const uint o = u / kWords, k = u % kWords;
      const int w_at = (channel + min(int(o), c_out - 1 - first)) * depth * int(kPart) + from * int(kPart) + int(k);
      w_rows[o * kRowWords + k] = from * int(kPart) + int(k) < depth * int(kPart) ? ws[w_at] : 0;
    }
    barrier();
    [[unroll]] for (uint k = 0; k < kElements / kK; ++k) {
      const uint words_in = k * (kK * kWords / kElements);
      MATRIX_X x[kRows];
      [[unroll]] for (uint i = 0; i < kRows; ++i)
        coopMatLoadNV(x[i], x_rows, (row + i * kM) * kRowWords + words_in, kRowWords, false);
      [[unroll]] for (uint j = 0; j < kColumns; ++j) {
        MATRIX_W w;
        coopMatLoadNV(w, w_rows, (column + j * kN) * kRowWords + words_in, kRowWords, true);
        [[unroll]] for (uint i = 0; i < kRows; ++i) sum[i][j] = coopMatMulAddNV(x[i], w, sum[i][j]);
      }
    }
    barrier();
  }

  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kColumns; ++j)
      coopMatStoreNV(sum[i][j], sums, (row + i * kM) * kSumWords + column + j * kN, kSumWords, false);
  barrier();
  const int y_base = image * c_out * groups * y_pixels + channel * y_channel;
  for (uint u = me; u < kBlock * kBlock; u += all) {
    const uint o = kNeighbours ? u % kBlock : u / kBlock, p = kNeighbours ? u / kBlock : u % kBlock;
    const int pixel = start + int(p);
    if (pixel >= y_pixels || first + int(o) >= c_out) continue;
    const ACCUMULATOR v = sums[p * kSumWords + o];
    const int to = y_base + int(o) * y_channel + pixel * y_pixel;
#ifdef FLOAT
    ys[to] = ELEMENT(activate(v + channels[channel + int(o)], act, act_a, act_b));
#elif defined(ACCUMULATORS)
    const ivec2 r = channels[channel + int(o)];
    const int products = kernel[0] * kernel[1] * c_in;
    ys[to] = v - x_zero * r.x - (kFilterZeros ? (x_sum[p] - products * x_zero) * r.y : 0);
#elif defined(DYNAMIC)
    const ivec4 r = channels[channel + int(o)];
    const float y = float(v - x_zero * r.x) * x_scales[image] * intBitsToFloat(r.y) + intBitsToFloat(r.z);
    ys[to] = activate(y, act, act_a, act_b);
#else
    const ivec4 r = channels[channel + int(o)];
    const int biased = v + r.x - (kFilterZeros ? x_sum[p] * r.w : 0);
    ys[to] = ELEMENT(requantize(biased, r, kRounding, zero, low, high));
#endif
  }
}
