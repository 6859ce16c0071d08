#version 450
// Convolution of 8-bit images with constant filters, four products an instruction, requantized. An invocation makes
// kPixels x kTile outputs: pixels along the lanes, output channels in registers. Four input channels are a word of
// int8; uint8 images (ELEMENT_U8) become int8 by subtracting 128, as filters did when they were packed as
// [group][output channel][tap][four input channels]. Outside of the image lies its zero point, so that the zero points'
// part of a sum is the same for all pixels and stands in the channel's bias; only that of filters with one
// (kFilterZeros) depends on x. ACCUMULATORS: the int32 accumulators; the zero point of x is a tensor (kInputZero), and
// a channel has the sum of its filter. DYNAMIC: real results, of images that were quantized at run time, with a scale
// and zero point each; a channel has the sum, scale and bias of its filter.
//@ integer_dot_product_{ELEMENT=i8,u8}
//@ IntegerDotProductAccumulators: integer_dot_product_accumulators_{ELEMENT=i8,u8} ACCUMULATORS
//@ IntegerDotProductDynamic: integer_dot_product_dynamic_{ELEMENT=i8} DYNAMIC
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#include "common.glsl"
#include "activation.glsl"
#include "integer_dot_product.glsl"
#include "packed_geometry.glsl"
#include "requantize.glsl"

