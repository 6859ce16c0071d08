#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/pool/integer_means.h"
#include "backends/cpu/pool/plane_pools.h"
#include "backends/cpu/pool/pool_shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// True if windows lie on every element along a dimension.
bool is_dense(const WindowDim& d) { return d.stride == 1 && d.kernel > 1 && d.kernel <= 2 * d.out && d.pad_begin >= 0; }
/// True if windows of maxima lie on every element of a line: merged_line() then takes maxima of neighbours.
bool is_dense(const PoolShape& s) { return s.maximum && is_dense(s.dims[2]); }

/// Elements along a dimension whose windows are dense, padding included.
int64_t padded(const WindowDim& d) { return std::max(d.pad_begin + d.in, d.out + d.extent() - 1); }

/// Elements of the line that merged_line() works on, padding included.
int64_t merged_elements(const PoolShape& s) { return (is_dense(s) ? padded(s.dims[2]) : s.dims[2].in) * s.channels; }

/// Elements of the plane that merged_plane() works on, padding included; 0: windows are not dense in both directions,
/// or the plane is too large for a near cache.
int64_t plane_elements(const PoolShape& s) {
  constexpr int64_t kMost = 4096;
  const WindowDim &h = s.dims[1], &w = s.dims[2];
  if (!s.maximum || s.channels != 1 || s.dims[0].in != 1 || s.dims[0].out != 1 || !is_dense(h) || !is_dense(w) ||
      h.in > kMost || w.in > kMost || h.extent() > kMost || w.extent() > kMost)
    return 0;
  const int64_t n = padded(h) * padded(w);
  return n <= kMost ? n : 0;
}

/// Maxima of dense windows along d, of which `unit` neighbours each begin one, and `more` before these: windows of few
/// elements make those of up to three times as many, in place, and the last ones y.
template <class T, class Max>
void merge_windows(const WindowDim& d, int64_t unit, int64_t more, T* merged, T* y, Max&& max) {
  for (int64_t reach = 1, next = 1;; reach = next) {  // elements under a window so far
    next = std::min(3 * reach, d.kernel);
    const int64_t step = d.dilation * unit;
    const T* const windows[3] = {merged, merged + (next - reach) * step, merged + reach * step};
    const bool last = next == d.kernel;
    const int64_t n = more + (d.out + (d.kernel - next) * d.dilation) * unit;
    max(windows, next > 2 * reach ? 3 : 2, n, last ? y : merged);
    if (last) return;
  }
}

/// Maxima of channels-last windows, those of a line of output pixels: of the lines under the windows first, then of
/// their pixels, by merge_windows() where they are dense. lowest: what padding holds. merged: merged_elements().
/// max(taps, count, n, y) as in VectorOps.
template <class T, class Max>
void merged_line(const PoolShape& s, const T* image, int64_t index, T lowest, const T** taps, T* merged, T* y,
                 Max&& max) {
  const int64_t out[3] = {index / s.dims[1].out, index % s.dims[1].out, 0};
  const WindowDim& d = s.dims[2];
  const int64_t n = d.in * s.channels;
  T* const line = merged + (is_dense(s) ? d.pad_begin * s.channels : 0);
  max(taps, window_lines(s, image, n, out, taps), n, line);
  if (!is_dense(s)) {
    for (int64_t x = 0; x < d.out; ++x) max(taps, line_pixels<T>(s, line, x, taps), s.channels, y + x * s.channels);
    return;
  }
  T* const end = merged + merged_elements(s);
  std::fill(merged, line, lowest);
  std::fill(line + n, end, lowest);
  merge_windows(d, s.channels, 0, merged, y, max);
}

/// Entries [first, second) along a dimension under windows [first, last) of it.
std::pair<int64_t, int64_t> under(const WindowDim& d, int64_t first, int64_t last) {
  const int64_t end = (last - 1) * d.stride - d.pad_begin + d.extent();
  return {std::clamp<int64_t>(first * d.stride - d.pad_begin, 0, d.in), std::clamp<int64_t>(end, 0, d.in)};
}

/// Parts of an image that are pooled one after the other: a near cache holds one, and threads share them.
int64_t parts(const PoolShape& s, int64_t threads, int64_t bytes) {
  constexpr int64_t kNear = 64 * 1024;
  const int64_t lines = s.dims[0].out * s.dims[1].out, size = s.in_pixels() * s.channels * bytes;
  return std::clamp(std::max(ceil_div(size, kNear), s.batch < 2 * threads ? threads : 1), int64_t{1}, lines);
}

