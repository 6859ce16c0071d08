#include "ops/resize/plan.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr double kLargest = 2147483648.0;

Result<std::vector<ResizeAxis>> chosen_axes(const ResizeAttrs& a, const Shape& x) {
  std::vector<ResizeAxis> axes;
  const int rank = x.rank();
  if (a.axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back({.axis = i});
  for (int64_t i : a.axes) {
    if (i < -rank || i >= rank) return InvalidModel("axis ", i, " of Resize is out of range for rank ", rank);
    axes.push_back({.axis = static_cast<int>(i < 0 ? i + rank : i)});
  }
  for (ResizeAxis& d : axes) d.in = x[d.axis];
  return axes;
}

/// One scale for all axes so that the image fits into, or covers, the wanted sizes.
void keep_aspect_ratio(ResizeAttrs::Keep keep, std::vector<ResizeAxis>& axes) {
  double scale = 0;
  bool first = true;
  for (const ResizeAxis& d : axes) {
    if (d.in <= 0) return;
    const double s = static_cast<double>(d.out) / static_cast<double>(d.in);
    scale = first ? s : keep == ResizeAttrs::Keep::kNotLarger ? std::min(scale, s) : std::max(scale, s);
    first = false;
  }
  for (ResizeAxis& d : axes) {
    d.scale = scale;
    d.out = static_cast<int64_t>(std::floor(static_cast<double>(d.in) * scale + 0.5));
  }
}

std::vector<double> doubles(const Tensor* t) {
  std::vector<double> out;
  if (!t || t->dtype() == DType::kString || is_complex(t->dtype()) || t->elements() > 2 * Shape::kMaxRank) return out;
  out.resize(static_cast<size_t>(t->elements()));
  to_doubles(*t, out.data());
  return out;
}

}  // namespace

ResizeRequest resize_request(const Tensor* roi, const Tensor* scales, const Tensor* sizes) {
  ResizeRequest r;
  r.roi = doubles(roi);
  r.scales = doubles(scales);
  for (double v : doubles(sizes)) r.sizes.push_back(static_cast<int64_t>(std::clamp(v, -1.0, 1e15)));
  return r;
}

Result<std::vector<ResizeAxis>> plan_resize(const ResizeAttrs& a, const Shape& x, const ResizeRequest& r) {
  SMELT_ASSIGN(auto axes, chosen_axes(a, x));
  const size_t n = axes.size();
  if (!r.roi.empty() && r.roi.size() != 2 * n && r.roi.size() != 2 * static_cast<size_t>(x.rank()))
    return InvalidInput("roi has ", r.roi.size(), " numbers, ", 2 * n, " expected");
  if (a.coord == ResizeAttrs::Coord::kTfCropAndResize && !r.roi.empty()) {
    const bool full = r.roi.size() != 2 * n;
    for (size_t i = 0; i < n; ++i) {
      const size_t at = full ? static_cast<size_t>(axes[i].axis) : i;
      axes[i].roi_begin = r.roi[at];
      axes[i].roi_end = r.roi[at + r.roi.size() / 2];
    }
  }
  if (!r.sizes.empty()) {
    if (r.sizes.size() != n) return InvalidInput("Resize got ", r.sizes.size(), " sizes for ", n, " axes");
    for (size_t i = 0; i < n; ++i) {
      ResizeAxis& d = axes[i];
      d.out = r.sizes[i];
      if (d.out < 0 || static_cast<double>(d.out) > kLargest) return InvalidInput("Resize to size ", d.out);
      d.has_scale = false;
      if (d.in > 0) d.scale = static_cast<double>(d.out) / static_cast<double>(d.in);
    }
    if (a.keep != ResizeAttrs::Keep::kStretch) keep_aspect_ratio(a.keep, axes);
    return axes;
  }
  if (r.scales.empty()) return axes;
  if (r.scales.size() != n) return InvalidInput("Resize got ", r.scales.size(), " scales for ", n, " axes");
  for (size_t i = 0; i < n; ++i) {
    ResizeAxis& d = axes[i];
    d.scale = r.scales[i];
    if (!(d.scale > 0) || !std::isfinite(d.scale)) return InvalidInput("scale ", d.scale, " of Resize is not positive");
    if (d.in < 0) continue;
    // Of a region of interest as well: a scale speaks of the whole image, as every peer takes it.
    const double length = static_cast<double>(d.in) * d.scale;
    if (!(length >= 0 && length <= kLargest)) return LimitReached("Resize to size ", length);
    d.out = static_cast<int64_t>(std::floor(length));
  }
  return axes;
}

