// Resizing of images.
#include <numeric>

#include "formats/common/resize_weights.h"
#include "formats/tflite/writer/op_writer.h"
#include "ops/resize/resize.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Options of the format for this way of sampling; nothing if it has none.
struct Sampling {
  bool align = false, half = false;
};
std::optional<Sampling> sampling_of(const ResizeAttrs& a) {
  using C = ResizeAttrs::Coord;
  const bool nearest = a.mode == ResizeAttrs::Mode::kNearest;
  if (a.mode == ResizeAttrs::Mode::kCubic || a.antialias || a.exclude_outside || a.keep != ResizeAttrs::Keep::kStretch)
    return std::nullopt;
  switch (a.coord) {
    case C::kAlignCorners:
      if (nearest && a.nearest != ResizeAttrs::Nearest::kRoundPreferCeil) return std::nullopt;
      return Sampling{true, false};
    case C::kAsymmetric:
      if (nearest && a.nearest != ResizeAttrs::Nearest::kFloor) return std::nullopt;
      return Sampling{false, false};
    case C::kTfHalfPixelNn:
      if (!nearest || a.nearest != ResizeAttrs::Nearest::kFloor) return std::nullopt;
      return Sampling{false, true};
    case C::kHalfPixel:
    case C::kPytorchHalfPixel:
      // Rounding x - 0.5 up at halves is the floor of x.
      if (nearest && a.nearest != ResizeAttrs::Nearest::kRoundPreferCeil) return std::nullopt;
      return Sampling{false, true};
    default:
      return std::nullopt;
  }
}

/// Resampling that the format has no word for: products with constant matrices, one dimension after the other.
bool resize_by_matrices(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const auto matrices = formats::resize_weights(s.graph(), w.node());
  if (!matrices.ok()) return false;
  int x = w.real(0);
  const int rank = w.rank(0);
  if (!is_float(w.file_dtype(x))) {
    // One-hot rows give integers back.
    if (w.attrs<ResizeAttrs>().mode != ResizeAttrs::Mode::kNearest || bit_width(w.file_dtype(x)) > 16) return false;
    x = s.cast(x, DType::kF32);
  }
  for (const formats::ResizeWeights& m : *matrices) {
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[static_cast<size_t>(m.axis)], perm.back());
    const int y = s.add(Code::FULLY_CONNECTED, {s.transpose(x, perm), s.constant(m.matrix)}, DType::kF32,
                        options_of<tfl::FullyConnectedOptions>(
                            [](auto& b) { return tfl::CreateFullyConnectedOptions(b, {}, {}, true); }));
    x = s.transpose(y, perm);
  }
  w.out(0, w.in_type(0).quant ? x : s.cast(x, s.file_type(w.out_type(0)).first));
  return true;
}

/// True if the sizes that a Resize is given are those of its own input but for the dimensions behind the second.
bool keeps_leading_sizes(OpWriter& w) {
  const SubgraphWriter& s = w.subgraph();
  const auto source = [&](ValueId id) {
    const Node* n = s.producer(id);
    while (n && n->op == Op::kCast) n = s.producer(n->inputs[0]);
    return n;
  };
  const Node* const joined = w.has(3) ? source(w.id(3)) : nullptr;
  if (!joined || joined->op != Op::kConcat) return false;
  const Node* const front = source(joined->inputs[0]);
  if (!front || front->op != Op::kSlice || front->inputs.size() < 4) return false;
  const OpWriter slice(w.subgraph(), *front);
  const auto is = [&](int i, int64_t v) { return slice.ints(i) == std::vector<int64_t>{v}; };
  const Node* const shape = source(front->inputs[0]);
  return is(1, 0) && is(2, 2) && is(3, 0) && (front->inputs.size() < 5 || is(4, 1)) && shape &&
         shape->op == Op::kShapeOf && shape->inputs[0] == w.id(0);
}

