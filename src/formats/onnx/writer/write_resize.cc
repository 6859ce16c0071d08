// Resampling.
#include <algorithm>
#include <cmath>

#include "formats/onnx/writer/op_writers.h"
#include "ops/resize/resize.h"

namespace smelt::onnx {
namespace {

const char* nearest_mode(ResizeAttrs::Nearest nearest) {
  using Nearest = ResizeAttrs::Nearest;
  switch (nearest) {
    case Nearest::kRoundPreferCeil:
      return "round_prefer_ceil";
    case Nearest::kFloor:
    case Nearest::kFloorOrCeil:
      return "floor";
    case Nearest::kCeil:
      return "ceil";
    default:
      return "round_prefer_floor";
  }
}

/// True if the resized dimensions of x are those between the first and the last, so that the image is channels-last.
bool is_channels_last(const std::vector<int64_t>& axes, int rank) {
  if (rank < 3 || static_cast<int>(axes.size()) != rank - 2) return false;
  for (int k = 0; k < rank - 2; ++k)
    if (axes[static_cast<size_t>(k)] != k + 1) return false;
  return true;
}

void write_resize(NodeWriter& n) {
  const auto& a = n.attrs<ResizeAttrs>();
  const int rank = n.rank(0);
  if (!n.ok()) return;
  if (a.coord == ResizeAttrs::Coord::kCornersHalfPixel) return n.fail("antialiased aligned corners");
  std::vector<int64_t> axes = a.axes;
  for (int64_t& k : axes)
    if (k < 0) k += rank;
  const bool last = is_channels_last(axes, rank);
  const Order order = last ? Order::kChannelsFirst : Order::kAsIs;
  if (last)
    for (int64_t& k : axes) ++k;
  std::vector<Attribute> attributes{{"mode", to_string(a.mode)},
                                    {"coordinate_transformation_mode", to_string(a.coord)}};
  if (a.mode == ResizeAttrs::Mode::kNearest) attributes.emplace_back("nearest_mode", nearest_mode(a.nearest));
  if (a.mode == ResizeAttrs::Mode::kCubic) attributes.emplace_back("cubic_coeff_a", a.cubic_a);
  if (a.exclude_outside) attributes.emplace_back("exclude_outside", true);
  if (a.coord == ResizeAttrs::Coord::kTfCropAndResize) attributes.emplace_back("extrapolation_value", a.extrapolation);
  const bool newer =
      a.antialias || a.keep != ResizeAttrs::Keep::kStretch || a.coord == ResizeAttrs::Coord::kHalfPixelSymmetric;
  if (a.coord == ResizeAttrs::Coord::kHalfPixelSymmetric && !n.model().need_opset(19))
    return n.fail("half_pixel_symmetric needs opset 19");
  if (newer && !n.model().need_opset(18)) return n.fail("antialiasing needs opset 18");
  if (a.antialias) attributes.emplace_back("antialias", true);
  if (a.keep != ResizeAttrs::Keep::kStretch) attributes.emplace_back("keep_aspect_ratio_policy", to_string(a.keep));
  Name scales = n.in(2), sizes = n.has(3) ? n.in_i64(3) : kNoName;
  const bool has_sizes = n.is_static(0) && n.ints(3) && a.keep == ResizeAttrs::Keep::kStretch;
  if (!axes.empty() && !has_sizes && n.model().need_opset(18)) {
    attributes.emplace_back("axes", axes);
  } else if (!axes.empty()) {
    // The older form names every dimension.
    const auto given = n.ints(3);
    if (!given) return n.fail("sizes of some dimensions must be constant before opset 18");
    const Shape& x = n.type(0).shape;
    std::vector<int64_t> full;
    const auto perm = last ? to_channels_first(rank) : std::vector<int64_t>{};
    for (int k = 0; k < rank; ++k) full.push_back(x[static_cast<int>(last ? perm[static_cast<size_t>(k)] : k)]);
    for (size_t k = 0; k < axes.size(); ++k) full[static_cast<size_t>(axes[k])] = (*given)[k];
    if (std::ranges::count(full, -1) > 0) return n.fail("the shape must be known before opset 18");
    sizes = n.i64(full);
  }
  if (scales != kNoName && n.dtype(2) != DType::kF32) scales = n.cast(scales, DType::kF32);
  n.bind(0, n.op("Resize", {n.in(0, order), n.in(1), scales, sizes}, attributes), order);
}

void write_sample(NodeWriter& n) {
  const auto& a = n.attrs<GridSampleAttrs>();
  const bool newer = n.model().need_opset(20);
  const char* mode = to_string(a.mode);
  if (!newer && a.mode == GridSampleAttrs::Mode::kLinear) mode = "bilinear";
  if (!newer && a.mode == GridSampleAttrs::Mode::kCubic) mode = "bicubic";
  n.bind(0, n.op("GridSample", {n.in(0), n.in(1)},
                 {{"mode", mode}, {"padding_mode", to_string(a.padding)}, {"align_corners", a.align_corners}}));
}

void write_affine(NodeWriter& n) {
  n.bind(0, n.op("AffineGrid", {n.in(0), n.in_i64(1)}, {{"align_corners", n.attrs<AffineGridAttrs>().align_corners}}));
}

constexpr OpWriter kResize[] = {
    {Op::kResize, write_resize, "Resize"},
    {Op::kGridSample, write_sample, "GridSample"},
    {Op::kAffineGrid, write_affine, "AffineGrid"},
};

}  // namespace

std::span<const OpWriter> resize_writers() { return kResize; }

}  // namespace smelt::onnx
