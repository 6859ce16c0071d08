// Bilinear resampling of channels-last images at points given in pixels.
#include <cmath>
#include <optional>

#include "ops/core/op.h"
#include "ops/resize/resize.h"

namespace smelt {
namespace {

struct PixelImage {
  const float* data;
  int64_t height, width, channels;
};

/// The four pixels around a point, null outside the image, and the point's distance from the upper left one.
struct PixelNeighbours {
  const float* at[2][2];
  double dx, dy;

  PixelNeighbours(const PixelImage& image, float x, float y) {
    const float left = std::floor(x), top = std::floor(y);
    dx = x - left;
    dy = y - top;
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const int64_t row = static_cast<int64_t>(top) + i, column = static_cast<int64_t>(left) + j;
        const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
        at[i][j] = inside ? image.data + (row * image.width + column) * image.channels : nullptr;
      }
  }
  float value(int64_t c) const {
    const auto pixel = [c](const float* p) { return p ? static_cast<double>(p[c]) : 0.0; };
    const double upper = (1 - dx) * pixel(at[0][0]) + dx * pixel(at[0][1]);
    const double lower = (1 - dx) * pixel(at[1][0]) + dx * pixel(at[1][1]);
    return static_cast<float>((1 - dy) * upper + dy * lower);
  }
};

struct PixelPoint {
  float x, y;
};

/// Row `row` of the affine map at pixel (x, y), summed in this order: at the image's border rounding decides.
float affine(const float* row, float shift, float x, float y) { return row[0] * x + row[1] * y + row[2] * 0.f + shift; }

Status sample_points(KernelContext& ctx, int64_t n, const auto& point_of) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const PixelImage image{x.data<float>() + n * x.dim(1) * x.dim(2) * x.dim(3), x.dim(1), x.dim(2), x.dim(3)};
  float* to = y.data<float>() + n * y.dim(1) * y.dim(2) * y.dim(3);
  for (int64_t i = 0; i < y.dim(1); ++i) {
    SMELT_TRY(ctx.tick());
    for (int64_t j = 0; j < y.dim(2); ++j, to += image.channels) {
      const std::optional<PixelPoint> p = point_of(i, j, image);
      if (!p) continue;  // 0
      const PixelNeighbours around(image, p->x, p->y);
      for (int64_t c = 0; c < image.channels; ++c) to[c] = around.value(c);
    }
  }
  return Ok();
}

}  // namespace

Status infer_SamplePixels(InferContext& ctx) {
  const auto& a = ctx.attrs<SamplePixelsAttrs>();
  const ValueType &x = ctx.input(0), &points = ctx.input(1);
  for (const ValueType* t : {&x, &points})
    if (t->dtype != DType::kF32 && t->dtype != DType::kInvalid)
      return Unsupported("images and points of ", to_string(t->dtype), ", float32 expected");
  if (!x.ranked || !points.ranked) return Unsupported("an image or points of unknown rank");
  if (x.shape.rank() != 4) return InvalidModel("the image has rank ", x.shape.rank(), ", 4 expected");
  Shape y = x.shape;
  if (a.affine) {
    if (points.shape.is_static() && points.shape.elements() < 8)
      return InvalidModel("an affine map of shape ", points.shape.str(), ", 16 numbers expected");
    if (x.shape[0] > 1) return InvalidModel("an affine map of a batch of ", x.shape[0], " images, 1 expected");
    y[1] = a.height;
    y[2] = a.width;
  } else {
    const Shape& p = points.shape;
    if (p.rank() != 4 || (p[3] >= 0 && p[3] != 2) || (p[0] >= 0 && x.shape[0] >= 0 && p[0] != x.shape[0]))
      return InvalidModel("points of shape ", p.str(), " for an image of shape ", x.shape.str(),
                          ", [N, height, width, 2] expected");
    y[1] = p[1];
    y[2] = p[2];
  }
  ctx.set(0, ValueType::tensor(DType::kF32, y));
  return Ok();
}

Status reference_SamplePixels(KernelContext& ctx) {
  const auto& a = ctx.attrs<SamplePixelsAttrs>();
  const float* points = ctx.input(1).data<float>();
  if (!a.affine) {
    for (int64_t n = 0; n < ctx.input(0).dim(0); ++n)
      SMELT_TRY(sample_points(ctx, n, [&](int64_t, int64_t, const PixelImage& image) -> std::optional<PixelPoint> {
        const PixelPoint p{points[0], points[1]};
        points += 2;
        const bool near =
            p.x > -1 && p.y > -1 && p.x < static_cast<float>(image.width) && p.y < static_cast<float>(image.height);
        return near ? std::optional(p) : std::nullopt;
      }));
    return Ok();
  }
  if (ctx.input(0).dim(0) == 0) return Ok();
  float shift[2] = {points[3], points[7]};
  for (int i = 0; i < 2 && a.half_pixel; ++i)
    shift[i] = static_cast<float>(shift[i] + (points[4 * i] * 0.5 + points[4 * i + 1] * 0.5 - 0.5));
  return sample_points(ctx, 0, [&](int64_t i, int64_t j, const PixelImage& image) -> std::optional<PixelPoint> {
    const auto x = static_cast<float>(j), y = static_cast<float>(i);
    const PixelPoint p{affine(points, shift[0], x, y), affine(points + 4, shift[1], x, y)};
    const bool inside = p.x >= 0 && p.y >= 0 && p.x <= static_cast<float>(image.width - 1) &&
                        p.y <= static_cast<float>(image.height - 1);
    return inside ? std::optional(p) : std::nullopt;
  });
}

}  // namespace smelt
