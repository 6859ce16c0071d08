// Pooling of regions of images as ATen calls.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/executorch/writer/call_writer.h"
#include "ops/pool/pool.h"
#include "tensor/numeric.h"

namespace smelt::executorch {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Samples along one side of all bins. All values are [regions, bins * count].
struct Samples {
  int at = -1;      ///< coordinates
  int inside = -1;  ///< bool: the coordinate lies in the image's margin
  int live = -1;    ///< bool: the region has the sample; -1: it has all
  int number = -1;  ///< float [regions, 1]: samples of a bin; -1: `count`
  int missed = -1;  ///< bool [regions, 1]: there are further samples, which lie outside of the image; -1: none
  int64_t count = 1;
};

/// Neighbours of coordinates and the weights of bilinear interpolation between them.
struct Neighbours {
  int low = -1, high = -1;                ///< int64
  int low_weight = -1, high_weight = -1;  ///< float32
};

class RegionPool {
 public:
  explicit RegionPool(CallWriter& w) : w_(w), a_(w.attrs<RoiAttrs>()), p_(w.plan()) {
    image_ = w.in_type(0).shape;
    regions_ = w.in_type(1).shape[0];
    height_ = w.out_type(0).shape[2];
    width_ = w.out_type(0).shape[3];
    boxes_ = w.cast(w.real(1), DType::kF32);
    batch_ = w.has(2)    ? w.cast(w.in(2), DType::kI64)
             : a_.legacy ? w.cast(column(0), DType::kI64)
                         : p_.constant(Tensor(DType::kI64, Shape{regions_}));
    batch_ = p_.reshape(batch_, Shape{regions_});
  }

  /// nullopt if the samples are too many.
  std::optional<int> run() {
    if (a_.legacy) return whole_pixels();
    return a_.crop_and_resize ? crop() : aligned();
  }

 private:
  /// Elements that an intermediate tensor may have.
  static constexpr int64_t kMost = int64_t{1} << 24;

  int column(int64_t k) { return sliced(w_, boxes_, 1, k, k + 1); }
  int number(int64_t n, int like) { return w_.number_like(like, static_cast<double>(n)); }
  int numbers(const std::vector<float>& v) {
    return p_.constant(
        Tensor::from<float>(DType::kF32, Shape{1, static_cast<int64_t>(v.size())}, std::span<const float>(v)));
  }
  int both(formats::Operands2 x) { return w_.binary("logical_and", x); }
  int within(int x, double lo, double hi) {
    return both({w_.compare("ge", x, w_.number_like(x, lo)), w_.compare("le", x, w_.number_like(x, hi))});
  }

  /// RoiAlign's samples of one side, which goes from column `first` of the boxes to column `last`.
  Samples samples(int64_t first, int64_t last, int64_t bins, int64_t size) {
    const double offset = a_.half_pixel ? 0.5 : 0;
    const auto edge = [&](int64_t k) {
      const int scaled = w_.mul({column(k), w_.number_like(boxes_, a_.scale)});
      return offset == 0 ? scaled : w_.sub(scaled, w_.number_like(scaled, offset));
    };
    const int begin = edge(first);
    int extent = w_.sub(edge(last), begin);
    if (!a_.half_pixel) extent = w_.binary("maximum", extent, number(1, extent));
    const int bin = w_.div(extent, number(bins, extent));
    Samples s;
    // Without a ratio, samples lie half a pixel apart at least: so many of a bin lie in the image.
    s.count = a_.sampling_ratio > 0 ? a_.sampling_ratio : 2 * size + 5;
    std::vector<float> bin_numbers, places;
    for (int64_t i = 0; i < bins; ++i)
      for (int64_t k = 0; k < s.count; ++k) {
        bin_numbers.push_back(static_cast<float>(i));
        places.push_back(static_cast<float>(k));
      }
    const int start = w_.add(begin, w_.mul(bin, numbers(bin_numbers)));
    int place = numbers(places), count = number(s.count, bin);
    if (a_.sampling_ratio <= 0) {
      const int none = number(0, bin);
      s.number = w_.select({w_.compare("gt", bin, none), w_.unary("ceil", bin), none});
      count = w_.binary("maximum", s.number, number(1, bin));
      s.missed = w_.compare("gt", s.number, number(s.count, bin));
      // Of more samples, those in front of the image are passed over.
      const int step = w_.binary("maximum", {w_.div(bin, count), w_.number_like(bin, 0.5)});
      const int ahead = w_.div(w_.sub(w_.number_like(start, -1.5), start), step);
      const int skipped = w_.binary("maximum", w_.unary("floor", ahead), none);
      place = w_.add(w_.select(s.missed, skipped, none), place);
      s.live = w_.compare("lt", place, s.number);
    }
    const int within_bin = w_.div(w_.mul(w_.add(place, w_.number_like(place, 0.5)), bin), count);
    s.at = w_.add(start, within_bin);
    s.inside = within(s.at, -1, static_cast<double>(size));
    return s;
  }