/// Calls body(PlaneRun) for the parts of images x that PlanePools make.
template <class T, class F>
Status each_part(KernelContext& ctx, const PoolShape& s, int64_t threads, int64_t parts, size_t slot_bytes,
                 size_t taps_bytes, const T* x, T* y, F&& body) {
  auto* scratch = static_cast<char*>(ctx.scratch(static_cast<size_t>(threads) * slot_bytes));
  if (!scratch) return Error(ErrorCode::kLimit, "no memory for pooling");
  const int64_t lines = s.dims[0].out * s.dims[1].out, in = s.in_pixels() * s.channels,
                out = s.out_pixels() * s.channels;
  const auto first_line = [&](int64_t part) { return lines * part / parts; };
  ranges_in_slots(ctx.threads(), threads, s.batch * parts, [&](int64_t begin, int64_t end, int64_t slot) {
    char* const own = scratch + static_cast<size_t>(slot) * slot_bytes;
    const T* const y_end = y + end / parts * out + first_line(end % parts) * s.dims[2].out * s.channels;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / parts, part = i % parts;
      body(PlaneRun<T>{x + image * in, x + s.batch * in, y + image * out, y_end, reinterpret_cast<const T**>(own),
                       reinterpret_cast<T*>(own + taps_bytes), first_line(part), first_line(part + 1)});
    }
  });
  return Ok();
}

/// True if windows become lines of the output by PlanePools: neighbours are windows of planes, or of few channels.
bool pools_lines(const PoolShape& s, int64_t bytes) {
  constexpr int64_t kMostMerged = 7;  // wider dense windows of maxima take fewer steps by merge_windows()
  if (s.channels * bytes > 64) return false;
  return !is_dense(s) || s.dims[2].kernel <= kMostMerged;
}