layout(constant_id = 1) const uint kTile = 8;
layout(constant_id = 2) const uint kPixels = 1;
layout(constant_id = 3) const uint kRounding = 0;
layout(constant_id = 4) const bool kWords = false;  // the image's channels come in fours, side by side
layout(constant_id = 5) const bool kFilterZeros = false;
layout(constant_id = 6) const bool kInputZero = false;
layout(push_constant) uniform Push {
  PACKED_GEOMETRY
#ifdef DYNAMIC
  ACTIVATION
#elif !defined(ACCUMULATORS)
  REQUANTIZATION  // x_zero as int8
#endif
};
layout(set = 0, binding = 0) readonly buffer X { int xs[]; };
layout(set = 0, binding = 1) readonly buffer W { int ws[]; };
#ifdef ACCUMULATORS
layout(set = 0, binding = 2) readonly buffer B { ivec2 channels[]; };  // sum and zero point of the filter
layout(set = 0, binding = 3) writeonly buffer Y { int ys[]; };
#elif defined(DYNAMIC)
layout(set = 0, binding = 2) readonly buffer B { ivec4 channels[]; };
layout(set = 0, binding = 3) writeonly buffer Y { float ys[]; };
layout(set = 0, binding = 6) readonly buffer Scales { float x_scales[]; };
#else
layout(set = 0, binding = 2) readonly buffer B { ivec4 channels[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
#endif
layout(set = 0, binding = 4) readonly buffer Bytes { ELEMENT bytes[]; };  // of the image
layout(set = 0, binding = 5) readonly buffer Z { ELEMENT x_zeros[]; };  // ACCUMULATORS and DYNAMIC
#ifdef ELEMENT_U8
const int kFlip = int(0x80808080u);
#else
const int kFlip = 0;
#endif
const int kOnes = 0x01010101;

void main() {
  const int group = int(gl_WorkGroupID.z) % groups, image = int(gl_WorkGroupID.z) / groups;
  const int first = int(gl_WorkGroupID.y * kTile);
  const int y_pixels = y_size[0] * y_size[1];
  const int x_base = image * c_in * groups * x_size[0] * x_size[1] + group * c_in * x_channel;
  const int start = int(gl_WorkGroupID.x * gl_WorkGroupSize.x * kPixels + gl_LocalInvocationID.x);
  const int chunks = (c_in + 3) / 4, channel = group * c_out + first, more = c_out - 1 - first;
#ifdef ACCUMULATORS
#ifdef ELEMENT_U8
  const int x_zero = (kInputZero ? int(x_zeros[0]) : 0) - 128;
#else
  const int x_zero = kInputZero ? int(x_zeros[0]) : 0;
#endif
#endif
#ifdef DYNAMIC
  const int x_zero = int(x_zeros[image]);
#endif
  const int outside = (x_zero & 0xff) * kOnes;

  int sum[kPixels][kTile], x_sum[kPixels], oy[kPixels], ox[kPixels];
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
    const int pixel = min(start + int(p * gl_WorkGroupSize.x), y_pixels - 1);
    const int line = pixel / y_size[1];
    ox[p] = (pixel - line * y_size[1]) * stride[1] - pad[1];
    oy[p] = line * stride[0] - pad[0];
    x_sum[p] = 0;
    [[unroll]] for (uint t = 0; t < kTile; ++t) sum[p][t] = 0;
  }
  int w_row[kTile];
  [[unroll]] for (uint t = 0; t < kTile; ++t)
    w_row[t] = (channel + min(int(t), more)) * kernel[0] * kernel[1] * chunks;

  int w_at = 0;
  for (int ky = 0; ky < kernel[0]; ++ky)
    for (int kx = 0; kx < kernel[1]; ++kx) {
      int at[kPixels];
      bool inside[kPixels];
      [[unroll]] for (uint p = 0; p < kPixels; ++p) {
        const int iy = oy[p] + ky * dilation[0], ix = ox[p] + kx * dilation[1];
        inside[p] = iy >= 0 && iy < x_size[0] && ix >= 0 && ix < x_size[1];
        at[p] = x_base + (inside[p] ? (iy * x_size[1] + ix) * x_pixel : 0);
      }
      for (int c = 0; c < chunks; ++c, ++w_at) {
        int x[kPixels];
        [[unroll]] for (uint p = 0; p < kPixels; ++p) {
          if (kWords) {
            x[p] = inside[p] ? xs[at[p] / 4 + c] ^ kFlip : outside;
          } else {
            int word = 0, there = 0;
            [[unroll]] for (int i = 0; i < 4; ++i) {
              const bool real = c * 4 + i < c_in;
              const int v = int(bytes[at[p] + min(c * 4 + i, c_in - 1) * x_channel]) & 0xff;
              word |= v << (8 * i);
              there |= real ? 0xff << (8 * i) : 0;
            }
            x[p] = (inside[p] ? word ^ kFlip : outside) & there;
          }
          if (kFilterZeros) x_sum[p] += dot_int8(x[p], kOnes, 0);
        }
        [[unroll]] for (uint t = 0; t < kTile; ++t) {
          const int w = ws[w_row[t] + w_at];
          [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[p][t] += dot_int8(x[p], w, 0);
        }
      }
    }

  const int y_base = image * c_out * groups * y_pixels + channel * y_channel;
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
    const int pixel = start + int(p * gl_WorkGroupSize.x);
    if (pixel >= y_pixels) continue;
    [[unroll]] for (uint t = 0; t < kTile; ++t) {
      if (int(t) > more) continue;
#ifdef ACCUMULATORS
      const ivec2 r = channels[channel + int(t)];
      const int products = kernel[0] * kernel[1] * c_in;
      ys[y_base + int(t) * y_channel + pixel * y_pixel] =
          sum[p][t] - x_zero * r.x - (kFilterZeros ? (x_sum[p] - products * x_zero) * r.y : 0);
#elif defined(DYNAMIC)
      const ivec4 r = channels[channel + int(t)];
      const float y = float(sum[p][t] - x_zero * r.x) * x_scales[image] * intBitsToFloat(r.y) + intBitsToFloat(r.z);
      ys[y_base + int(t) * y_channel + pixel * y_pixel] = activate(y, act, act_a, act_b);
#else
      const ivec4 r = channels[channel + int(t)];
      const int v = sum[p][t] + r.x - (kFilterZeros ? x_sum[p] * r.w : 0);
      ys[y_base + int(t) * y_channel + pixel * y_pixel] = ELEMENT(requantize(v, r, kRounding, zero, low, high));
#endif
    }
  }
}
