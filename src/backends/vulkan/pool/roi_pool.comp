#version 450
// Regions of images [batch, channels, height, width] pooled into [regions, channels, height, width]; an element of the
// result an invocation. kKind: 0 mean and 1 largest of bilinear samples, 2 largest of whole pixels, 3 a bilinear and 4
// a nearest pixel of an even grid.
//@ roi_pool_{ELEMENT=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

const uint kMean = 0, kMaximum = 1, kPixels = 2, kCrop = 3, kNearest = 4;

layout(constant_id = 1) const uint kKind = 0;
// Words of the number of a region's image; 0: the first one, or the region's first number.
layout(constant_id = 2) const uint kBatchWords = 0;
layout(constant_id = 3) const bool kHalfPixel = false;
layout(push_constant) uniform Push {
  uint n, channels;
  int batch, height, width, y_height, y_width;
  int ratio;  // samples along a side of a bin; 0: as many as it has pixels
  float scale, extrapolation;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) readonly buffer Rois { ELEMENT rois[]; };
layout(set = 0, binding = 2) readonly buffer Batches { int batches[]; };
layout(set = 0, binding = 3) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 4) buffer Faults { uint faults[]; };

#define kInfinity uintBitsToFloat(0x7f800000u)
bool is_nan(float v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }
uint plane;
float at(int y, int x) { return float(xs[plane + uint(y * width + x)]); }

// The four neighbours of a point that is not left of or above the image, by their bilinear weights.
vec4 weighted(float y, float x) {
  int y0 = int(min(y, float(height))), x0 = int(min(x, float(width))), y1 = y0 + 1, x1 = x0 + 1;
  if (y0 >= height - 1) {
    y0 = y1 = height - 1;
    y = float(y0);
  }
  if (x0 >= width - 1) {
    x0 = x1 = width - 1;
    x = float(x0);
  }
  const float ly = y - float(y0), lx = x - float(x0), hy = 1.0 - ly, hx = 1.0 - lx;
  return vec4(hy * hx * at(y0, x0), hy * lx * at(y0, x1), ly * hx * at(y1, x0), ly * lx * at(y1, x1));
}

// Samples along a side of a bin.
int samples(float bin, int size) {
  if (ratio > 0) return ratio;
  return bin > 0.0 ? int(min(ceil(bin), float(16 * size + 16))) : 0;
}

// The samples from first + (k + 0.5) * bin / count of a side that lie on the image or within a pixel of it; further
// ones are zero.
ivec2 seen(float first, float bin, int count, int size) {
  if (count == 0 || is_nan(first) || is_nan(bin)) return ivec2(0);
  const float step = bin / float(count);
  if (!(abs(step) > 1e-20)) return ivec2(0, count);
  const float a = (-1.0 - first) / step - 0.5, b = (float(size) - first) / step - 0.5;
  const float most = float(count);
  return ivec2(int(clamp(floor(min(a, b)) - 1.0, 0.0, most)), int(clamp(ceil(max(a, b)) + 2.0, 0.0, most)));
}

float aligned(uint roi, int i, int j) {
  const float offset = kHalfPixel ? 0.5 : 0.0;
  const float x0 = float(rois[roi]) * scale - offset, y0 = float(rois[roi + 1]) * scale - offset;
  float w = float(rois[roi + 2]) * scale - offset - x0, h = float(rois[roi + 3]) * scale - offset - y0;
  if (!kHalfPixel) {
    w = w > 1.0 ? w : 1.0;
    h = h > 1.0 ? h : 1.0;
  }
  const float bin_h = h / float(y_height), bin_w = w / float(y_width);
  const int ny = samples(bin_h, height), nx = samples(bin_w, width);
  if (ny == 0 || nx == 0) return 0.0;
  const float top = y0 + float(i) * bin_h, left = x0 + float(j) * bin_w;
  const ivec2 rows = seen(top, bin_h, ny, height), columns = seen(left, bin_w, nx, width);
  const bool all = rows == ivec2(0, ny) && columns == ivec2(0, nx);
  float sum = 0.0, best = all ? -kInfinity : 0.0;
  for (int iy = rows.x; iy < rows.y; ++iy)
    for (int ix = columns.x; ix < columns.y; ++ix) {
      const float y = top + (float(iy) + 0.5) * bin_h / float(ny), x = left + (float(ix) + 0.5) * bin_w / float(nx);
      vec4 v = vec4(0.0);
      if (y >= -1.0 && y <= float(height) && x >= -1.0 && x <= float(width)) v = weighted(max(y, 0.0), max(x, 0.0));
      sum += v.x + v.y + v.z + v.w;
      [[unroll]] for (int k = 0; k < 4; ++k) best = v[k] > best ? v[k] : best;
    }
  return kKind == kMaximum ? best : sum / (float(ny) * float(nx));
}

