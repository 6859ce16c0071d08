#version 450
// Convolution with packed filters, for subgroups of eight lanes: an invocation makes PIXELS x 16 outputs. Each lane
// loads an eighth of the weights, which then go round by broadcasts; pixels lie along the lanes. Filters are packed as
// [group][16 output channels][tap][4 input channels][4][16]. ELEMENT_VECTOR: channels-last, packed by 4.
// WEIGHT_BITS: filters of real images as integers of 8 or 4 bits in the same order, with scales [tile][block][16].
// INTEGER: 8-bit images and weights of int8, requantized: FIXED by multipliers and shifts, else by factors. Products
// are summed as floats, which is faster where integers of 32 bits are multiplied slowly, and exact up to 256 of them,
// then as 32-bit integers. What is known here is not a specialization constant: drivers then get small code.
//@ conv_packed_{ELEMENT=f32,vec4_f32}_{PIXELS=1,4}
//@ conv_packed_{ELEMENT=f32,vec4_f32}_{WEIGHT_BITS=w8:8,w4:4}_{PIXELS=1,4}
//@ ConvPackedQuantized: conv_packed_{ELEMENT=i8,u8,vec4_i8,vec4_u8}[_fixed=FIXED]_{PIXELS=1,4} INTEGER
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "common.glsl"
#include "activation.glsl"
#include "packed_geometry.glsl"
#include "requantize.glsl"