  Neighbours neighbours(int at, int64_t size, int inside) {
    const int place = w_.clamp(at, 0, static_cast<double>(size - 1)), low = w_.unary("floor", place);
    const int part = w_.sub(place, low), share = w_.cast(inside, DType::kF32);
    Neighbours n;
    n.low = w_.cast(low, DType::kI64);
    n.high = w_.binary("minimum", {w_.add(n.low, number(1, n.low)), number(size - 1, n.low)});
    n.low_weight = w_.mul(w_.sub(number(1, part), part), share);
    n.high_weight = w_.mul(part, share);
    return n;
  }

  /// The pixels of all channels at rows [regions, r] and columns [regions, c]: [regions, r, c, channels].
  int pixels(int rows, int columns) {
    const int64_t plane = image_[2] * image_[3];
    const int base = p_.reshape(w_.mul(batch_, number(plane, batch_)), Shape{regions_, 1, 1});
    const int row = w_.mul({p_.reshape(rows, Shape{regions_, w_.shape(rows)[1], 1}), number(image_[3], rows)});
    const int at = w_.add({w_.add(base, row), p_.reshape(columns, Shape{regions_, 1, w_.shape(columns)[1]})});
    return look_up(w_, table(), at);
  }
  int table() {
    if (table_ < 0)
      table_ = p_.reshape(p_.permute(w_.cast(w_.real(0), DType::kF32), {0, 2, 3, 1}),
                          Shape{image_[0] * image_[2] * image_[3], image_[1]});
    return table_;
  }
  int spread_rows(int x) { return p_.reshape(x, Shape{regions_, w_.shape(x)[1], 1, 1}); }
  int spread_columns(int x) { return p_.reshape(x, Shape{regions_, 1, w_.shape(x)[1], 1}); }
  int channels_in_front(int x) { return p_.permute(x, {0, 3, 1, 2}); }

  /// The four neighbours of each sample times their weights.
  std::vector<int> weighted(const Neighbours& y, const Neighbours& x) {
    std::vector<int> out;
    for (const bool lower : {false, true})
      for (const bool right : {false, true}) {
        const int weight = w_.mul(
            {spread_rows(lower ? y.high_weight : y.low_weight), spread_columns(right ? x.high_weight : x.low_weight)});
        out.push_back(w_.mul(weight, pixels(lower ? y.high : y.low, right ? x.high : x.low)));
      }
    return out;
  }
  int folded(const char* name, const std::vector<int>& parts) {
    int y = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) y = name ? w_.binary(name, y, parts[i]) : w_.add(y, parts[i]);
    return y;
  }

