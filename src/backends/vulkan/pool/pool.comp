#version 450
// Maximum, mean or norm of a sliding window, or of the bins of adaptive pooling (kAdaptive), in either layout; an
// output element an invocation. kIndexWords: words of the maximum's index (0: none wanted), kIndexRule what it counts.
//@ pool_{ELEMENT=f32,f16}
//@ PoolQuantized: pool_{ELEMENT=i8,u8,i16} INTEGER
//@ pool_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#ifdef TEXTURE
#include "texture.glsl"
#define ACCUMULATOR vec4
#define LOWEST vec4(uintBitsToFloat(0xff800000u))
#elif defined(INTEGER)
#define ACCUMULATOR int
#define LOWEST -2147483647
#else
#define ACCUMULATOR float
#define LOWEST uintBitsToFloat(0xff800000u)
#endif

const uint kMean = 0, kMaximum = 1, kNorm = 2, kNormOfTwo = 3, kRootMeanSquare = 4;
const uint kTensorRow = 0, kTensorColumn = 1, kPlane = 2, kWindowColumn = 3;

layout(constant_id = 1) const uint kKind = 0;
layout(constant_id = 2) const bool kAdaptive = false;
layout(constant_id = 3) const uint kIndexWords = 0;
layout(constant_id = 4) const uint kIndexRule = 0;
#ifdef TEXTURE
layout(constant_id = 5) const uint kAxes = 0;  // of images: pixel_position() of texture.glsl
const int kLanes = 4;                          // channels of an invocation
#else
const int kLanes = 1;
#endif
const bool kMax = kKind == kMaximum;
//@ block PoolGeometry geometry
#define GEOMETRY                                                                                 \
  uint n;                                                                                        \
  int x_size[3], y_size[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];               \
  int channels, channels_last, count_padding, divisor;
layout(push_constant) uniform Push {
  GEOMETRY
#ifdef INTEGER
  int low, high;
#else
  ACTIVATION
  float power;  // of kNorm
#endif
};
#ifdef TEXTURE
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 1) writeonly uniform WRITE_IMAGE ys;
#else
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
#endif
layout(set = 0, binding = 2) writeonly buffer Indices { uint indices[]; };

// Taps of dimension d that lie below `limit` when the first one is at `first`.
int taps_below(int d, int limit, int first) {
  return limit <= first ? 0 : min(kernel[d], (limit - first + dilation[d] - 1) / dilation[d]);
}

#ifndef INTEGER
float raised(float x, float p) { return p == 1.0 ? x : (p == 3.0 ? x * x * x : pow(x, p)); }
#endif

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const int y_pixels = y_size[0] * y_size[1] * y_size[2], x_pixels = x_size[0] * x_size[1] * x_size[2];
#ifdef TEXTURE
  // Images have no third dimension; an invocation gives four channels.
  const int quads = (channels + 3) / 4, rest = int(i) / y_pixels, pixel = int(i) - rest * y_pixels;
  const int image = rest / quads, quad = rest - image * quads, channel = quad * 4;
#else
  const int rest = int(i) / (channels_last != 0 ? channels : y_pixels);
  const int in_row = int(i) - rest * (channels_last != 0 ? channels : y_pixels);
  const int image = rest / (channels_last != 0 ? y_pixels : channels);
  const int in_image = rest - image * (channels_last != 0 ? y_pixels : channels);
  const int pixel = channels_last != 0 ? in_image : in_row, channel = channels_last != 0 ? in_row : in_image;
#endif
  const int line = pixel / y_size[2];
  int o[3];
  o[2] = pixel - line * y_size[2];
  o[0] = line / y_size[1];
  o[1] = line - o[0] * y_size[1];
#ifdef TEXTURE
  const int rows = pixel_rows(kAxes, x_size[2], x_size[1], quads);
#else
  const int step = channels_last != 0 ? channels : 1;
  const int base = image * channels * x_pixels + channel * (channels_last != 0 ? 1 : x_pixels);
