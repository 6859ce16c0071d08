#version 450
// Convolution of images whose texels are four channels of a pixel, by filters that weights_pack.comp made; also products
// of rows and matrices. An invocation gives kQuads fours of channels of kPixels neighbours of a row.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kPixels = 4;
layout(constant_id = 2) const uint kAxes = 0;  // pixel_position() of texture.glsl
layout(constant_id = 3) const bool kBias = false;
layout(constant_id = 4) const bool kHalf = false;       // float16 filters
layout(constant_id = 5) const bool kDepthwise = false;  // one filter a channel; then kQuads is 1
layout(constant_id = 6) const uint kQuads = 1;
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;  // width, height, channels, batch as images
  ivec2 kernel, stride, dilation, pad;
  uint act;
  float act_a, act_b;
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) readonly buffer W { vec4 ws[]; };
layout(set = 0, binding = 1) readonly buffer H { uvec2 hs[]; };
layout(set = 0, binding = 2) readonly buffer B { float bias[]; };
layout(set = 0, binding = 3) writeonly uniform WRITE_IMAGE ys;

vec4 weight(int i) {
  if (kHalf) {
    const uvec2 h = hs[i];
    return vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
  }
  return ws[i];
}

void main() {
  const int pieces = (y_size.x + int(kPixels) - 1) / int(kPixels), x_quads = (x_size.z + 3) / 4,
            y_quads = (y_size.z + 3) / 4;
  const int groups = (y_quads + int(kQuads) - 1) / int(kQuads), taps = kernel.x * kernel.y;
  if (flat_id() >= pieces * y_size.y * groups * y_size.w) return;
  int rest = int(flat_id());
  const int x0 = rest % pieces * int(kPixels);
  rest /= pieces;
  const int y0 = rest % y_size.y;
  rest /= y_size.y;
  const int quad = rest % groups * int(kQuads), image = rest / groups;
  const int x_rows = pixel_rows(kAxes, x_size.x, x_size.y, x_quads);
  const int first = kDepthwise ? quad : 0, last = kDepthwise ? quad : x_quads - 1;

  vec4 sum[kQuads][kPixels];
  int filters[kQuads];  // where those of a four of channels begin
  [[unroll]] for (uint j = 0; j < kQuads; ++j) {
    filters[j] = min(quad + int(j), y_quads - 1) * taps * x_quads;
    [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[j][p] = vec4(0.0);
  }
  int tap = 0;
  for (int ky = 0; ky < kernel.y; ++ky)
    for (int kx = 0; kx < kernel.x; ++kx, ++tap) {
      const int iy = y0 * stride.y - pad.y + ky * dilation.y;
      if (iy < 0 || iy >= x_size.y) continue;
      for (int q = first; q <= last; ++q) {
        // Beyond the last channel a texel holds anything.
        const bvec4 real = lessThan(ivec4(0, 1, 2, 3) + 4 * q, ivec4(x_size.z));
        vec4 x[kPixels];
        [[unroll]] for (uint p = 0; p < kPixels; ++p) {
          const int ix = (x0 + int(p)) * stride.x - pad.x + kx * dilation.x;
          x[p] = vec4(0.0);
          if (ix >= 0 && ix < x_size.x)
            x[p] = mix(vec4(0.0), fetch(xs, pixel_position(kAxes, ix, iy, q, image, x_size.y, x_quads), x_rows), real);
        }
        if (kDepthwise) {
          const vec4 w = weight(tap * x_quads + q);
          [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[0][p] += w * x[p];
        } else {
          [[unroll]] for (uint j = 0; j < kQuads; ++j) {
            const int at = (filters[j] + tap * x_quads + q) * 4;
            const vec4 w0 = weight(at), w1 = weight(at + 1), w2 = weight(at + 2), w3 = weight(at + 3);
            [[unroll]] for (uint p = 0; p < kPixels; ++p)
              sum[j][p] += w0 * x[p].x + w1 * x[p].y + w2 * x[p].z + w3 * x[p].w;
          }
        }
      }
    }

  const int y_rows = pixel_rows(kAxes, y_size.x, y_size.y, y_quads);
  [[unroll]] for (uint j = 0; j < kQuads; ++j) {
    const int to = quad + int(j);
    if (to >= y_quads) continue;
    vec4 b = vec4(0.0);
    if (kBias)
      [[unroll]] for (int k = 0; k < 4; ++k) b[k] = to * 4 + k < y_size.z ? bias[to * 4 + k] : 0.0;
    [[unroll]] for (uint p = 0; p < kPixels; ++p) {
      if (x0 + int(p) >= y_size.x) continue;
      vec4 y = sum[j][p] + b;
      [[unroll]] for (int k = 0; k < 4; ++k) y[k] = activate(y[k], act, act_a, act_b);
      put(ys, pixel_position(kAxes, x0 + int(p), y0, to, image, y_size.y, y_quads), y_rows, y);
    }
  }
}