bool resize_image(OpWriter& w) {
  const auto& a = w.attrs<ResizeAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &y = w.out_type(0);
  if (w.rank(0) != 4 || !y.ranked) return false;
  auto sampling = sampling_of(a);
  const bool nearest = a.mode == ResizeAttrs::Mode::kNearest;
  // The spatial dimensions follow from which ones change.
  const bool last_axes = a.axes == std::vector<int64_t>{1, 2};
  const bool traced = !last_axes && a.axes.empty() && !w.constant(3) && keeps_leading_sizes(w);
  const bool first = traced || (!last_axes && (y.shape[1] == x.shape[1] || x.shape[1] < 0));
  if (!last_axes && !first && y.shape[3] != x.shape[3]) return false;
  const int at = first ? 2 : 1;
  // Enlarging by whole factors, ways of rounding agree with the floor of asymmetric coordinates.
  if (!sampling && nearest && a.mode != ResizeAttrs::Mode::kCubic) {
    const auto divides = [&](int d) { return x.shape[d] > 0 && y.shape[d] > 0 && y.shape[d] % x.shape[d] == 0; };
    const bool half = a.coord == ResizeAttrs::Coord::kHalfPixel || a.coord == ResizeAttrs::Coord::kPytorchHalfPixel;
    const bool floors = a.coord == ResizeAttrs::Coord::kAsymmetric && (a.nearest == ResizeAttrs::Nearest::kFloorOrCeil);
    const bool rounds = half && (a.nearest == ResizeAttrs::Nearest::kRoundPreferFloor);
    if ((floors || rounds) && divides(at) && divides(at + 1)) sampling = Sampling{false, rounds};
  }
  if (!sampling) return false;
  // PyTorch's rule differs from half pixels for outputs of 1 only.
  if (a.coord == ResizeAttrs::Coord::kPytorchHalfPixel && (y.shape[at] == 1 || y.shape[at + 1] == 1)) return false;
  int size = -1;
  if (y.shape[at] > 0 && y.shape[at + 1] > 0)
    size = s.i32({y.shape[at], y.shape[at + 1]});
  else if (last_axes && w.has(3))
    size = w.in_i32(3);
  else if (traced)
    size = s.add(Code::SLICE, {w.in_i32(3), s.i32({2}), s.i32({2})}, DType::kI32);
  else
    return false;
  // Given scales that are not out / in place the samples elsewhere.
  if (w.has(2) && !a.tflite && x.is_static() && y.is_static()) {
    const Tensor* scales = w.constant(2);
    if (!scales) return false;
    for (int64_t i = 0; i < scales->elements(); ++i) {
      const int d = a.axes.empty() ? static_cast<int>(i) : static_cast<int>(a.axes[static_cast<size_t>(i)]);
      const double real = static_cast<double>(y.shape[d]) / static_cast<double>(x.shape[d]);
      if (sampling->align) break;
      if (std::abs(real - get_double(*scales, i)) > 1e-6 * real) return false;
    }
  }
  auto [dtype, quant] = s.file_type(y);
  int image = first ? w.in_last(0) : w.in(0);
  // Integers without a scale are cut off behind their interpolation.
  const bool cut_off = !nearest && is_integer(x.dtype) && !x.quant && s.file().prefer_int8;
  if (!same_type(x, y) || cut_off) {
    image = cut_off ? s.cast(s.without_quantization(image), DType::kF32) : s.dequantize(image);
    dtype = DType::kF32;
    quant = nullptr;
  }
  const bool align = sampling->align, half = sampling->half;
  const auto options = nearest ? options_of<tfl::ResizeNearestNeighborOptions>(
                                     [=](auto& b) { return tfl::CreateResizeNearestNeighborOptions(b, align, half); })
                               : options_of<tfl::ResizeBilinearOptions>(
                                     [=](auto& b) { return tfl::CreateResizeBilinearOptions(b, align, half); });
  int z = s.add(nearest ? Code::RESIZE_NEAREST_NEIGHBOR : Code::RESIZE_BILINEAR, {image, size}, dtype, options, quant);
  if (cut_off) z = s.cast(z, s.file_type(y).first);
  first ? w.out_last(0, z) : w.out(0, z);
  return true;
}

}  // namespace

bool write_resize(OpWriter& w) {
  return w.subgraph().attempt([&] { return resize_image(w); }) || resize_by_matrices(w);
}

}  // namespace smelt::tflite
