#version 450
// Convolution of images whose texels are four channels of a pixel, by filters that weights_pack.comp made; also
// products of rows and matrices. FP16_MULTIPLY: products in float16, sums in float32. An invocation gives kQuads fours
// of channels of kPixels neighbours of a row.
//@ conv[_fp16_multiply=FP16_MULTIPLY]_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#include "texture.glsl"

#ifdef FP16_MULTIPLY
#define FACTORS f16vec4
#else
#define FACTORS vec4
#endif

layout(constant_id = 1) const uint kPixels = 4;
layout(constant_id = 2) const uint kAxes = 0;  // pixel_position() of texture.glsl
layout(constant_id = 3) const bool kBias = false;
layout(constant_id = 4) const bool kHalf = false;       // float16 filters
layout(constant_id = 5) const bool kDepthwise = false;  // one filter a channel; then kQuads is 1
layout(constant_id = 6) const uint kQuads = 1;
layout(constant_id = 7) const uint kGroups = 0;  // 0 one; 1 of whole fours of channels, 2 of others: then kQuads is 1
layout(constant_id = 8) const bool kTransposed = false;
layout(push_constant) uniform Push {
  ivec4 x_size, y_size;  // width, height, channels, batch as images
  ivec2 kernel, stride, dilation, pad;
  ACTIVATION
  int group_in, group_out;  // channels of a group
  int span;                 // fours of them that a four of outputs reads
};
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) readonly buffer W { vec4 ws[]; };
layout(set = 0, binding = 1) readonly buffer H { uvec2 hs[]; };
layout(set = 0, binding = 2) readonly buffer B { float bias[]; };
layout(set = 0, binding = 3) writeonly uniform WRITE_IMAGE ys;

// The input coordinate that a tap meets, or -1.
int met(int to, int offset, int stride, int size) {
  if (kTransposed) {
    const int at = to - offset, i = at / stride;
    return at >= 0 && i * stride == at && i < size ? i : -1;
  }
  const int i = to * stride + offset;
  return i < size ? i : -1;
}

FACTORS weight(int i) {
  if (kHalf) {
    const uvec2 h = hs[i];
    return FACTORS(vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y)));
  }
  return FACTORS(ws[i]);
}

void main() {
  const int strips = (y_size.x + int(kPixels) - 1) / int(kPixels), x_quads = (x_size.z + 3) / 4,
            y_quads = (y_size.z + 3) / 4;
  const int groups = (y_quads + int(kQuads) - 1) / int(kQuads), taps = kernel.x * kernel.y;
  if (flat_id() >= strips * y_size.y * groups * y_size.w) return;
  int rest = int(flat_id());
  const int x0 = rest % strips * int(kPixels);
  rest /= strips;
  const int y0 = rest % y_size.y;
  rest /= y_size.y;
  const int quad = rest % groups * int(kQuads), image = rest / groups;
  const int x_rows = pixel_rows(kAxes, x_size.x, x_size.y, x_quads);
  const int first = kDepthwise ? quad : kGroups != 0 ? quad * 4 / group_out * group_in / 4 : 0;
  const int last = min(first + span, x_quads) - 1;
  // kGroups == 2: of the outputs.
  const ivec4 own_groups = (quad * 4 + ivec4(0, 1, 2, 3)) / group_out;

  vec4 sum[kQuads][kPixels];
  int filters[kQuads];  // where those of a four of channels begin
  [[unroll]] for (uint j = 0; j < kQuads; ++j) {
    filters[j] = min(quad + int(j), y_quads - 1) * taps * span;
    [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[j][p] = vec4(0.0);
  }
  int tap = 0;
  for (int ky = 0; ky < kernel.y; ++ky)
    for (int kx = 0; kx < kernel.x; ++kx, ++tap) {
      const int iy = met(y0, ky * dilation.y - pad.y, stride.y, x_size.y);
      if (iy < 0) continue;
      for (int q = first; q <= last; ++q) {
        // Beyond the last channel a texel holds anything.
        const bvec4 real = lessThan(ivec4(0, 1, 2, 3) + 4 * q, ivec4(x_size.z));
        FACTORS x[kPixels];
        [[unroll]] for (uint p = 0; p < kPixels; ++p) {
          const int ix = met(x0 + int(p), kx * dilation.x - pad.x, stride.x, x_size.x);
          x[p] = FACTORS(0.0);
          if (ix >= 0)
            x[p] = FACTORS(
                mix(vec4(0.0), fetch(xs, pixel_position(kAxes, ix, iy, q, image, x_size.y, x_quads), x_rows), real));
        }
        if (kDepthwise) {
          const FACTORS w = weight(tap * x_quads + q);
          [[unroll]] for (uint p = 0; p < kPixels; ++p) sum[0][p] += vec4(w * x[p]);
        } else {
          [[unroll]] for (uint j = 0; j < kQuads; ++j) {
            const int at = (filters[j] + tap * span + q - first) * 4;
            const FACTORS w0 = weight(at), w1 = weight(at + 1), w2 = weight(at + 2), w3 = weight(at + 3);
            [[unroll]] for (uint p = 0; p < kPixels; ++p) {
              if (kGroups == 2) {
                // A group's outputs see nothing of other groups, not even what is not finite.
                const ivec4 groups_of = (4 * q + ivec4(0, 1, 2, 3)) / group_in;
                sum[j][p] += mix(vec4(0.0), vec4(w0 * x[p].x), equal(own_groups, groups_of.xxxx));
                sum[j][p] += mix(vec4(0.0), vec4(w1 * x[p].y), equal(own_groups, groups_of.yyyy));
                sum[j][p] += mix(vec4(0.0), vec4(w2 * x[p].z), equal(own_groups, groups_of.zzzz));
                sum[j][p] += mix(vec4(0.0), vec4(w3 * x[p].w), equal(own_groups, groups_of.wwww));
              } else {
                sum[j][p] += vec4(w0 * x[p].x) + vec4(w1 * x[p].y) + vec4(w2 * x[p].z) + vec4(w3 * x[p].w);
              }
            }
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
