#version 450
// Convolution of images [batch, channels, height, width] at positions moved by offsets [batch, offset group, tap, (y,
// x), pixels], times a mask [batch, offset group, tap, pixels]. An invocation gives kTile output channels of a pixel.
//@ deform_conv
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kTile = 8;
layout(constant_id = 2) const bool kBias = false;
layout(constant_id = 3) const bool kMask = false;
layout(push_constant) uniform Push {
  int x_size[2], y_size[2], kernel[2], stride[2], dilation[2], pad[2];
  int c_in, c_out, groups;             // channels of one group
  int offset_groups, offset_channels;  // channels of an offset group
  uint batch;
};
layout(set = 0, binding = 0) readonly buffer X { float xs[]; };
layout(set = 0, binding = 1) readonly buffer W { float ws[]; };
layout(set = 0, binding = 2) readonly buffer Offsets { float offsets[]; };
layout(set = 0, binding = 3) readonly buffer B { float bias[]; };
layout(set = 0, binding = 4) readonly buffer Mask { float mask[]; };
layout(set = 0, binding = 5) writeonly buffer Y { float ys[]; };

float at(int plane, int y, int x) {
  return y < 0 || y >= x_size[0] || x < 0 || x >= x_size[1] ? 0.0 : xs[plane + y * x_size[1] + x];
}

// Zero outside of the image.
float bilinear(int plane, float y, float x) {
  if (!(y > -1.0 && x > -1.0 && y < float(x_size[0]) && x < float(x_size[1]))) return 0.0;
  const float fy = floor(y), fx = floor(x), dy = y - fy, dx = x - fx;
  const int y0 = int(fy), x0 = int(fx);
  return (1.0 - dy) * ((1.0 - dx) * at(plane, y0, x0) + dx * at(plane, y0, x0 + 1)) +
         dy * ((1.0 - dx) * at(plane, y0 + 1, x0) + dx * at(plane, y0 + 1, x0 + 1));
}

void main() {
  const int pixels = y_size[0] * y_size[1], taps = kernel[0] * kernel[1];
  const int tiles = (c_out + int(kTile) - 1) / int(kTile);
  uint rest = flat_id();
  if (rest >= uint(pixels * tiles * groups) * batch) return;
  const int pixel = int(rest % uint(pixels));
  rest /= uint(pixels);
  const int first = int(rest % uint(tiles)) * int(kTile), more = c_out - 1 - first;
  rest /= uint(tiles);
  const int group = int(rest % uint(groups)), image = int(rest / uint(groups));
  const int line = pixel / y_size[1];
  const int y0 = line * stride[0] - pad[0], x0 = (pixel - line * y_size[1]) * stride[1] - pad[1];
  float sum[kTile];
  [[unroll]] for (uint t = 0; t < kTile; ++t) sum[t] = 0.0;
  for (int i = 0; i < c_in; ++i) {
    const int channel = group * c_in + i;
    const int plane = (image * c_in * groups + channel) * x_size[0] * x_size[1];
    const int part = (image * offset_groups + channel / offset_channels) * taps;
    for (int tap = 0; tap < taps; ++tap) {
      const int o = (part + tap) * pixels + pixel, o_y = o + (part + tap) * pixels;
      const int ky = tap / kernel[1];
      float v = bilinear(plane, float(y0 + ky * dilation[0]) + offsets[o_y],
                         float(x0 + (tap - ky * kernel[1]) * dilation[1]) + offsets[o_y + pixels]);
      if (kMask) v *= mask[o];
      const int w = ((group * c_out + first) * c_in + i) * taps + tap;
      [[unroll]] for (uint t = 0; t < kTile; ++t) sum[t] += v * ws[w + min(int(t), more) * c_in * taps];
    }
  }
  [[unroll]] for (uint t = 0; t < kTile; ++t) {
    if (int(t) > more) continue;
    const int channel = group * c_out + first + int(t);
    ys[(image * c_out * groups + channel) * pixels + pixel] = sum[t] + (kBias ? bias[channel] : 0.0);
  }
}
