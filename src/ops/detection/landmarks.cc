#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/detection/detection.h"

namespace smelt {
namespace {

struct PlanePoint {
  float x, y;
};
PlanePoint rotated(PlanePoint p, float angle) {
  const float c = std::cos(angle), s = std::sin(angle);
  return {p.x * c - p.y * s, p.x * s + p.y * c};
}

/// A 3 x 3 matrix of homogeneous coordinates, row by row.
using PlaneMatrix = std::array<float, 9>;
PlaneMatrix operator*(const PlaneMatrix& a, const PlaneMatrix& b) {
  PlaneMatrix out{};
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 3; ++c)
      for (size_t k = 0; k < 3; ++k) out[r * 3 + c] += a[r * 3 + k] * b[k * 3 + c];
  return out;
}
PlaneMatrix scaled(float x, float y, float shift_x, float shift_y) { return {x, 0, shift_x, 0, y, shift_y, 0, 0, 1}; }
PlaneMatrix turned(float angle, PlanePoint shift) {
  const float c = std::cos(angle), s = std::sin(angle);
  return {c, -s, shift.x, s, c, shift.y, 0, 0, 1};
}

/// The upright box of the subset: its size, and its centre in the image.
struct CropBox {
  float width, height;
  PlanePoint centre;
};
CropBox box_of(const LandmarksMatrixAttrs& a, const float* landmarks, float angle) {
  PlanePoint low{}, high{};
  for (size_t i = 0; i < a.subset.size(); ++i) {
    const PlanePoint p = rotated({landmarks[a.subset[i] * 3], landmarks[a.subset[i] * 3 + 1]}, angle);
    low = i == 0 ? p : PlanePoint{std::min(low.x, p.x), std::min(low.y, p.y)};
    high = i == 0 ? p : PlanePoint{std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  return {high.x - low.x, high.y - low.y, rotated({(low.x + high.x) / 2, (low.y + high.y) / 2}, -angle)};
}

}  // namespace

Status infer_LandmarksMatrix(InferContext& ctx) {
  const auto& a = ctx.attrs<LandmarksMatrixAttrs>();
  const ValueType& x = ctx.input(0);
  if (x.dtype != DType::kF32 && x.dtype != DType::kInvalid)
    return Unsupported("landmarks of ", to_string(x.dtype), ", float32 expected");
  if (a.crop_height < 1 || a.crop_width < 1 || a.image_height < 1 || a.image_width < 1 || a.range < 1 ||
      a.subset.empty())
    return InvalidModel("a crop of ", a.crop_height, " x ", a.crop_width, " from ", a.image_height, " x ",
                        a.image_width, " around ", a.subset.size(), " landmarks in [0, ", a.range, "]");
  int64_t last = std::max(a.left, a.right), first = std::min(a.left, a.right);
  for (const int64_t at : a.subset) {
    last = std::max(last, at);
    first = std::min(first, at);
  }
  if (first < 0 || (x.ranked && x.shape.is_static() && last >= x.shape.elements() / 3))
    return InvalidModel("landmark ", first < 0 ? first : last, " of an input of shape ", x.shape.str());
  ctx.set(0, ValueType::tensor(DType::kF32, Shape{1, 4, 4}));
  return Ok();
}

Status reference_LandmarksMatrix(KernelContext& ctx) {
  const auto& a = ctx.attrs<LandmarksMatrixAttrs>();
  const float* landmarks = ctx.input(0).data<float>();
  const float dx = landmarks[a.right * 3] - landmarks[a.left * 3];
  const float dy = landmarks[a.right * 3 + 1] - landmarks[a.left * 3 + 1];
  const float angle = a.version2 ? static_cast<float>(a.rotation) - std::atan2(dy, dx) : -std::atan(dy / dx);
  const CropBox box = box_of(a, landmarks, angle);
  const auto crop_width = static_cast<float>(a.crop_width), crop_height = static_cast<float>(a.crop_height);
  const float width = box.width * static_cast<float>(a.scale_x), height = box.height * static_cast<float>(a.scale_y);
  PlaneMatrix m;
  if (a.version2) {
    m = turned(-angle, box.centre) * scaled(width / crop_width, height / crop_height, 0, 0) *
        scaled(1, 1, -crop_width / 2, -crop_height / 2);
  } else {
    const auto range = static_cast<float>(a.range);
    const float half_width = static_cast<float>(a.image_width - 1) / 2,
                half_height = static_cast<float>(a.image_height - 1) / 2;
    m = scaled(half_width, half_height, half_width, half_height) *
        turned(-angle, {box.centre.x / range * 2 - 1, box.centre.y / range * 2 - 1}) *
        scaled(width / range, height / range, 0, 0) * scaled(2 / (crop_width - 1), 2 / (crop_height - 1), -1, -1);
  }
  const std::array<float, 16> out{m[0], m[1], 0, m[2], m[3], m[4], 0, m[5], 0, 0, 1, 0, 0, 0, 0, 1};
  std::copy(out.begin(), out.end(), ctx.output(0).data<float>());
  return Ok();
}

}  // namespace smelt
