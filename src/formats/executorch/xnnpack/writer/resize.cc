// Bilinear resizing.
#include "ops/resize/resize.h"
#include "formats/executorch/xnnpack/writer/nodes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

using Builder = XnnNodeWriter::Builder;
using Id = XnnNodeWriter::Id;
using Type = XnnNodeWriter::Type;

/// The two dimensions that a Resize changes.
std::vector<int64_t> resized_axes(const XnnNodeWriter& w) {
  const auto& a = w.attrs<ResizeAttrs>();
  const Shape &x = w.in_type(0).shape, &y = w.out_type().shape;
  if (a.axes.size() == 2) return a.axes;
  if (!a.axes.empty() && a.axes != std::vector<int64_t>{0, 1, 2, 3}) return {};
  if (x[0] == y[0] && x[1] == y[1]) return {2, 3};
  return x[0] == y[0] && x[3] == y[3] ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{};
}

/// True if scales that the node gives are its sizes' quotients.
bool has_exact_scales(const XnnNodeWriter& w, const std::vector<int64_t>& axes) {
  const auto& a = w.attrs<ResizeAttrs>();
  if (a.coord == ResizeAttrs::Coord::kAlignCorners || !w.has(2)) return true;
  const Tensor* scales = w.constant(2);
  if (!scales) return false;
  for (const int64_t d : axes) {
    const auto at = a.axes.size() == 2 ? d - axes[0] : d;
    const auto in = static_cast<double>(w.in_type(0).shape[static_cast<int>(d)]);
    if (at >= scales->elements() ||
        get_double(*scales, at) * in != static_cast<double>(w.out_type().shape[static_cast<int>(d)]))
      return false;
  }
  return true;
}

}  // namespace

bool xnn_resize(XnnNodeWriter& w) {
  using R = ResizeAttrs;
  const auto& a = w.attrs<R>();
  if (a.mode != R::Mode::kLinear || a.antialias || a.exclude_outside || a.keep != R::Keep::kStretch ||
      w.in_type(0).shape.rank() != 4)
    return false;
  const auto axes = resized_axes(w);
  const bool last = axes == std::vector<int64_t>{1, 2};
  if (!last && axes != std::vector<int64_t>{2, 3}) return false;
  if (!a.tflite && !has_exact_scales(w, axes)) return false;
  uint32_t flags = 0;
  if (a.coord == R::Coord::kAlignCorners)
    flags = 8;
  else if (a.coord == R::Coord::kAsymmetric)
    flags = 4;
  else if (a.coord != R::Coord::kHalfPixel)
    return false;
  const Layout layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
  const bool integers = w.all_8bit(1) && same_quant_params(w.in_type(0).quant, w.out_type().quant);
  const Id x = w.image(0, layout, !integers);
  const int at = last ? 1 : 2;
  const auto height = static_cast<uint32_t>(w.out_type().shape[at]);
  const auto width = static_cast<uint32_t>(w.out_type().shape[at + 1]);
  const Shape s = w.g().shape(x);
  const Id y = w.result(Shape{s[0], w.out_type().shape[at], w.out_type().shape[at + 1], s[3]}, !integers);
  w.g().node(Type::XNNStaticResizeBilinear2D, [=](Builder& b) {
    return fb_xnnpack::CreateXNNStaticResizeBilinear2D(b, height, width, x, y, flags).Union();
  });
  return w.out_image(y, layout);
}

}  // namespace smelt::executorch
