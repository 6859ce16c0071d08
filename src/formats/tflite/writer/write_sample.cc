// Images read at places that are values: GridSample.
#include <algorithm>
#include <limits>

#include "formats/tflite/writer/scores.h"
#include "ops/resize/resize.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;
using Mode = GridSampleAttrs::Mode;
using Padding = GridSampleAttrs::Padding;

/// One place along a dimension that a sample is made of: an index and its weight, float32 [n, points]. -1: a weight
/// of 1.
struct Tap {
  int index = -1, weight = -1;
};

/// Samples of an image [n, spatial..., channels] at points [n, p].
class GridSampler {
 public:
  GridSampler(OpWriter& w, const GridSampleAttrs& a) : w_(w), s_(w.subgraph()), a_(a) {}

  /// Taps along a dimension of n elements for grid coordinates g, -1 to 1.
  std::vector<Tap> taps(int g, int64_t n) {
    const double size = static_cast<double>(n);
    int x = w_.add(g, s_.f32(1));
    x = a_.align_corners ? w_.mul({w_.mul(x, s_.f32(0.5)), s_.f32(size - 1)})
                         : w_.mul({w_.sub({w_.mul(x, s_.f32(size)), s_.f32(1)}), s_.f32(0.5)});
    // NaN is a place before the image.
    x = clamp(w_.select({w_.compare(Code::EQUAL, x, x), x, s_.f32(-1)}), -1e6, 1e6);
    if (a_.mode == Mode::kCubic) {
      const int base = w_.call(Code::FLOOR, {x}), part = w_.sub(x, base);
      std::vector<Tap> out;
      for (int k = -1; k <= 2; ++k)
        out.push_back({padded(w_.add(base, s_.f32(k)), size), cubic(w_.call(Code::ABS, {w_.sub(part, s_.f32(k))}), k)});
      return out;
    }
    x = padded(x, size);
    if (a_.mode == Mode::kNearest) return {{w_.call(Code::ROUND, {x}), -1}};
    const int base = w_.call(Code::FLOOR, {x}), part = w_.sub(x, base);
    return {{base, w_.sub(s_.f32(1), part)}, {w_.add(base, s_.f32(1)), part}};
  }

  /// The index of a tap as int32 within the image; elements outside have no weight.
  std::pair<int, int> inside(const Tap& t, int64_t n) {
    const int at = clamp(t.index, 0, static_cast<double>(n - 1));
    int weight = t.weight;
    if (a_.padding == Padding::kZeros) {
      const int counts = s_.cast(w_.compare(Code::EQUAL, at, t.index), DType::kF32);
      weight = weight < 0 ? counts : w_.mul(weight, counts);
    }
    return {s_.cast(at, DType::kI32), weight};
  }

 private:
  int clamp(int x, double low, double high) {
    return w_.binary(Code::MINIMUM, {w_.binary(Code::MAXIMUM, x, s_.f32(low)), s_.f32(high)});
  }
  /// The padding rule applied to a coordinate of a dimension.
  int padded(int x, double n) {
    if (a_.padding == Padding::kZeros) return x;
    const double low = a_.align_corners ? 0 : -0.5, range = a_.align_corners ? n - 1 : n;
    if (a_.padding == Padding::kReflection && range > 0) {
      const int around = w_.binary(Code::FLOOR_MOD, {w_.call(Code::ABS, {w_.sub(x, s_.f32(low))}), s_.f32(2 * range)});
      x = w_.add({w_.binary(Code::MINIMUM, around, w_.sub(s_.f32(2 * range), around)), s_.f32(low)});
    }
    return clamp(x, 0, n - 1);
  }
  /// Keys' cubic with a = -0.75 at distance d; taps 0 and 1 are nearer than 1.
  int cubic(int d, int k) {
    const auto polynomial = [&](std::initializer_list<double> factors) {
      int y = -1;
      for (const double f : factors) y = y < 0 ? s_.f32(f) : w_.add({w_.mul(y, d), s_.f32(f)});
      return y;
    };
    return k == 0 || k == 1 ? polynomial({1.25, -2.25, 0, 1}) : polynomial({-0.75, 3.75, -6, 3});
  }

  OpWriter& w_;
  SubgraphWriter& s_;
  const GridSampleAttrs& a_;
};

/// A tap of each dimension, taken together.
struct Corner {
  int offset = -1, weight = -1;
};

}  // namespace

bool write_grid_sample(OpWriter& w) {
  const auto& a = w.attrs<GridSampleAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &grid = w.in_type(1);
  if (!x.is_static() || !grid.is_static() || !w.unquantized()) return false;
  const int spatial = x.shape.rank() - 2;
  int64_t plane = 1, points = 1;
  for (int d = 0; d < spatial; ++d) {
    plane *= x.shape[2 + d];
    points *= grid.shape[1 + d];
  }
  if (plane < 1 || points < 1 || plane > std::numeric_limits<int32_t>::max()) return false;
  GridSampler sampler(w, a);
  std::vector<Corner> corners{{}};
  int64_t stride = plane;
  for (int d = 0; d < spatial; ++d) {
    const int64_t n = x.shape[2 + d];
    stride /= n;
    // The grid's last dimension holds the coordinates from the innermost dimension to the outermost.
    std::vector<int64_t> begin(static_cast<size_t>(spatial) + 2, 0), size(static_cast<size_t>(spatial) + 2, -1);
    begin.back() = spatial - 1 - d;
    size.back() = 1;
    const int g = s.add(Code::SLICE, {w.real(1), s.i32(begin), s.i32(size)}, DType::kF32);
    std::vector<Corner> next;
    for (const Tap& t : sampler.taps(s.reshape(g, {grid.shape[0], points}), n)) {
      auto [index, weight] = sampler.inside(t, n);
      if (stride != 1) index = w.mul(index, s.i32_scalar(stride));
      for (const Corner& c : corners)
        next.push_back({c.offset < 0 ? index : w.add(c.offset, index), c.weight < 0 ? weight
                                                                       : weight < 0 ? c.weight
                                                                                    : w.mul(c.weight, weight)});
    }
    corners = std::move(next);
  }
  const int image = s.reshape(w.in_last(0), {x.shape[0], plane, x.shape[1]});
  int y = -1;
  for (const Corner& c : corners) {
    int value = s.add(Code::GATHER, {image, c.offset}, DType::kF32, gather_options(1, 1));
    if (c.weight >= 0) value = w.mul(value, s.reshape(c.weight, {x.shape[0], points, 1}));
    y = y < 0 ? value : w.add(y, value);
  }
  std::vector<int64_t> dims{x.shape[0]};
  for (int d = 0; d < spatial; ++d) dims.push_back(grid.shape[1 + d]);
  dims.push_back(x.shape[1]);
  w.out_last(0, s.reshape(y, dims));
  return true;
}

}  // namespace smelt::tflite