namespace {

/// Distance in the input between neighbours of the output when corners meet; 0 where there is no neighbour.
float corner_step(const ResizeAxis& d) {
  return d.out > 1 ? static_cast<float>(d.in - 1) / static_cast<float>(d.out - 1) : 0;
}

/// TFLite and PyTorch multiply by a step that is in/out, or the reciprocal of a given scale.
float stepped(const ResizeAttrs& a, const ResizeAxis& d, float x) {
  using Coord = ResizeAttrs::Coord;
  const bool corners = a.coord == Coord::kAlignCorners;
  if (d.out <= 1 && (corners || a.coord == Coord::kPytorchHalfPixel)) return 0;
  const float step = corners       ? corner_step(d)
                     : d.has_scale ? static_cast<float>(1.0 / d.scale)
                                   : static_cast<float>(d.in) / static_cast<float>(d.out);
  if (corners || a.coord == Coord::kAsymmetric) return x * step;
  if (a.coord == Coord::kTfHalfPixelNn) return (x + 0.5f) * step;
  return (x + 0.5f) * step - 0.5f;
}

/// Coordinate in the input of output index i. All in float32, as every peer does it: nearest neighbours depend on it.
float source(const ResizeAttrs& a, const ResizeAxis& d, int64_t i) {
  using Coord = ResizeAttrs::Coord;
  const auto x = static_cast<float>(i), in = static_cast<float>(d.in), out = static_cast<float>(d.out);
  if (a.coord == Coord::kCornersHalfPixel) return (x + 0.5f) * corner_step(d) - 0.5f;
  if (a.tflite) return stepped(a, d, x);
  const auto scale = static_cast<float>(d.scale);
  const float length = d.has_scale ? in * scale : out;
  switch (a.coord) {
    case Coord::kHalfPixel:
      return (x + 0.5f) / scale - 0.5f;
    case Coord::kHalfPixelSymmetric:
      return in / 2 * (1 - out / (in * scale)) + (x + 0.5f) / scale - 0.5f;
    case Coord::kPytorchHalfPixel:
      return d.out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case Coord::kAlignCorners:
      return length == 1 || d.out <= 1 ? 0 : x * (in - 1) / (length - 1);
    case Coord::kAsymmetric:
      return d.has_scale ? x / scale : x * in / out;
    case Coord::kTfCropAndResize: {
      const auto begin = static_cast<float>(d.roi_begin), end = static_cast<float>(d.roi_end);
      return d.out > 1 ? begin * (in - 1) + x * (end - begin) * (in - 1) / (out - 1) : 0.5f * (begin + end) * (in - 1);
    }
    case Coord::kTfHalfPixelNn:
      return (x + 0.5f) / scale;
    case Coord::kCornersHalfPixel:
      break;
  }
  return x;
}

int64_t nearest_index(ResizeAttrs::Nearest mode, bool shrinks, double x) {
  switch (mode) {
    case ResizeAttrs::Nearest::kRoundPreferFloor:
      return static_cast<int64_t>(std::ceil(x - 0.5));
    case ResizeAttrs::Nearest::kRoundPreferCeil:
      return static_cast<int64_t>(std::floor(x + 0.5));
    case ResizeAttrs::Nearest::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case ResizeAttrs::Nearest::kFloorOrCeil:
      return static_cast<int64_t>(shrinks ? std::ceil(x) : std::floor(x));
    default:
      return static_cast<int64_t>(std::ceil(x));
  }
}

double kernel(const ResizeAttrs& a, double x) {
  x = std::fabs(x);
  if (a.mode == ResizeAttrs::Mode::kLinear) return x < 1 ? 1 - x : 0;
  const double c = a.cubic_a;
  if (x <= 1) return ((c + 2) * x - (c + 3)) * x * x + 1;
  return x < 2 ? ((c * x - 5 * c) * x + 8 * c) * x - 4 * c : 0;
}

/// Weights of the interpolation kernel around coordinate x.
void add_taps(const ResizeAttrs& a, const ResizeAxis& d, double x, AxisTaps& t) {
  const bool corners = a.coord == ResizeAttrs::Coord::kCornersHalfPixel;
  const double step = corner_step(d), scale = !corners ? d.scale : step > 0 ? 1 / step : 1;
  const double squeeze = a.antialias ? std::min(scale, 1.0) : 1.0;
  const double support = (a.mode == ResizeAttrs::Mode::kLinear ? 1.0 : 2.0) / squeeze;
  const auto first = static_cast<int64_t>(std::floor(x - support) + 1);
  const auto last = std::max(first, static_cast<int64_t>(std::ceil(x + support) - 1));
  const size_t start = t.weight.size();
  double sum = 0;
  for (int64_t i = first; i <= last; ++i) {
    const double w = kernel(a, (static_cast<double>(i) - x) * squeeze);
    const bool inside = i >= 0 && i < d.in;
    if (!inside && a.exclude_outside) continue;
    const int64_t at = std::clamp<int64_t>(i, 0, d.in - 1);
    sum += w;
    if (t.weight.size() > start && t.index.back() == at) {
      t.weight.back() += w;
      continue;
    }
    t.index.push_back(at);
    t.weight.push_back(w);
  }
  if (t.weight.size() == start) {
    t.index.push_back(std::clamp<int64_t>(first, 0, d.in - 1));
    t.weight.push_back(1);
    return;
  }
  if ((a.exclude_outside || a.antialias) && sum != 0)
    for (size_t i = start; i < t.weight.size(); ++i) t.weight[i] /= sum;
}

}  // namespace

