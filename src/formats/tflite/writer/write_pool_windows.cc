// Pools that TFLite's 2-D operators don't have: windows of any number of dimensions or with gaps, one dimension after
// the other; and the places of maxima.
#include <algorithm>
#include <cmath>

#include "formats/tflite/writer/image.h"
#include "ops/pool/geometry.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Elements of the largest table of window positions.
constexpr int64_t kMaxGathered = int64_t{1} << 24;

/// Product of dimensions, at most one of which is unknown: -1 then.
int64_t product(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) n = n < 0 || shape[d] < 0 ? -1 : n * shape[d];
  return n;
}

/// Number of elements that the windows reach behind the image.
int64_t behind(const WindowDim& d) {
  return std::max<int64_t>(0, (d.out - 1) * d.stride + (d.kernel - 1) * d.dilation + 1 - d.in - d.pad_begin);
}

/// A pool whose windows and sizes are known.
class WindowPool {
 public:
  WindowPool(OpWriter& w, const PoolAttrs& a, const PoolGeometry& g)
      : w_(w), s_(w.subgraph()), a_(a), g_(g), first_(a.layout == Layout::kChannelsFirst ? w.rank(0) - spatial() : 1) {}

  /// The pooled tensor in the graph's order of dimensions; nothing if the format has no form for it.
  std::optional<int> pooled() {
    const bool max = a_.kind == PoolKind::kMax;
    const bool same = same_type(w_.in_type(0), w_.out_type(0));
    int x = max && same ? w_.in(0) : w_.real(0);
    if (a_.kind == PoolKind::kLp) x = powered(x);
    Shape shape = w_.in_type(0).shape;
    x = padded(x, shape);
    for (int i = 0; i < spatial(); ++i) x = along(x, shape, i);
    if (a_.kind == PoolKind::kAverage) return w_.mul(x, counts());
    if (a_.kind != PoolKind::kLp) return x;
    double taps = 1;
    for (int i = 0; i < spatial(); ++i) taps *= static_cast<double>(dim(i).kernel);
    x = w_.mul(x, s_.f32(taps));
    if (a_.p == 1) return x;
    return a_.p == 2 ? w_.call(Code::SQRT, {x}) : w_.binary(Code::POW, x, s_.f32(1 / a_.p));
  }

  /// Maxima as output 0 and their places as output 1, of images [batch, channels, ...]. False if tables get too large.
  bool with_places() {
    const Shape& shape = w_.in_type(0).shape;
    const int64_t planes = shape[0] * shape[1], outs = g_.window.out_positions();
    int64_t taps = 1;
    for (int i = 0; i < spatial(); ++i) taps *= dim(i).kernel;
    if (first_ != 2 || a_.index == PoolAttrs::Index::kWindowColumn || planes * outs * taps > kMaxGathered) return false;
    Shape all = shape;
    const int x = padded(w_.real(0), all);
    const int flat = s_.reshape(x, {planes, product(all, 2, all.rank())});
    Tensor from(DType::kI32, Shape{outs * taps}), places(DType::kI32, Shape{outs * taps}),
        rows(DType::kI32, Shape{outs}), bases(DType::kI64, Shape{planes, 1});
    fill_places(all, taps, from.data<int32_t>(), places.data<int32_t>());
    for (int64_t o = 0; o < outs; ++o) rows.data<int32_t>()[o] = static_cast<int32_t>(o * taps);
    for (int64_t p = 0; p < planes; ++p)
      bases.data<int64_t>()[p] = a_.index == PoolAttrs::Index::kPlane ? 0 : p * g_.window.in_positions();
    const auto gather = [&](int table, int at, int64_t axis) {
      return s_.add(Code::GATHER, {table, at}, s_.at(table).dtype, options_of<tfl::GatherOptions>([=](auto& b) {
                      return tfl::CreateGatherOptions(b, static_cast<int32_t>(axis));
                    }));
    };
    const int windows = s_.reshape(gather(flat, s_.constant(std::move(from)), 1), {planes, outs, taps});
    const Shape& y = w_.out_type(0).shape;
    const std::vector<int64_t> dims(y.begin(), y.end());
    w_.out(0, s_.reshape(w_.reduce(Code::REDUCE_MAX, windows, {2}, false), dims));
    const int best = s_.add(
        Code::ARG_MAX, {windows, s_.i32_scalar(2)}, DType::kI32,
        options_of<tfl::ArgMaxOptions>([](auto& b) { return tfl::CreateArgMaxOptions(b, tfl::TensorType::INT32); }));
    const int all_places = s_.constant(std::move(places));
    const int place = gather(all_places, w_.add(best, s_.constant(std::move(rows))), 0);
    const int index = w_.add({s_.cast(place, DType::kI64), s_.constant(std::move(bases))});
    w_.out(1, s_.cast(s_.reshape(index, dims), a_.index_dtype));
    return true;
  }