  std::optional<int> aligned() {
    const auto most = [&](int64_t size) { return a_.sampling_ratio > 0 ? a_.sampling_ratio : 2 * size + 5; };
    const int64_t each = std::max<int64_t>(1, regions_ * image_[1]), ny = most(image_[2]), nx = most(image_[3]);
    if (ny > kMost / height_ || nx > kMost / width_ || height_ * ny > kMost / (width_ * nx) / each) return std::nullopt;
    const Samples y = samples(1, 3, height_, image_[2]), x = samples(0, 2, width_, image_[3]);
    const auto rows = neighbours(y.at, image_[2], y.inside), columns = neighbours(x.at, image_[3], x.inside);
    int v = folded(a_.max ? "maximum" : nullptr, weighted(rows, columns));
    if (y.live >= 0) {
      const int live = both({spread_rows(y.live), spread_columns(x.live)});
      v = w_.select(live, v, w_.number_like(v, a_.max ? -kInfinity : 0));
    }
    v = p_.reshape(v, Shape{regions_, height_, y.count, width_, x.count, image_[1]});
    v = channels_in_front(w_.reduce(a_.max ? "amax" : "sum", v, {2, 4}, false));
    const auto by_region = [&](int n) { return p_.reshape(n, Shape{regions_, 1, 1, 1}); };
    if (y.number < 0) return a_.max ? v : w_.div(v, number(y.count * x.count, v));
    const int count = by_region(w_.mul(y.number, x.number)), none = number(0, v);
    if (!a_.max) return w_.div(v, w_.binary("maximum", count, number(1, count)));
    // Samples outside of the image are zeros.
    const int missed = by_region(w_.binary("logical_or", y.missed, x.missed));
    v = w_.select(missed, w_.binary("maximum", v, none), v);
    return w_.select(w_.compare("gt", count, none), v, none);
  }

  /// CropAndResize: one sample a pixel of the result, boxes in units of the image.
  std::optional<int> crop() {
    if (regions_ * height_ * width_ > kMost / std::max<int64_t>(image_[1], 1)) return std::nullopt;
    const auto places = [&](int64_t first, int64_t last, int64_t n, int64_t size) {
      const int end = number(size - 1, boxes_), low = w_.mul(column(first), end), high = w_.mul(column(last), end);
      if (n == 1) return w_.mul(w_.mul({w_.add({column(first), column(last)}), w_.number_like(boxes_, 0.5)}), end);
      std::vector<float> steps;
      for (int64_t i = 0; i < n; ++i) steps.push_back(static_cast<float>(i));
      return w_.add(low, w_.mul({numbers(steps), w_.div({w_.sub(high, low), number(n - 1, low)})}));
    };
    const int y = places(0, 2, height_, image_[2]), x = places(1, 3, width_, image_[3]);
    const int in_y = within(y, 0, static_cast<double>(image_[2] - 1));
    const int in_x = within(x, 0, static_cast<double>(image_[3] - 1));
    int v = -1;
    if (a_.nearest) {
      const auto pixel = [&](int at, int64_t size) {
        return w_.cast(rounded_half_away(w_, w_.clamp(at, 0, static_cast<double>(size - 1))), DType::kI64);
      };
      const int row = pixel(y, image_[2]);
      v = pixels(row, pixel(x, image_[3]));
    } else {
      const auto rows = neighbours(y, image_[2], in_y), columns = neighbours(x, image_[3], in_x);
      v = folded(nullptr, weighted(rows, columns));
    }
    const int inside = both({spread_rows(in_y), spread_columns(in_x)});
    return channels_in_front(w_.select(inside, v, w_.number_like(v, a_.extrapolation)));
  }

  /// First and last pixel of each bin of one side, float [regions, bins, 1], the last one not in it.
  std::pair<int, int> bin_edges(int64_t first, int64_t last, int64_t bins, int64_t size) {
    const auto pixel = [&](int64_t k) {
      return rounded_half_away(w_, w_.mul({column(k), w_.number_like(boxes_, a_.scale)}));
    };
    const int begin = pixel(first), one = number(1, begin);
    const int extent = w_.binary("maximum", w_.add(w_.sub(pixel(last), begin), one), one);
    const int bin = w_.div(extent, number(bins, extent));
    const auto edges = [&](const char* rounding, int64_t shift) {
      std::vector<float> places;
      for (int64_t i = 0; i < bins; ++i) places.push_back(static_cast<float>(i + shift));
      const int at = w_.add(w_.unary(rounding, w_.mul(bin, numbers(places))), begin);
      return p_.reshape(w_.clamp(at, 0, static_cast<double>(size)), Shape{regions_, bins, 1});
    };
    const int from = edges("floor", 0);
    return {from, edges("ceil", 1)};
  }