layout(constant_id = 1) const int kBlock = 1;  // chunks of four input channels that share scales
#ifdef FIXED
layout(constant_id = 2) const uint kRounding = 1;
#else
const uint kRounding = 0;
#endif
const uint kPixels = PIXELS;
layout(push_constant) uniform Push {
  PACKED_GEOMETRY
#ifdef INTEGER
  REQUANTIZATION
#else
  float low, high;
#endif
};
#ifdef INTEGER
#define CHANNEL_PARAMETER ivec4
#define LESS_ZERO - float(x_zero)
const int kExact = 64;  // fours of products whose sum is exact
#else
#define CHANNEL_PARAMETER float
#define LESS_ZERO
#endif
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
#if WEIGHT_BITS == 8 || defined(INTEGER)
layout(set = 0, binding = 1) readonly buffer W { i8vec4 ws[]; };
#elif WEIGHT_BITS == 4
layout(set = 0, binding = 1) readonly buffer W { uint16_t ws[]; };  // four of four bits, 8 more than they mean
#else
layout(set = 0, binding = 1) readonly buffer W { vec4 ws[]; };
#endif
layout(set = 0, binding = 2) readonly buffer B { CHANNEL_PARAMETER bias[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
#ifdef WEIGHT_BITS
layout(set = 0, binding = 4) readonly buffer S { vec4 scales[]; };

vec4 weights(int at, vec4 scale) {
#if WEIGHT_BITS == 8
  return vec4(ws[at]) * scale;
#else
  const int v = int(ws[at]);
  return vec4((ivec4(v, v >> 4, v >> 8, v >> 12) & 15) - 8) * scale;
#endif
}
#endif

// The weights of input channel k of four for outputs 4t.. come from the lane that holds them.
#define WEIGHTS(k, t)                                                       \
  {                                                                         \
    const vec4 all = subgroupBroadcast(w[(k) / 2], (k) % 2 * 4 + (t));      \
    [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[p][t] += x[p][k] * all; \
  }
#define CHANNEL(k) WEIGHTS(k, 0) WEIGHTS(k, 1) WEIGHTS(k, 2) WEIGHTS(k, 3)

void main() {
  const int group = int(gl_WorkGroupID.z) % groups, image = int(gl_WorkGroupID.z) / groups;
  const int first = int(gl_WorkGroupID.y) * 16;
  const int y_pixels = y_size[0] * y_size[1];
  const int x_base = image * c_in * groups * x_size[0] * x_size[1] + group * c_in * x_channel;
  const int start = int(gl_WorkGroupID.x * gl_WorkGroupSize.x * kPixels + gl_LocalInvocationID.x);
  const int chunks = (c_in + 3) / 4, blocks = (chunks + kBlock - 1) / kBlock;
  const int taps = kernel[0] * kernel[1], channel = group * c_out + first;
  int w_at = (group * tiles + int(gl_WorkGroupID.y)) * taps * chunks * 16 + int(gl_SubgroupInvocationID);

  vec4 sum[kPixels][4];
  int oy[kPixels], ox[kPixels];
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
    const int pixel = min(start + int(p * gl_WorkGroupSize.x), y_pixels - 1);
    const int line = pixel / y_size[1];
    ox[p] = (pixel - line * y_size[1]) * stride[1] - pad[1];
    oy[p] = line * stride[0] - pad[0];
    [[unroll]] for (uint t = 0; t < 4; ++t) sum[p][t] = vec4(0.0);
  }
#ifdef INTEGER
  ivec4 total[kPixels][4];
  [[unroll]] for (uint p = 0; p < kPixels; ++p)
    [[unroll]] for (uint t = 0; t < 4; ++t) total[p][t] = ivec4(0);
  vec4 w_zero;  // of the outputs that this lane's weights are for
  [[unroll]] for (int i = 0; i < 4; ++i)
    w_zero[i] = float(bias[channel + min(int(gl_SubgroupInvocationID) % 4 * 4 + i, c_out - 1 - first)].w);
  const int together = max(kExact / chunks, 1), chunk = kExact;
#else
  const int together = taps, chunk = chunks;
#endif

  // `together` taps, or a slice of the channels of one tap, give accumulators that are exact.
  int ky = 0, kx = 0;
  for (int first_tap = 0; first_tap < taps; first_tap += together) {
    const int first_ky = ky, first_kx = kx;
    for (int first_c = 0; first_c < chunks; first_c += chunk) {
      ky = first_ky;
      kx = first_kx;
      for (int tap = first_tap; tap < min(first_tap + together, taps); ++tap) {
        int at[kPixels];
        bool inside[kPixels];
        [[unroll]] for (uint p = 0; p < kPixels; ++p) {
          const int iy = oy[p] + ky * dilation[0], ix = ox[p] + kx * dilation[1];
          inside[p] = iy >= 0 && iy < x_size[0] && ix >= 0 && ix < x_size[1];
          at[p] = x_base + (inside[p] ? (iy * x_size[1] + ix) * x_pixel : 0);
        }
        const bool row_ends = ++kx == kernel[1];
        kx = row_ends ? 0 : kx;
        ky += row_ends ? 1 : 0;
        for (int c = first_c; c < min(first_c + chunk, chunks); ++c) {
#ifdef WEIGHT_BITS
          const int scales_at = (int(gl_WorkGroupID.y) * blocks + c / kBlock) * 4;
          const vec4 scale = scales[scales_at + int(gl_SubgroupInvocationID) % 4];
          const vec4 w[2] = {weights(w_at, scale), weights(w_at + 8, scale)};
#elif defined(INTEGER)
          const vec4 w[2] = {vec4(ws[w_at]) - w_zero, vec4(ws[w_at + 8]) - w_zero};
#else
          const vec4 w[2] = {ws[w_at], ws[w_at + 8]};
#endif
          w_at += 16;
          vec4 x[kPixels];
          [[unroll]] for (uint p = 0; p < kPixels; ++p) {
#ifdef ELEMENT_VECTOR
            x[p] = inside[p] ? vec4(xs[at[p] / 4 + c]) LESS_ZERO : vec4(0.0);
#else
            [[unroll]] for (int i = 0; i < 4; ++i) {
              const float v = float(xs[at[p] + min(c * 4 + i, c_in - 1) * x_channel]) LESS_ZERO;
              x[p][i] = inside[p] && c * 4 + i < c_in ? v : 0.0;
            }
#endif
          }
          CHANNEL(0) CHANNEL(1) CHANNEL(2) CHANNEL(3)
        }
      }
#ifdef INTEGER
      [[unroll]] for (uint p = 0; p < kPixels; ++p)
        [[unroll]] for (uint t = 0; t < 4; ++t) {
          total[p][t] += ivec4(sum[p][t]);
          sum[p][t] = vec4(0.0);
        }
#endif
    }
  }

  const int y_base = image * c_out * groups * y_pixels + channel * y_channel;
#ifdef INTEGER
  ivec4 r[16];
  [[unroll]] for (uint t = 0; t < 16; ++t) r[t] = bias[channel + min(int(t), c_out - 1 - first)];
#else
  vec4 b[4];
  [[unroll]] for (uint t = 0; t < 4; ++t)
    [[unroll]] for (uint i = 0; i < 4; ++i) b[t][i] = bias[channel + min(int(t * 4 + i), c_out - 1 - first)];
#endif
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
    const int pixel = start + int(p * gl_WorkGroupSize.x);
    [[unroll]] for (uint t = 0; t < 4; ++t) {
#ifdef INTEGER
      ivec4 y = total[p][t];
      [[unroll]] for (uint i = 0; i < 4; ++i)
        y[i] = requantize(y[i] + r[t * 4 + i].x, r[t * 4 + i], kRounding, zero, low, high);
#else
      vec4 y = sum[p][t] + b[t];
      [[unroll]] for (uint i = 0; i < 4; ++i) y[i] = bounded(y[i], low, high);
#endif
#ifdef ELEMENT_VECTOR
      if (pixel < y_pixels && first + int(t) * 4 < c_out) ys[(y_base + int(t) * 4 + pixel * y_pixel) / 4] = ELEMENT(y);
#else
      [[unroll]] for (uint i = 0; i < 4; ++i)
        if (pixel < y_pixels && first + int(t * 4 + i) < c_out)
          ys[y_base + int(t * 4 + i) * y_channel + pixel * y_pixel] = ELEMENT(y[i]);
#endif
    }
  }
}
