// Resizing of images as ATen calls.
#include <cmath>
#include <numeric>

#include "formats/common/resize_weights.h"
#include "formats/executorch/writer/call_writer.h"
#include "ops/resize/resize.h"
#include "tensor/numeric.h"

namespace smelt::executorch {

namespace {

/// Resampling that ATen has no call for: products with constant matrices, one dimension after the other.
bool resize_by_matrices(CallWriter& w) {
  const auto matrices = formats::resize_weights(w.plan().graph(), w.node());
  if (!matrices.ok()) return false;
  PlanWriter& p = w.plan();
  int x = w.real(0);
  for (const formats::ResizeWeights& m : *matrices) {
    std::vector<int64_t> perm(static_cast<size_t>(w.rank(0)));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[static_cast<size_t>(m.axis)], perm.back());
    const int turned = p.permute(x, perm), weights = w.cast(p.constant(m.matrix), w.dtype(x));
    Shape s = w.shape(turned);
    s[s.rank() - 1] = m.matrix.dim(0);
    x = p.permute(p.call("aten::linear", "out", {turned, weights, p.null()}, w.dtype(x), s), perm);
  }
  return w.out(0, x);
}

bool resize_image(CallWriter& w);

}  // namespace

bool call_resize(CallWriter& w) { return resize_image(w) || resize_by_matrices(w); }

namespace {

bool resize_image(CallWriter& w) {
  using R = ResizeAttrs;
  const auto& a = w.attrs<R>();
  if (w.rank(0) != 4 || a.antialias || a.exclude_outside || a.keep != R::Keep::kStretch || a.mode == R::Mode::kCubic)
    return false;
  const Shape &x = w.in_type(0).shape, &y = w.out_type(0).shape;
  const bool last = a.axes == std::vector<int64_t>{1, 2};
  const Layout layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
  if (!last && (x[0] != y[0] || x[1] != y[1])) return false;
  const int at = last ? 1 : 2;
  const bool nearest = a.mode == R::Mode::kNearest;
  const auto divides = [&](int d) { return x[d] > 0 && y[d] % x[d] == 0; };
  const bool up = divides(at) && divides(at + 1);
  const bool half = a.coord == R::Coord::kHalfPixel || a.coord == R::Coord::kPytorchHalfPixel;
  if (nearest) {
    // floor(i * in / out); enlarging by whole factors, half pixels that round down at halves agree.
    const bool floors = a.coord == R::Coord::kAsymmetric &&
                        (a.nearest == R::Nearest::kFloor || (up && a.nearest == R::Nearest::kFloorOrCeil));
    if (!floors && !(up && half && a.nearest == R::Nearest::kRoundPreferFloor)) return false;
  } else if (!half && a.coord != R::Coord::kAlignCorners) {
    return false;
  }
  if (w.has(2) && !a.tflite) {
    const Tensor* scales = w.constant(2);
    if (!scales) return false;
    for (int64_t i = 0; i < scales->elements(); ++i) {
      const int d = a.axes.empty() ? static_cast<int>(i) : static_cast<int>(a.axes[static_cast<size_t>(i)]);
      const double exact = static_cast<double>(y[d]) / static_cast<double>(x[d]);
      if (a.coord != R::Coord::kAlignCorners && std::abs(exact - get_double(*scales, i)) > 1e-6 * exact) return false;
    }
  }
  const int image = w.image(0, layout);
  if (image < 0) return false;
  PlanWriter& p = w.plan();
  const int size = p.integers({y[at], y[at + 1]});
  const Shape result = image_shape(w, layout);
  int z = -1;
  if (nearest) {
    z = p.call("aten::upsample_nearest2d", "vec_out", {image, size, p.null()}, w.dtype(image), result);
  } else {
    const int align = p.boolean(a.coord == R::Coord::kAlignCorners);
    z = p.call("aten::upsample_bilinear2d", "vec_out", {image, size, align, p.null()}, w.dtype(image), result);
  }
  return w.out_image(0, z, layout);
}

}  // namespace

}  // namespace smelt::executorch