#endif

  int begin[3], count[3], inc[3];
  int inside = 1, counted = 1;
  [[unroll]] for (int d = 0; d < 3; ++d) {
    if (kAdaptive) {
      begin[d] = o[d] * x_size[d] / y_size[d];
      count[d] = min(x_size[d], ((o[d] + 1) * x_size[d] + y_size[d] - 1) / y_size[d]) - begin[d];
      inc[d] = 1;
    } else {
      const int first = o[d] * stride[d] - pad[d];
      const int skip = taps_below(d, 0, first);
      begin[d] = first + skip * dilation[d];
      count[d] = taps_below(d, x_size[d], first) - skip;
      inc[d] = dilation[d];
      counted *= taps_below(d, x_size[d] + max(pad_end[d], 0), first);
    }
    inside *= count[d];
  }
  ACCUMULATOR sum = ACCUMULATOR(0);
  ACCUMULATOR best = LOWEST;
  ivec3 winner[kLanes];
  [[unroll]] for (int k = 0; k < kLanes; ++k) winner[k] = ivec3(0);
  for (int kz = 0; kz < count[0]; ++kz)
    for (int ky = 0; ky < count[1]; ++ky)
      for (int kx = 0; kx < count[2]; ++kx) {
        const int iz = begin[0] + kz * inc[0], iy = begin[1] + ky * inc[1], ix = begin[2] + kx * inc[2];
#ifdef TEXTURE
        const vec4 x = fetch(xs, pixel_position(kAxes, ix, iy, quad, image, x_size[1], quads), rows);
#else
        const ACCUMULATOR x = ACCUMULATOR(xs[base + ((iz * x_size[1] + iy) * x_size[2] + ix) * step]);
#endif
        if (kMax) {
#ifdef TEXTURE
          [[unroll]] for (int k = 0; k < 4; ++k)
            if (x[k] > best[k] || isnan(x[k])) {
              best[k] = x[k];
              if (kIndexWords > 0) winner[k] = ivec3(kz, ky, kx);
            }
#else
#ifdef INTEGER
          const bool better = x > best;
#else
          const bool better = x > best || isnan(x);
#endif
          if (better) best = x;
          if (better && kIndexWords > 0) winner[0] = ivec3(kz, ky, kx);
#endif
        } else if (kKind == kMean) {
          sum += x;
#if !defined(INTEGER) && !defined(TEXTURE)
        } else if (kKind == kNorm) {
          sum += raised(abs(x), power);
#endif
        } else {
          sum += x * x;
        }
      }
#ifdef INTEGER
  const int size = max(inside, 1), mean = sum > 0 ? (sum + size / 2) / size : (sum - size / 2) / size;
  ys[i] = ELEMENT(min(max(kMax ? best : mean, low), max(low, high)));
#else
  int size = kAdaptive || count_padding == 0 ? inside : counted;
  if (kKind == kMean && divisor != 0) size = divisor;
  const float parts = float(size == 0 ? 1 : size);
#ifdef TEXTURE
  const vec4 y = kMax ? best : sum / parts;
  vec4 result;
  [[unroll]] for (int k = 0; k < 4; ++k) result[k] = activate(y[k], act, act_a, act_b);
  put(ys, pixel_position(kAxes, o[2], o[1], quad, image, y_size[1], quads),
      pixel_rows(kAxes, y_size[2], y_size[1], quads), result);
#else
  float y = best;
  switch (kKind) {
    case kMean: y = sum / parts; break;
    case kNorm: y = power == 1.0 ? sum : pow(sum, 1.0 / power); break;
    case kNormOfTwo: y = sqrt(sum); break;
    case kRootMeanSquare: y = sqrt(sum / parts); break;
  }
  ys[i] = ELEMENT(activate(y, act, act_a, act_b));
#endif
#endif
  if (kIndexWords == 0) return;
  for (int k = 0; k < kLanes && channel + k < channels; ++k) {
    const ivec3 tap = winner[k];
    const int plane = image * channels + channel + k;
    int at = inside == 0 ? 0
                         : ((begin[0] + tap.x * inc[0]) * x_size[1] + begin[1] + tap.y * inc[1]) * x_size[2] +
                               begin[2] + tap.z * inc[2];
    if (kIndexRule == kTensorColumn) {
      const int column = at % x_size[2], row = at / x_size[2] % x_size[1], layer = at / x_size[2] / x_size[1];
      at = plane * x_pixels + (column * x_size[1] + row) * x_size[0] + layer;
    } else if (kIndexRule == kWindowColumn) {
      int inside_window[3];
      [[unroll]] for (int d = 0; d < 3; ++d)
        inside_window[d] = (begin[d] - (o[d] * stride[d] - pad[d])) / dilation[d] + tap[d];
      at = inside == 0 ? 0 : inside_window[0] + kernel[0] * (inside_window[1] + kernel[1] * inside_window[2]);
    } else if (kIndexRule == kTensorRow) {
      at = channels_last != 0 ? (image * x_pixels + at) * channels + channel + k : plane * x_pixels + at;
    }
    const int to = channels_last != 0 ? (image * y_pixels + pixel) * channels + channel + k : plane * y_pixels + pixel;
    indices[to * kIndexWords] = uint(at);
    if (kIndexWords == 2) indices[to * 2 + 1] = 0;
  }
}
