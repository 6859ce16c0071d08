#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/common/operands.h"
#include "ops/pool/pool.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// One plane of an image with bilinear reads.
struct Plane {
  const float* data;
  int64_t height, width;

  float at(int64_t y, int64_t x) const { return data[y * width + x]; }
  /// The four neighbours of a point inside the plane, each times its bilinear weight; far neighbours are clamped.
  std::array<float, 4> weighted(float y, float x) const {
    int64_t y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x), y1 = y0 + 1, x1 = x0 + 1;
    if (y0 >= height - 1) {
      y0 = y1 = height - 1;
      y = static_cast<float>(y0);
    }
    if (x0 >= width - 1) {
      x0 = x1 = width - 1;
      x = static_cast<float>(x0);
    }
    const float ly = y - static_cast<float>(y0), lx = x - static_cast<float>(x0), hy = 1 - ly, hx = 1 - lx;
    return {hy * hx * at(y0, x0), hy * lx * at(y0, x1), ly * hx * at(y1, x0), ly * lx * at(y1, x1)};
  }
  float bilinear(float y, float x) const {
    const auto w = weighted(y, x);
    return w[0] + w[1] + w[2] + w[3];
  }
};

/// Weighted neighbours of a sample of RoiAlign: zero outside a margin of one pixel.
std::array<float, 4> align_sample(const Plane& p, float y, float x) {
  if (!(y >= -1.0f && y <= static_cast<float>(p.height) && x >= -1.0f && x <= static_cast<float>(p.width))) return {};
  return p.weighted(std::max(y, 0.0f), std::max(x, 0.0f));
}

void roi_align(const RoiAttrs& a, const Plane& p, const float* roi, float* out) {
  const float offset = a.half_pixel ? 0.5f : 0.0f, scale = static_cast<float>(a.scale);
  const float x0 = roi[0] * scale - offset, y0 = roi[1] * scale - offset;
  float width = roi[2] * scale - offset - x0, height = roi[3] * scale - offset - y0;
  if (!a.half_pixel) {
    width = std::max(width, 1.0f);
    height = std::max(height, 1.0f);
  }
  const float bin_h = height / static_cast<float>(a.height), bin_w = width / static_cast<float>(a.width);
  const int64_t ny = roi_samples(a.sampling_ratio, bin_h, p.height), nx = roi_samples(a.sampling_ratio, bin_w, p.width);
  for (int64_t i = 0; i < a.height; ++i)
    for (int64_t j = 0; j < a.width; ++j) {
      float sum = 0, best = -std::numeric_limits<float>::infinity();
      for (int64_t iy = 0; iy < ny; ++iy)
        for (int64_t ix = 0; ix < nx; ++ix) {
          const float y =
              y0 + static_cast<float>(i) * bin_h + (static_cast<float>(iy) + 0.5f) * bin_h / static_cast<float>(ny);
          const float x =
              x0 + static_cast<float>(j) * bin_w + (static_cast<float>(ix) + 0.5f) * bin_w / static_cast<float>(nx);
          const auto w = align_sample(p, y, x);
          sum += w[0] + w[1] + w[2] + w[3];
          for (float v : w) best = std::max(best, v);  // the standard's maximum is of weighted neighbours
        }
      out[i * a.width + j] = ny * nx == 0 ? 0 : a.max ? best : sum / static_cast<float>(ny * nx);
    }
}

/// MaxRoiPool: bins of whole pixels.
void roi_pool(const RoiAttrs& a, const Plane& p, const float* roi, float* out) {
  const float scale = static_cast<float>(a.scale);
  const auto pixel = [&](float v) {
    const float p = std::round(v * scale);
    return std::isnan(p) ? int64_t{0} : static_cast<int64_t>(std::clamp(p, -1e9f, 1e9f));
  };
  const int64_t x0 = pixel(roi[0]), y0 = pixel(roi[1]), x1 = pixel(roi[2]), y1 = pixel(roi[3]);
  const float bin_h = static_cast<float>(std::max<int64_t>(y1 - y0 + 1, 1)) / static_cast<float>(a.height);
  const float bin_w = static_cast<float>(std::max<int64_t>(x1 - x0 + 1, 1)) / static_cast<float>(a.width);
  const auto edge = [](float v, int64_t from, int64_t size) {
    return std::clamp<int64_t>(static_cast<int64_t>(v) + from, 0, size);
  };
  for (int64_t i = 0; i < a.height; ++i)
    for (int64_t j = 0; j < a.width; ++j) {
      const int64_t top = edge(std::floor(static_cast<float>(i) * bin_h), y0, p.height);
      const int64_t bottom = edge(std::ceil(static_cast<float>(i + 1) * bin_h), y0, p.height);
      const int64_t left = edge(std::floor(static_cast<float>(j) * bin_w), x0, p.width);
      const int64_t right = edge(std::ceil(static_cast<float>(j + 1) * bin_w), x0, p.width);
      float best = bottom > top && right > left ? -std::numeric_limits<float>::infinity() : 0.0f;
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t x = left; x < right; ++x) best = std::max(best, p.at(y, x));
      out[i * a.width + j] = best;
    }
}

