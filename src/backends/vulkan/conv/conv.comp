#version 450
// Convolution of one to three spatial dimensions, direct or transposed (TRANSPOSED), in any layout, with groups. An
// invocation makes kPixels x kTile outputs: pixels along the lanes, output channels in registers; filter addresses are
// the same in all lanes.
// INTEGER        8-bit operands, int32 accumulators, requantized
// ACCUMULATORS   the int32 accumulators, with zero points given as tensors: of x one (kInputZero), of the filter one
//                for all or one a channel (kFilterZeros 1, 2)
// INT64          8- and 16-bit operands, the int64 accumulators
// FP16_MULTIPLY  products in float16, accumulated in float32
//@ conv[_transpose=TRANSPOSED]_{ELEMENT=f32,f16} WEIGHT=ELEMENT
//@ conv[_transpose=TRANSPOSED]_{ELEMENT=f16}_{WEIGHT=f32}
//@ conv[_transpose=TRANSPOSED]_fp16_multiply_{ELEMENT=f32,f16} FP16_MULTIPLY WEIGHT=float16_t
//@ ConvQuantized: conv[_transpose=TRANSPOSED]_{ELEMENT=i8,u8} INTEGER WEIGHT=ELEMENT
//@ ConvQuantized: conv[_transpose=TRANSPOSED]_{ELEMENT=u8}_{WEIGHT=i8} INTEGER
//@ ConvInt64: conv[_transpose=TRANSPOSED]_int64_{ELEMENT=i16} INT64 WEIGHT=int8_t
//@ ConvInteger: conv_integer_{ELEMENT=i8,u8} ACCUMULATORS WEIGHT=ELEMENT
//@ ConvInteger: conv_integer_{ELEMENT=i8,u8}_{WEIGHT=i8,u8} ACCUMULATORS where ELEMENT!=WEIGHT
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "requantize.glsl"
#ifdef ACCUMULATORS
#define ACCUMULATOR int
#define BIAS WEIGHT
#define X_ZERO - input_zero
#define W_ZERO - w_zero[t]
#elif defined(INT64)
#define ACCUMULATOR int64_t
#define BIAS WEIGHT
#define X_ZERO - x_zero
#define W_ZERO - w_zero
#elif defined(INTEGER)
#define ACCUMULATOR int
#define BIAS ivec4
#define X_ZERO - x_zero
#define W_ZERO - w_zero
#else
#define ACCUMULATOR float
#define BIAS float
#endif
#ifdef FP16_MULTIPLY
#define FACTOR float16_t
#else
#define FACTOR ACCUMULATOR
#endif

layout(constant_id = 1) const uint kTile = 8;
layout(constant_id = 2) const uint kPixels = 1;
layout(constant_id = 3) const bool kBias = false;
layout(constant_id = 4) const uint kRounding = 0;
#ifdef ACCUMULATORS
layout(constant_id = 5) const bool kInputZero = false;
layout(constant_id = 6) const uint kFilterZeros = 0;
#endif
// Channels are those of one group; filter_g to filter_s are strides: group, output and input channel, tap.
//@ block ConvGeometry geometry
#define GEOMETRY                                                             \
  int x_size[3], y_size[3], kernel[3], stride[3], dilation[3], pad[3];       \
  int filter_g, filter_o, filter_i, filter_s, c_in, c_out, groups, channels_last;