 private:
  int spatial() const { return g_.window.rank; }
  const WindowDim& dim(int i) const { return g_.window.dims[static_cast<size_t>(i)]; }

  int powered(int x) {
    if (a_.p == 2) return w_.call(Code::SQUARE, {x});
    const int magnitude = w_.call(Code::ABS, {x});
    return a_.p == 1 ? magnitude : w_.binary(Code::POW, magnitude, s_.f32(a_.p));
  }

  /// x behind the padding that windows reach; `shape` becomes the result's. What pads changes no maximum and no sum.
  int padded(int x, Shape& shape) {
    const int rank = shape.rank();
    Tensor widths(DType::kI32, Shape{rank, 2});
    std::fill_n(widths.data<int32_t>(), 2 * rank, 0);
    bool pads = false;
    for (int i = 0; i < spatial(); ++i) {
      const int64_t before = dim(i).pad_begin, after = behind(dim(i));
      widths.data<int32_t>()[2 * (first_ + i)] = static_cast<int32_t>(before);
      widths.data<int32_t>()[2 * (first_ + i) + 1] = static_cast<int32_t>(after);
      shape[first_ + i] += before + after;
      pads |= before > 0 || after > 0;
    }
    if (!pads) return x;
    const FileTensor from = s_.at(x);
    Tensor fill(from.dtype, Shape{});
    fill.set_quant(from.quant);
    if (is_float(from.dtype))
      set_double(fill, 0, a_.kind == PoolKind::kMax ? -INFINITY : 0);
    else
      set_int(fill, 0, int_min(from.dtype));
    return s_.add(Code::PADV2, {x, s_.constant(std::move(widths)), s_.constant(std::move(fill))}, from.dtype, {},
                  from.quant);
  }

  /// Maxima or means of the windows along one dimension of x, whose sizes are `shape`.
  int along(int x, Shape& shape, int i) {
    const WindowDim& d = dim(i);
    const int axis = first_ + i;
    const FileTensor from = s_.at(x);
    const int64_t outer = product(shape, 0, axis), n = shape[axis], inner = product(shape, axis + 1, shape.rank());
    const bool max = a_.kind == PoolKind::kMax;
    int y = -1;
    if (d.dilation == 1) {
      const auto size = static_cast<int32_t>(d.kernel), step = static_cast<int32_t>(d.stride);
      y = s_.add(max ? Code::MAX_POOL_2D : Code::AVERAGE_POOL_2D, {s_.reshape(x, {outer, n, 1, inner})}, from.dtype,
                 options_of<tfl::Pool2DOptions>(
                     [=](auto& b) { return tfl::CreatePool2DOptions(b, tfl::Padding::VALID, 1, step, 1, size); }),
                 from.quant);
    } else {
      std::vector<int64_t> at;
      for (int64_t o = 0; o < d.out; ++o)
        for (int64_t k = 0; k < d.kernel; ++k) at.push_back(o * d.stride + k * d.dilation);
      const int taps = s_.add(
          Code::GATHER, {x, s_.i32(at)}, from.dtype,
          options_of<tfl::GatherOptions>([=](auto& b) { return tfl::CreateGatherOptions(b, axis); }), from.quant);
      y = s_.add(max ? Code::REDUCE_MAX : Code::MEAN, {s_.reshape(taps, {outer, d.out, d.kernel, inner}), s_.i32({2})},
                 from.dtype,
                 options_of<tfl::ReducerOptions>([](auto& b) { return tfl::CreateReducerOptions(b, false); }),
                 from.quant);
    }
    shape[axis] = d.out;
    return s_.reshape(y, {shape.begin(), shape.end()});
  }