Result<AxisTaps> axis_taps(const ResizeAttrs& a, const ResizeAxis& d) {
  AxisTaps t;
  if (d.out == 0) return t;
  if (d.in == 0) return InvalidInput("Resize of an empty image");
  if (a.antialias && static_cast<double>(d.in) / std::min(d.scale, 1.0) > 1e9)
    return LimitReached("Resize by ", d.scale, " reads too many elements");
  for (int64_t i = 0; i < d.out; ++i) {
    const double limit = static_cast<double>(d.in) + 4;
    const double raw = source(a, d, i), x = std::isfinite(raw) ? std::clamp(raw, -limit, 2 * limit) : 0;
    t.begin.push_back(static_cast<int64_t>(t.index.size()));
    t.outside.push_back(a.coord == ResizeAttrs::Coord::kTfCropAndResize &&
                        (x < 0 || x > static_cast<double>(d.in - 1)));
    if (a.mode == ResizeAttrs::Mode::kNearest) {
      t.index.push_back(std::clamp<int64_t>(nearest_index(a.nearest, d.scale < 1, x), 0, d.in - 1));
      t.weight.push_back(1);
    } else {
      add_taps(a, d, x, t);
    }
    const bool same = static_cast<int64_t>(t.index.size()) == t.begin.back() + 1 && t.index.back() == i;
    t.identity = t.identity && same && !t.outside.back() && t.weight.back() == 1;
  }
  t.begin.push_back(static_cast<int64_t>(t.index.size()));
  t.identity = t.identity && d.in == d.out;
  return t;
}

}  // namespace smelt