void crop_and_resize(const RoiAttrs& a, int64_t height, int64_t width, const Plane& p, const float* roi, float* out) {
  const auto source = [](int64_t i, int64_t n, float lo, float hi, int64_t size) {
    const float last = static_cast<float>(size - 1);
    return n > 1 ? lo * last + static_cast<float>(i) * ((hi * last - lo * last) / static_cast<float>(n - 1))
                 : 0.5f * (lo + hi) * last;
  };
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j) {
      const float y = source(i, height, roi[0], roi[2], p.height), x = source(j, width, roi[1], roi[3], p.width);
      float v = static_cast<float>(a.extrapolation);
      if (y >= 0 && y <= static_cast<float>(p.height - 1) && x >= 0 && x <= static_cast<float>(p.width - 1))
        v = a.nearest ? p.at(static_cast<int64_t>(std::round(y)), static_cast<int64_t>(std::round(x)))
                      : p.bilinear(y, x);
      out[i * width + j] = v;
    }
}

Status check_rois(const RoiAttrs& a, const Shape& x, const Shape& rois) {
  if (x.rank() != 4) return InvalidModel("regions are taken from images of rank 4, got ", x.rank());
  const int64_t columns = a.legacy ? 5 : 4;
  if (rois.rank() != 2 || (rois[1] >= 0 && rois[1] != columns))
    return InvalidModel("regions have shape ", rois.str(), ", [n, ", columns, "] expected");
  return Ok();
}

}  // namespace

int64_t roi_samples(int64_t ratio, float bin, int64_t size) {
  if (ratio > 0) return ratio;
  if (!(bin > 0)) return 0;
  return static_cast<int64_t>(std::min(std::ceil(bin), static_cast<float>(16 * size + 16)));
}

Status infer_RoiPool(InferContext& ctx) {
  const auto& a = ctx.attrs<RoiAttrs>();
  const ValueType &x = ctx.input(0), &rois = ctx.input(1);
  ValueType y = ValueType::tensor(x.dtype);
  if (x.ranked && rois.ranked) {
    SMELT_TRY(check_rois(a, x.shape, rois.shape));
    int64_t height = a.height, width = a.width;
    if (ctx.has(3)) {
      const auto size = ctx.ints(3);
      if (size && size->size() != 2) return InvalidInput("crop_size has ", size->size(), " numbers, 2 expected");
      height = size ? (*size)[0] : -1;
      width = size ? (*size)[1] : -1;
      if (size && (height < 1 || width < 1)) return InvalidInput("crop_size must be positive");
    } else if (height < 1 || width < 1) {
      return InvalidModel("the size of pooled regions must be positive");
    }
    y.ranked = true;
    y.shape = Shape{rois.shape[0], x.shape[1], height, width};
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_RoiPool(KernelContext& ctx) {
  const auto& a = ctx.attrs<RoiAttrs>();
  const Tensor &x = ctx.input(0), &rois = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_TRY(check_rois(a, x.shape(), rois.shape()));
  const int64_t n = rois.dim(0), columns = rois.dim(1), channels = x.dim(1), height = y.dim(2), width = y.dim(3);
  if (a.sampling_ratio > 4096) return LimitReached("sampling_ratio ", a.sampling_ratio, " is too large");
  if (ctx.has(2) && ctx.input(2).elements() != n)
    return InvalidInput("there are ", ctx.input(2).elements(), " batch indices for ", n, " regions");
  SMELT_ASSIGN(const float* const xs, operand<float>(ctx, x));
  SMELT_ASSIGN(const float* const boxes, operand<float>(ctx, rois));
  SMELT_ASSIGN(float* const ys, scratch_array<float>(ctx, y.elements()));
  const int64_t plane = x.dim(2) * x.dim(3);
  if (plane == 0 && y.elements() > 0) return InvalidInput("regions of an empty image");
  for (int64_t r = 0; r < n; ++r) {
    const float* roi = boxes + r * columns;
    int64_t batch = ctx.has(2) ? get_int(ctx.input(2), r) : 0;
    if (a.legacy) {
      batch = std::isnan(roi[0]) ? -1 : static_cast<int64_t>(std::clamp(roi[0], -1.0f, 1e9f));
      ++roi;
    }
    if (batch < 0 || batch >= x.dim(0)) return InvalidInput("batch index ", batch, " of a region is out of range");
    for (int64_t c = 0; c < channels; ++c) {
      SMELT_TRY(ctx.tick());
      const Plane p{xs + (batch * channels + c) * plane, x.dim(2), x.dim(3)};
      float* out = ys + (r * channels + c) * height * width;
      if (a.crop_and_resize)
        crop_and_resize(a, height, width, p, roi, out);
      else if (a.legacy)
        roi_pool(a, p, roi, out);
      else
        roi_align(a, p, roi, out);
    }
  }
  store(ys, y);
  return Ok();
}

}  // namespace smelt
