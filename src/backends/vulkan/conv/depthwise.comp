#version 450
// Depthwise convolution of channels-last images whose channels come in fours: four channels a lane, kPixels
// neighbouring outputs of a row an invocation. Filters are packed as [tap][channel]. INTEGER: 8-bit images, whose sums
// of up to 256 products are exact as floats, requantized: FIXED by multipliers and shifts, else by factors.
//@ depthwise_f32
//@ DepthwiseQuantized: depthwise_{ELEMENT=i8:i8vec4,u8:u8vec4}[_fixed=FIXED] INTEGER
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "requantize.glsl"

layout(constant_id = 1) const uint kPixels = 4;
layout(constant_id = 2) const uint kKernel = 3;  // width
layout(constant_id = 3) const uint kStride = 1;  // along a row
#ifdef FIXED
layout(constant_id = 4) const uint kRounding = 1;
#else
const uint kRounding = 0;
#endif
// quads: fours of channels; n: quads x chunks of a row x rows x images.
//@ block DepthwiseGeometry geometry
#define GEOMETRY int x_size[2], y_size[2], kernel_y, stride_y, pad[2], quads, n;
layout(push_constant) uniform Push {
  GEOMETRY
#ifdef INTEGER
  REQUANTIZATION
#else
  float low, high;
#endif
};
#ifdef INTEGER
#define CHANNEL_PARAMETER ivec4
#define LESS_ZERO - float(x_zero)
#else
#define ELEMENT vec4
#define CHANNEL_PARAMETER vec4
#define LESS_ZERO
#endif
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer W { vec4 ws[]; };
layout(set = 0, binding = 2) readonly buffer B { CHANNEL_PARAMETER bias[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };

const uint kSpan = (kPixels - 1) * kStride + kKernel;

void main() {
  const bool real = int(flat_id()) < n;
  int rest = min(int(flat_id()), n - 1);
  const int quad = rest % quads;
  rest /= quads;
  const int strips = (y_size[1] + int(kPixels) - 1) / int(kPixels);
  const int x0 = rest % strips * int(kPixels);
  rest /= strips;
  const int y0 = rest % y_size[0], image = rest / y_size[0];
  vec4 sum[kPixels];
  [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[p] = vec4(0.0);
  for (int ky = 0; ky < kernel_y; ++ky) {
    const int iy = y0 * stride_y - pad[0] + ky;
    const bool row = iy >= 0 && iy < x_size[0];
    const int line = ((image * x_size[0] + (row ? iy : 0)) * x_size[1]) * quads + quad;
    vec4 x[kSpan];
    [[unroll]] for (uint i = 0; i < kSpan; ++i) {
      const int ix = x0 * int(kStride) - pad[1] + int(i);
      const bool inside = row && ix >= 0 && ix < x_size[1];
      x[i] = inside ? vec4(xs[line + ix * quads]) LESS_ZERO : vec4(0.0);
    }
    [[unroll]] for (uint kx = 0; kx < kKernel; ++kx) {
      const vec4 w = ws[(ky * int(kKernel) + int(kx)) * quads + quad];
      [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[p] += w * x[p * kStride + kx];
    }
  }
#ifdef INTEGER
  ivec4 r[4];
  [[unroll]] for (int i = 0; i < 4; ++i) r[i] = bias[quad * 4 + i];
#else
  const vec4 b = bias[quad];
#endif
  const int to = ((image * y_size[0] + y0) * y_size[1] + x0) * quads + quad;
  [[unroll]] for (uint p = 0; p < kPixels; ++p) {
#ifdef INTEGER
    ivec4 y = ivec4(sum[p]);
    [[unroll]] for (uint i = 0; i < 4; ++i) y[i] = requantize(y[i] + r[i].x, r[i], kRounding, zero, low, high);
#else
    vec4 y = sum[p] + b;
    [[unroll]] for (uint i = 0; i < 4; ++i) y[i] = bounded(y[i], low, high);
#endif
    if (real && x0 + int(p) < y_size[1]) ys[to + int(p) * quads] = ELEMENT(y);
  }
}