  /// What turns the mean of all taps into that of the elements that count, a tensor that broadcasts with the result.
  int counts() {
    const int rank = w_.rank(0);
    Shape shape = Shape::of_rank(rank - (a_.layout == Layout::kChannelsFirst ? first_ : 1), 1);
    double taps = 1;
    for (int i = 0; i < spatial(); ++i) {
      shape[i] = dim(i).out;
      taps *= static_cast<double>(dim(i).kernel);
    }
    if (a_.divisor_override != 0) return s_.f32(taps / static_cast<double>(a_.divisor_override));
    Tensor t(DType::kF32, shape);
    for (int64_t o = 0; o < t.elements(); ++o) {
      double count = 1;
      int64_t rest = o;
      for (int i = spatial() - 1; i >= 0; --i) {
        count *= static_cast<double>(counted(dim(i), rest % dim(i).out));
        rest /= dim(i).out;
      }
      t.data<float>()[o] = static_cast<float>(taps / std::max(count, 1.0));
    }
    return s_.constant(std::move(t));
  }

  /// Number of taps of the window at `o` that lie in the image, or in its padding where that counts.
  int64_t counted(const WindowDim& d, int64_t o) const {
    const int64_t low = a_.count_include_pad ? -d.pad_begin : 0, high = d.in + (a_.count_include_pad ? d.pad_end : 0);
    int64_t n = 0;
    for (int64_t k = 0; k < d.kernel; ++k) {
      const int64_t at = o * d.stride - d.pad_begin + k * d.dilation;
      n += at >= low && at < high ? 1 : 0;
    }
    return n;
  }

  /// For each tap of each window: its place in a padded plane of `all`, and its index in the plane of the image.
  void fill_places(const Shape& all, int64_t taps, int32_t* from, int32_t* places) const {
    const bool columns = a_.index == PoolAttrs::Index::kTensorColumn;
    for (int64_t o = 0; o < g_.window.out_positions(); ++o)
      for (int64_t k = 0; k < taps; ++k, ++from, ++places) {
        int64_t out = o, tap = k, step = 1, image = 1, column = 1, place = 0, row = 0;
        for (int i = spatial() - 1; i >= 0; --i) {
          const WindowDim& d = dim(i);
          const int64_t at = out % d.out * d.stride + tap % d.kernel * d.dilation;
          out /= d.out;
          tap /= d.kernel;
          place += at * step;
          step *= all[first_ + i];
          column = 1;
          for (int before = 0; columns && before < i; ++before) column *= dim(before).in;
          row += (at - d.pad_begin) * (columns ? column : image);
          image *= d.in;
        }
        *from = static_cast<int32_t>(place);
        *places = static_cast<int32_t>(row);
      }
  }

  OpWriter& w_;
  SubgraphWriter& s_;
  const PoolAttrs& a_;
  const PoolGeometry& g_;
  int first_;  ///< the first spatial dimension
};

}  // namespace

bool write_pool_windows(OpWriter& w) {
  const auto& a = w.attrs<PoolAttrs>();
  const ValueType& x = w.in_type(0);
  if (!x.ranked || (a.kind == PoolKind::kLp && (a.mean_square || a.p < 1))) return false;
  const auto g = pool_geometry(a, x.shape);
  if (!g.ok() || std::ranges::count(x.shape.dims(), -1) > 1) return false;
  for (int i = 0; i < g->window.rank; ++i) {
    const WindowDim& d = g->window.dims[static_cast<size_t>(i)];
    if (d.in < 1 || d.out < 1 || d.pad_begin < 0 || d.kernel > 4096) return false;
  }
  WindowPool pool(w, a, *g);
  if (w.wants(1) && w.subgraph().uses(w.out_id(1)) > 0)
    return a.kind == PoolKind::kMax && x.is_static() && w.unquantized() && pool.with_places();
  const auto y = pool.pooled();
  const auto after = y ? w.activated(*y, a.act) : std::nullopt;
  if (!after) return false;
  w.out(0, *after);
  return true;
}

}  // namespace smelt::tflite