class PoolF32 final : public Kernel {
 public:
  PoolF32(const PoolShape& s, const KernelSpec& spec)
      : s_(s.of_planes()),
        ops_(vector_ops(spec.isa)),
        pools_(plane_pools(spec.isa)),
        threads_(std::max(spec.threads, 1)),
        whole_planes_(s_.channels == 1 && s_.global()),
        taps_bytes_(rounded(s.taps() * 8)),
        plane_(whole_planes_ ? 0 : plane_elements(s_)),
        by_lines_(!whole_planes_ && plane_ == 0 && pools_lines(s_, sizeof(float))),
        slot_bytes_(taps_bytes_ + rounded(std::max({plane_, merged_elements(s_),
                                                    by_lines_ ? plane_line_elements(s_) * plane_lines(s_, 4) : 0}) *
                                              4 +
                                          128)) {
    if (!by_lines_) return;
    parts_ = parts(s_, threads_, sizeof(float));
    if (!s_.maximum) make_scales();
  }
  size_t scratch_bytes() const override { return whole_planes_ ? 0 : static_cast<size_t>(threads_) * slot_bytes_; }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t lines = s_.dims[0].out * s_.dims[1].out;
    if (whole_planes_) {
      planes(ctx.threads(), x, y);
      return Ok();
    }
    if (plane_ > 0)
      return in_slots(ctx, threads_, s_.batch, slot_bytes_, [&](int64_t unit, char* scratch) {
        merged_plane(x + unit * s_.in_pixels(), y + unit * s_.out_pixels(),
                     reinterpret_cast<float*>(scratch + taps_bytes_));
      });
    if (by_lines_)
      return each_part(ctx, s_, threads_, parts_, slot_bytes_, taps_bytes_, x, y,
                       [&](const PlaneRun<float>& run) { some_lines(run); });
    return in_slots(ctx, threads_, s_.batch * lines, slot_bytes_, [&](int64_t unit, char* scratch) {
      const float* image = x + unit / lines * s_.in_pixels() * s_.channels;
      float* to = y + unit / lines * s_.out_pixels() * s_.channels;
      auto** taps = reinterpret_cast<const float**>(scratch);
      if (is_dense(s_))
        dense_line(image, unit % lines, to, taps, reinterpret_cast<float*>(scratch + taps_bytes_));
      else
        line(image, unit % lines, to, taps);
    });
  }

 private:
  /// Of means, by PlanePools.
  void make_scales() {
    std::map<std::pair<int64_t, int64_t>, int64_t> known;  // of lines that add up and count as many
    const int64_t lines = s_.dims[0].out * s_.dims[1].out, n = s_.dims[2].out;
    std::vector<int64_t> at;
    for (int64_t index = 0; index < lines; ++index) {
      int64_t out[3] = {index / s_.dims[1].out, index % s_.dims[1].out, 0}, taken = 1, counted = 1;
      for (int d = 0; d < 2; ++d) {
        int64_t first, last;
        PoolShape::range(s_.dims[d], out[d], first, last);
        taken *= last - first;
        counted *= PoolShape::counted(s_.dims[d], out[d]);
      }
      const auto [found, added] = known.try_emplace({taken, counted}, static_cast<int64_t>(scales_.size()));
      at.push_back(found->second);
      if (!added) continue;
      for (; out[2] < n; ++out[2]) {
        int64_t first, last;
        PoolShape::range(s_.dims[2], out[2], first, last);
        scales_.push_back(static_cast<float>(1.0 / static_cast<double>(s_.divisor_at(out, taken * (last - first)))));
      }
    }
    scales_.resize(scales_.size() + 16);  // which vectors may read
    for (const int64_t i : at) scales_of_lines_.push_back(scales_.data() + i);
  }
  /// Of windows that are whole images of one channel.
  void planes(ThreadPool& pool, const float* x, float* y) const {
    constexpr int64_t kGrain = 16384;
    const int64_t n = s_.in_pixels(), first[3] = {};
    pool.parallel_for(s_.batch, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      if (s_.maximum)
        for (int64_t i = begin; i < end; ++i) y[i] = ops_.reduce_max(x + i * n, n);
      else
        ops_.mean_rows(x + begin * n, end - begin, n, static_cast<double>(s_.divisor_at(first, n)), y + begin);
      if (s_.bounded()) ops_.scale_clamp(y + begin, end - begin, 1, s_.lo, s_.hi);
    });
  }
  /// True if a window of those lines lies on NaN, or one near it.
  bool sees_nan(const PlaneRun<float>& run) const {
    const WindowDim &depth = s_.dims[0], &height = s_.dims[1];
    const int64_t row = s_.dims[2].in * s_.channels, last = run.last - 1;
    const int64_t z0 = run.first / height.out, z1 = last / height.out;
    const auto slices = under(depth, z0, z1 + 1);
    // Lines of one slice of the output see few lines of each slice of the input, lines of several see all.
    const auto lines = z0 == z1 ? under(height, run.first % height.out, last % height.out + 1)
                                : std::pair<int64_t, int64_t>(0, height.in);
    for (int64_t z = slices.first; z < slices.second; ++z)
      if (pools_.has_nan(run.x + (z * height.in + lines.first) * row, (lines.second - lines.first) * row)) return true;
    return false;
  }
  void some_lines(const PlaneRun<float>& run) const {
    if (!s_.maximum) return pools_.mean_f32(s_, {scales_of_lines_.data(), s_.lo, s_.hi}, run);
    const int64_t n = s_.dims[2].out * s_.channels;
    if (sees_nan(run)) {
      for (int64_t i = run.first; i < run.last; ++i) line(run.x, i, run.y, run.taps);
      return;
    }
    pools_.max_f32(s_, run);
    if (s_.bounded()) ops_.scale_clamp(run.y + run.first * n, (run.last - run.first) * n, 1, s_.lo, s_.hi);
  }
  void dense_line(const float* image, int64_t index, float* y, const float** taps, float* merged) const {
    const int64_t n = s_.dims[2].out * s_.channels;
    y += index * n;
    merged_line(s_, image, index, -std::numeric_limits<float>::infinity(), taps, merged, y, ops_.max_taps);
    if (s_.bounded()) ops_.scale_clamp(y, n, 1, s_.lo, s_.hi);
  }
  /// Maxima of dense windows of a plane, whose lines follow each other with their padding.
  void merged_plane(const float* image, float* y, float* merged) const {
    const WindowDim &h = s_.dims[1], &w = s_.dims[2];
    const int64_t line = padded(w);
    float* const inner = merged + h.pad_begin * line + w.pad_begin;
    float* padding = merged;
    const float lowest = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < h.in; ++i) {
      std::fill(padding, inner + i * line, lowest);
      padding = inner + i * line + w.in;
    }
    std::fill(padding, merged + plane_, lowest);
    ops_.copy_lines(image, w.in, h.in, w.in, inner, line);
    merge_windows(h, line, 0, merged, merged, ops_.max_taps);
    merge_windows(w, 1, (h.out - 1) * line, merged, merged, ops_.max_taps);
    ops_.copy_lines(merged, line, h.out, w.out, y, w.out);
    if (s_.bounded()) ops_.scale_clamp(y, s_.out_pixels(), 1, s_.lo, s_.hi);
  }
  void line(const float* image, int64_t index, float* y, const float** taps) const {
    const std::pair<int64_t, int64_t> inside = PoolShape::inside(s_.dims[2]);
    const int64_t step = s_.dims[2].stride * s_.channels;
    int64_t count = 0;
    each_pixel(s_, index, [&](int64_t pixel, const int64_t out[3]) {
      if (out[2] > inside.first && out[2] < inside.second)  // as the window before, one step on
        for (int64_t t = 0; t < count; ++t) taps[t] += step;
      else
        count = window_pixels(s_, image, out, taps);
      float* to = y + pixel * s_.channels;
      (s_.maximum ? ops_.max_taps : ops_.sum_taps)(taps, count, s_.channels, to);
      if (s_.maximum && !s_.bounded()) return;
      const float scale = s_.maximum ? 1.0f : static_cast<float>(1.0 / static_cast<double>(s_.divisor_at(out, count)));
      ops_.scale_clamp(to, s_.channels, scale, s_.lo, s_.hi);
    });
  }

  PoolShape s_;
  const VectorOps& ops_;
  const PlanePools& pools_;
  int64_t threads_;
  bool whole_planes_;
  size_t taps_bytes_;
  int64_t plane_;
  bool by_lines_;  ///< by PlanePools
  size_t slot_bytes_;
  int64_t parts_ = 1;          ///< of an image, that threads share
  std::vector<float> scales_;  ///< of means, by PlanePools
  std::vector<const float*> scales_of_lines_;
};