int pixel(float v) {
  v *= scale;
  const float whole = v < 0.0 ? ceil(v - 0.5) : floor(v + 0.5);
  return is_nan(v) ? 0 : int(clamp(whole, -1e9, 1e9));
}
int edge(float v, int from, int size) { return int(clamp(floor(v) + float(from), 0.0, float(size))); }

float largest(uint roi, int i, int j) {
  const int x0 = pixel(float(rois[roi])), y0 = pixel(float(rois[roi + 1]));
  const int x1 = pixel(float(rois[roi + 2])), y1 = pixel(float(rois[roi + 3]));
  const float bin_h = float(max(y1 - y0 + 1, 1)) / float(y_height), bin_w = float(max(x1 - x0 + 1, 1)) / float(y_width);
  const int top = edge(floor(float(i) * bin_h), y0, height), bottom = edge(ceil(float(i + 1) * bin_h), y0, height);
  const int left = edge(floor(float(j) * bin_w), x0, width), right = edge(ceil(float(j + 1) * bin_w), x0, width);
  float best = bottom > top && right > left ? -kInfinity : 0.0;
  for (int y = top; y < bottom; ++y)
    for (int x = left; x < right; ++x) best = at(y, x) > best ? at(y, x) : best;
  return best;
}

float source(int i, int n, float low, float high, int size) {
  const float last = float(size - 1);
  return n > 1 ? low * last + float(i) * ((high * last - low * last) / float(n - 1)) : 0.5 * (low + high) * last;
}
float cropped(uint roi, int i, int j) {
  const float y = source(i, y_height, float(rois[roi]), float(rois[roi + 2]), height);
  const float x = source(j, y_width, float(rois[roi + 1]), float(rois[roi + 3]), width);
  if (!(y >= 0.0 && y <= float(height - 1) && x >= 0.0 && x <= float(width - 1))) return extrapolation;
  if (kKind == kNearest) return at(int(floor(y + 0.5)), int(floor(x + 0.5)));
  const vec4 v = weighted(y, x);
  return v.x + v.y + v.z + v.w;
}

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint cells = uint(y_height * y_width), cell = i % cells, channel = i / cells % channels;
  const uint region = i / (cells * channels);
  uint roi = region * (kKind == kPixels ? 5 : 4);
  int image = 0;
  bool far = false;
  if (kKind == kPixels) {
    const float v = float(rois[roi++]);
    image = is_nan(v) ? -1 : int(clamp(v, -1.0, 1e9));
  } else if (kBatchWords > 0) {
    image = batches[region * kBatchWords];
    far = kBatchWords == 2 && batches[region * 2 + 1] != 0;
  }
  if (far || image < 0 || image >= batch) {
    faults[0] = fault_code;
    return;
  }
  plane = (uint(image) * channels + channel) * uint(height * width);
  const int row = int(cell) / y_width, column = int(cell) - row * y_width;
  ys[i] = ELEMENT(kKind == kPixels ? largest(roi, row, column)
                 : kKind >= kCrop ? cropped(roi, row, column)
                                  : aligned(roi, row, column));
}