layout(push_constant) uniform Push {
  GEOMETRY
#ifdef ACCUMULATORS
#elif defined(INT64)
  int x_zero, w_zero;
#elif defined(INTEGER)
  REQUANTIZATION
#else
  ACTIVATION
#endif
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer W { WEIGHT ws[]; };
layout(set = 0, binding = 2) readonly buffer B { BIAS bias[]; };
#ifdef ACCUMULATORS
layout(set = 0, binding = 3) writeonly buffer Y { int ys[]; };
layout(set = 0, binding = 4) readonly buffer Z { ELEMENT x_zeros[]; };
#elif defined(INT64)
layout(set = 0, binding = 3) writeonly buffer Y { int64_t ys[]; };
#else
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
#endif

// The input coordinate that tap k of output o meets in dimension d, or -1.
int met(int d, int o, int k) {
#ifdef TRANSPOSED
  const int at = o + pad[d] - k * dilation[d];
  const int i = at / stride[d];
  return at >= 0 && i * stride[d] == at && i < x_size[d] ? i : -1;
#else
  const int i = o * stride[d] - pad[d] + k * dilation[d];
  return i < x_size[d] ? i : -1;
#endif
}

void main() {
  const int group = int(gl_WorkGroupID.z) % groups, image = int(gl_WorkGroupID.z) / groups;
  const int first = int(gl_WorkGroupID.y * kTile);
  const int x_pixels = x_size[0] * x_size[1] * x_size[2], y_pixels = y_size[0] * y_size[1] * y_size[2];
  const int all_in = c_in * groups, all_out = c_out * groups;
  const int x_pixel = channels_last != 0 ? all_in : 1, x_channel = channels_last != 0 ? 1 : x_pixels;
  const int x_base = image * all_in * x_pixels + group * c_in * x_channel;
  const int w_base = group * filter_g + first * filter_o, more = c_out - 1 - first;
  const int start = int(gl_WorkGroupID.x * gl_WorkGroupSize.x * kPixels + gl_LocalInvocationID.x);

  ACCUMULATOR sum[kPixels][kTile];
  int oz[kPixels], oy[kPixels], ox[kPixels];
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
    const int pixel = min(start + int(p * gl_WorkGroupSize.x), y_pixels - 1);
    const int line = pixel / y_size[2];
    ox[p] = pixel - line * y_size[2];
    oz[p] = line / y_size[1];
    oy[p] = line - oz[p] * y_size[1];
    [[unroll]] for (uint t = 0; t < kTile; ++t) sum[p][t] = ACCUMULATOR(0);
  }
  int w_row[kTile];
  [[unroll]] for (uint t = 0; t < kTile; ++t) w_row[t] = w_base + min(int(t), more) * filter_o;

#ifdef ACCUMULATORS
  const int input_zero = kInputZero ? int(x_zeros[0]) : 0;
  int w_zero[kTile];
  [[unroll]] for (uint t = 0; t < kTile; ++t)
    w_zero[t] = kFilterZeros == 0 ? 0 : int(bias[kFilterZeros == 1 ? 0 : group * c_out + first + min(int(t), more)]);
#endif
  int tap = 0;
  for (int kz = 0; kz < kernel[0]; ++kz)
    for (int ky = 0; ky < kernel[1]; ++ky)
      for (int kx = 0; kx < kernel[2]; ++kx, ++tap) {
        int at[kPixels];
        bool inside[kPixels];
        [[unroll]] for (uint p = 0; p < kPixels; ++p) {
          const int iz = met(0, oz[p], kz), iy = met(1, oy[p], ky), ix = met(2, ox[p], kx);
          inside[p] = iz >= 0 && iy >= 0 && ix >= 0;
          at[p] = x_base + (inside[p] ? ((iz * x_size[1] + iy) * x_size[2] + ix) * x_pixel : 0);
        }
        int w_at = tap * filter_s;
        for (int c = 0; c < c_in; ++c) {
          FACTOR x[kPixels];
          [[unroll]] for (uint p = 0; p < kPixels; ++p) {
#ifdef X_ZERO
            x[p] = inside[p] ? int(xs[at[p]]) X_ZERO : 0;
#else
            x[p] = inside[p] ? FACTOR(xs[at[p]]) : FACTOR(0);
#endif
            at[p] += x_channel;
          }
          [[unroll]] for (uint t = 0; t < kTile; ++t) {
#ifdef W_ZERO
            const int w = int(ws[w_row[t] + w_at]) W_ZERO;
#else
            const FACTOR w = FACTOR(ws[w_row[t] + w_at]);
#endif
            [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[p][t] += ACCUMULATOR(w * x[p]);
          }
          w_at += filter_i;
        }
      }

  const int y_pixel = channels_last != 0 ? all_out : 1, y_channel = channels_last != 0 ? 1 : y_pixels;
  const int channel = group * c_out + first;
  const int y_base = image * all_out * y_pixels + channel * y_channel;
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
    const int pixel = start + int(p * gl_WorkGroupSize.x);
    if (pixel >= y_pixels) continue;
    [[unroll]] for (uint t = 0; t < kTile; ++t) {
      if (int(t) > more) continue;
      const int to = y_base + int(t) * y_channel + pixel * y_pixel;
#if defined(ACCUMULATORS) || defined(INT64)
      ys[to] = sum[p][t];
#elif defined(INTEGER)
      const ivec4 r = bias[channel + int(t)];
      ys[to] = ELEMENT(requantize(sum[p][t] + r.x, r, kRounding, zero, low, high));
#else
      float y = sum[p][t];
      if (kBias) y += bias[channel + int(t)];
      ys[to] = ELEMENT(activate(y, act, act_a, act_b));
#endif
    }
  }
}