/// Maxima of quantized bytes, and integer means (rounded half away from zero), of channels-last images.
class PoolI8 final : public Kernel {
 public:
  PoolI8(const PoolShape& s, int lo, int hi, const KernelSpec& spec)
      : s_(s),
        ops_(vector_ops(spec.isa)),
        means_(integer_means(spec.isa)),
        pools_(plane_pools(spec.isa)),
        threads_(std::max(spec.threads, 1)),
        lo_(lo),
        hi_(hi),
        signed_(spec.inputs[0].dtype == DType::kI8),
        taps_bytes_(rounded(s.taps() * 8)),
        by_lines_(s.maximum && pools_lines(s, 1)),
        merges_(is_dense(s) ||
                (s.maximum && s.dims[0].kernel * s.dims[1].kernel > 1 && s.dims[2].stride <= s.dims[2].kernel)),
        parts_(parts(s, threads_, 1)),
        slot_bytes_(taps_bytes_ + rounded(by_lines_ ? plane_line_elements(s) * plane_lines(s, 1)
                                          : merges_ ? merged_elements(s)
                                                    : s.channels * 4)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_) * slot_bytes_; }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t lines = s_.dims[0].out * s_.dims[1].out;
    if (by_lines_)
      return each_part(ctx, s_, threads_, parts_, slot_bytes_, taps_bytes_, ctx.input(0).data<int8_t>(),
                       ctx.output(0).data<int8_t>(), [&](const PlaneRun<int8_t>& run) { some_lines(run); });
    return in_slots(ctx, threads_, s_.batch * lines, slot_bytes_, [&](int64_t unit, char* scratch) {
      const uint8_t* image = x + unit / lines * s_.in_pixels() * s_.channels;
      uint8_t* to = y + unit / lines * s_.out_pixels() * s_.channels;
      auto** taps = reinterpret_cast<const uint8_t**>(scratch);
      if (merges_)
        merged(image, unit % lines, to, taps, reinterpret_cast<uint8_t*>(scratch + taps_bytes_));
      else
        line(image, unit % lines, to, taps, reinterpret_cast<int32_t*>(scratch + taps_bytes_));
    });
  }

 private:
  bool narrow() const { return lo_ > (signed_ ? -128 : 0) || hi_ < (signed_ ? 127 : 255); }
  void clamp(uint8_t* y, int64_t n) const {
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<uint8_t>(std::clamp<int>(signed_ ? static_cast<int8_t>(y[i]) : y[i], lo_, hi_));
  }
  void some_lines(const PlaneRun<int8_t>& run) const {
    pools_.max_i8(s_, signed_, run);
    const int64_t n = s_.dims[2].out * s_.channels;
    if (narrow()) clamp(reinterpret_cast<uint8_t*>(run.y) + run.first * n, (run.last - run.first) * n);
  }
  void merged(const uint8_t* image, int64_t index, uint8_t* y, const uint8_t** taps, uint8_t* line) const {
    const int64_t n = s_.dims[2].out * s_.channels;
    y += index * n;
    merged_line(s_, image, index, static_cast<uint8_t>(signed_ ? -128 : 0), taps, line, y,
                [&](const uint8_t* const* from, int64_t count, int64_t elements, uint8_t* to) {
                  ops_.max_taps_i8(from, count, elements, signed_, to);
                });
    if (narrow()) clamp(y, n);
  }
  void line(const uint8_t* image, int64_t index, uint8_t* y, const uint8_t** taps, int32_t* sums) const {
    each_pixel(s_, index, [&](int64_t pixel, const int64_t out[3]) {
      const int64_t count = window_pixels(s_, image, out, taps);
      uint8_t* to = y + pixel * s_.channels;
      if (s_.maximum) {
        ops_.max_taps_i8(taps, count, s_.channels, signed_, to);
        if (narrow()) clamp(to, s_.channels);
        return;
      }
      if (count > 0 && count <= kMostTaps) return means_(taps, count, s_.channels, signed_, lo_, hi_, to);
      ops_.sum_taps_i8(taps, count, s_.channels, signed_, sums);
      const auto n = static_cast<int32_t>(count);
      for (int64_t c = 0; c < s_.channels; ++c) {
        const int32_t mean = sums[c] > 0 ? (sums[c] + n / 2) / n : (sums[c] - n / 2) / n;
        to[c] = static_cast<uint8_t>(std::clamp<int>(mean, lo_, hi_));
      }
    });
  }

  PoolShape s_;
  const VectorOps& ops_;
  IntegerMeans means_;
  const PlanePools& pools_;
  int64_t threads_;
  int lo_, hi_;
  bool signed_;
  size_t taps_bytes_;
  bool by_lines_;  ///< by PlanePools
  bool merges_;    ///< by merged_line()
  int64_t parts_;  ///< of an image, that threads share, by PlanePools
  size_t slot_bytes_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_pool_f32(const KernelSpec& spec) {
  const auto s = PoolShape::make(spec);
  return s ? std::make_unique<PoolF32>(*s, spec) : nullptr;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_pool_i8(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const auto& attrs = spec.attrs<PoolAttrs>();
  if (x.dtype != y.dtype || !x.quant != !y.quant) return nullptr;
  if (!x.quant && (attrs.kind != PoolKind::kMax || attrs.act.kind != ActKind::kNone)) return nullptr;
  if (x.quant && (x.quant->scales.size() != 1 || x.quant->scales != y.quant->scales ||
                  x.quant->zero_point() != y.quant->zero_point()))
    return nullptr;
  // Means in real numbers round in another way than integers.
  if (attrs.kind == PoolKind::kAverage && attrs.rounding == Rounding::kFloatHalfEven) return nullptr;
  auto s = PoolShape::make(spec);
  if (!s) return nullptr;
  s = s->of_planes();
  const auto low = static_cast<double>(int_min(y.dtype)), high = static_cast<double>(int_max(y.dtype));
  const auto place = [&](float bound) {
    if (!y.quant) return static_cast<int>(bound < 0 ? low : high);
    return static_cast<int>(
        std::clamp(static_cast<double>(std::round(bound / y.quant->scale())) + y.quant->zero_point(), low, high));
  };
  const int lo = place(s->lo), hi = std::max(lo, place(s->hi));
  return std::make_unique<PoolI8>(*s, lo, hi, spec);
}

}  // namespace smelt
