#version 450
// Samples images [n, c, h, w] at the coordinates of a grid [n, h', w', 2], volumes [n, c, d, h, w] at those of one
// [n, d', h', w', 3]. Specialization constants: 1 the mode (0 linear, 1 nearest, 2 cubic), 2 the padding (0 zeros, 1
// border, 2 reflection), 3 whether -1 and 1 are the centres of the corner pixels, 4 whether these are volumes.
//@ grid_sample_{ELEMENT=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "real_functions.glsl"

layout(constant_id = 1) const uint kMode = 0;
layout(constant_id = 2) const uint kPadding = 0;
layout(constant_id = 3) const bool kAlignCorners = false;
layout(constant_id = 4) const bool kVolumes = false;
layout(push_constant) uniform Push {
  uint n;
  uint channels, depth, height, width, positions;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer G { ELEMENT grid[]; };
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };

float pixel(float g, float size) {
  float x = kAlignCorners ? (g + 1.0) / 2.0 * (size - 1.0) : ((g + 1.0) * size - 1.0) / 2.0;
  if (is_nan(x)) x = -1.0;
  return clamp(x, -1e9, 1e9);
}
float reflected(float x, float low, float high) {
  const float range = high - low;
  if (!(range > 0.0)) return low;
  const float d = fmod_of(abs(x - low), 2.0 * range);
  return low + (d > range ? 2.0 * range - d : d);
}
float padded(float x, float size) {
  if (kPadding == 0) return x;
  if (kPadding == 2) x = kAlignCorners ? reflected(x, 0.0, size - 1.0) : reflected(x, -0.5, size - 0.5);
  return clamp(x, 0.0, size - 1.0);
}
float cubic_weight(float x) {
  const float a = -0.75;
  x = abs(x);
  if (x <= 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

// Up to four taps of one dimension: places (-1: reads zero) and weights.
struct Taps {
  int place[4];
  float weight[4];
};
int place_of(float at, float size) { return at >= 0.0 && at <= size - 1.0 ? int(at) : -1; }
Taps taps_of(float g, float size) {
  Taps t;
  for (int k = 0; k < 4; ++k) {
    t.place[k] = -1;
    t.weight[k] = 0.0;
  }
  float x = pixel(g, size);
  if (kMode == 2) {
    const float base = floor(x);
    for (int k = 0; k < 4; ++k) {
      t.place[k] = place_of(padded(base + float(k - 1), size), size);
      t.weight[k] = cubic_weight(x - base - float(k - 1));
    }
    return t;
  }
  x = padded(x, size);
  const float base = kMode == 1 ? roundEven(x) : floor(x);
  t.place[0] = place_of(base, size);
  t.weight[0] = kMode == 1 ? 1.0 : 1.0 - (x - base);
  if (kMode == 0) {
    t.place[1] = place_of(base + 1.0, size);
    t.weight[1] = x - base;
  }
  return t;
}

// Of the image that begins at row `first`, weighted.
float sample_image(uint first, Taps down, Taps across, float factor) {
  const int count = kMode == 0 ? 2 : (kMode == 1 ? 1 : 4);
  float sum = 0.0;
  for (int v = 0; v < count; ++v)
    for (int h = 0; h < count; ++h) {
      const float weight = factor * down.weight[v] * across.weight[h];
      if (down.place[v] >= 0 && across.place[h] >= 0 && weight != 0.0)
        sum += weight * float(xs[(first + uint(down.place[v])) * width + uint(across.place[h])]);
    }
  return sum;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint position = i % positions, plane = i / positions;
  const uint at = (plane / channels * positions + position) * (kVolumes ? 3 : 2);
  const Taps across = taps_of(float(grid[at]), float(width)), down = taps_of(float(grid[at + 1]), float(height));
  float sum = 0.0;
  if (kVolumes) {
    const Taps inward = taps_of(float(grid[at + 2]), float(depth));
    for (int k = 0; k < (kMode == 0 ? 2 : (kMode == 1 ? 1 : 4)); ++k)
      if (inward.place[k] >= 0)
        sum += sample_image((plane * depth + uint(inward.place[k])) * height, down, across, inward.weight[k]);
  } else {
    sum = sample_image(plane * height, down, across, 1.0);
  }
  ys[i] = ELEMENT(sum);
}