  /// MaxRoiPool: the largest pixel of each bin; bins without pixels are 0.
  std::optional<int> whole_pixels() {
    const int64_t channels = image_[1], rows = image_[2], columns = image_[3];
    if (height_ * rows * columns > kMost / std::max<int64_t>(regions_ * channels, 1) ||
        height_ * width_ * columns > kMost / std::max<int64_t>(regions_ * channels, 1))
      return std::nullopt;
    const auto y = bin_edges(2, 4, height_, rows), x = bin_edges(1, 3, width_, columns);
    const auto mask = [&](const std::pair<int, int>& edges, int64_t size, const Shape& to) {
      std::vector<float> places;
      for (int64_t i = 0; i < size; ++i) places.push_back(static_cast<float>(i));
      const int at = p_.reshape(numbers(places), Shape{1, 1, size});
      return p_.reshape(both({w_.compare("ge", at, edges.first), w_.compare("lt", at, edges.second)}), to);
    };
    int v =
        p_.reshape(look_up(w_, w_.cast(w_.real(0), DType::kF32), batch_), Shape{regions_, 1, channels, rows, columns});
    const int lowest = w_.number_like(v, -kInfinity);
    v = w_.select(mask(y, rows, Shape{regions_, height_, 1, rows, 1}), v, lowest);
    v = p_.reshape(w_.reduce("amax", v, {3}, false), Shape{regions_, height_, 1, channels, columns});
    v = w_.select(mask(x, columns, Shape{regions_, 1, width_, 1, columns}), v, lowest);
    v = channels_in_front(w_.reduce("amax", v, {4}, false));
    const auto some = [&](const std::pair<int, int>& edges, const Shape& to) {
      return p_.reshape(w_.compare("lt", edges.first, edges.second), to);
    };
    const int any = both({some(y, Shape{regions_, 1, height_, 1}), some(x, Shape{regions_, 1, 1, width_})});
    return w_.select(any, v, w_.number_like(v, 0));
  }

  CallWriter& w_;
  const RoiAttrs& a_;
  PlanWriter& p_;
  Shape image_;
  int64_t regions_ = 0, height_ = 0, width_ = 0;
  int boxes_ = -1, batch_ = -1, table_ = -1;
};

}  // namespace

bool call_roi_pool(CallWriter& w) {
  const ValueType& x = w.in_type(0);
  if (x.quant || !is_float(x.dtype) || x.shape.elements() == 0 || w.out_type(0).shape.elements() == 0) return false;
  if (w.has(2) && w.in_type(2).shape.elements() != w.in_type(1).shape[0]) return false;
  const auto y = RegionPool(w).run();
  return y && w.out(0, w.cast(*y, w.out_type(0).dtype));
}

/// Values scattered to the places that pooling gave, zeros elsewhere.
bool call_max_unpool(CallWriter& w) {
  const auto& a = w.attrs<MaxUnpoolAttrs>();
  const Shape &x = w.in_type(0).shape, &result = w.out_type(0).shape;
  if (a.in_window || w.in_type(0).quant || w.in_type(1).shape.elements() != x.elements()) return false;
  const auto inner = unpooled_shape(a, x);
  if (!inner.ok() || !inner->is_static() || inner->elements() == 0) return false;
  PlanWriter& p = w.plan();
  const Shape flat{x.elements()};
  const int values = p.reshape(w.in(0), flat), at = p.reshape(w.cast(w.in(1), DType::kI64), flat);
  const int zeros = p.constant(Tensor(w.in_type(0).dtype, Shape{inner->elements()}));
  int y = p.reshape(w.call("aten::scatter", {zeros, p.integer(0), at, values}, "src_out"), *inner);
  for (int d = 0; d < result.rank(); ++d) {
    const int64_t n = w.shape(y)[d];
    y = n > result[d] ? sliced(w, y, d, 0, result[d]) : bordered(w, y, d, 0, result[d] - n, 0);
  }
  return w.out(0, y);
}

}  // namespace smelt::executorch
