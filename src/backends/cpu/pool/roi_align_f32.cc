// Regions of images averaged in bins. The weights of a region's samples are products of a row's and a column's, which
// are the same for all channels: rows are combined first, then columns.
#include <algorithm>
#include <cmath>

#include "backends/cpu/core/kernel.h"
#include "base/thread_pool.h"
#include "ops/pool/pool.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Pixels of one dimension that bins are the weighted sums of, bin by bin.
struct BinTaps {
  int32_t* ends;  ///< behind each bin's last tap
  int32_t* pixels;
  float* weights;
  int64_t lo, hi;  ///< all pixels lie in [lo, hi)
};

class RoiAlignF32 final : public Kernel {
 public:
  explicit RoiAlignF32(const KernelSpec& spec)
      : a_(spec.attrs<RoiAttrs>()),
        channels_(spec.inputs[0].shape[1]),
        height_(spec.inputs[0].shape[2]),
        width_(spec.inputs[0].shape[3]),
        regions_(spec.inputs[1].shape[0]),
        parts_(std::min<int64_t>(spec.threads, regions_)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(parts_ * part_floats()) * sizeof(float); }
  [[gnu::cold]] Status run(KernelContext& ctx) const override {
    const Tensor& x = ctx.input(0);
    for (int64_t r = 0; r < regions_; ++r) {
      const int64_t image = image_of(ctx, r);
      if (image < 0 || image >= x.dim(0)) return InvalidInput("batch index ", image, " of a region is out of range");
    }
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return LimitReached("no memory for the taps of regions");
    const auto *planes = x.data<float>(), *boxes = ctx.input(1).data<float>();
    const int64_t region = channels_ * a_.height * a_.width;
    auto* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = regions_ * begin / parts_; r < regions_ * end / parts_; ++r)
        pool(planes + image_of(ctx, r) * channels_ * height_ * width_, boxes + r * 4, scratch + begin * part_floats(),
             y + r * region);
    });
    return Ok();
  }

 private:
  static int64_t image_of(KernelContext& ctx, int64_t region) { return ctx.has(2) ? get_int(ctx.input(2), region) : 0; }
  int64_t taps_floats(int64_t bins, int64_t size) const { return bins + 2 * bins * size; }
  /// Taps of both dimensions, the weights of a bin, and rows that are combined.
  int64_t part_floats() const {
    return padded_floats(taps_floats(a_.height, height_) + taps_floats(a_.width, width_) + std::max(height_, width_) +
                         a_.height * width_);
  }

  /// Lays out the taps of a dimension of `size` pixels, for samples of [begin, end); returns what lies behind them.
  /// `dense` has `size` elements.
  [[gnu::cold]] float* find_taps(float begin, float end, int64_t bins, int64_t size, float* dense, float* memory,
                                 BinTaps& taps) const {
    taps = {reinterpret_cast<int32_t*>(memory), reinterpret_cast<int32_t*>(memory + bins), memory + bins + bins * size,
            size, 0};
    const float extent = a_.half_pixel ? end - begin : std::max(end - begin, 1.0f);
    const float bin = extent / static_cast<float>(bins), last = static_cast<float>(size - 1);
    const int64_t samples = roi_samples(a_.sampling_ratio, bin, size);
    const float share = 1 / static_cast<float>(samples);
    int32_t count = 0;
    for (int64_t b = 0; b < bins; ++b) {
      std::fill_n(dense, size, 0.0f);
      int64_t lo = size, hi = 0;
      for (int64_t s = 0; s < samples; ++s) {
        const float at =
            begin + static_cast<float>(b) * bin + (static_cast<float>(s) + 0.5f) * bin / static_cast<float>(samples);
        if (!(at >= -1.0f && at <= static_cast<float>(size))) continue;
        const float inside = std::clamp(at, 0.0f, last);
        const auto pixel = static_cast<int64_t>(inside), next = std::min(pixel + 1, size - 1);
        const float part = inside - static_cast<float>(pixel);
        dense[pixel] += (1 - part) * share;
        dense[next] += part * share;
        lo = std::min(lo, pixel);
        hi = std::max(hi, next + 1);
      }
      for (int64_t i = lo; i < hi; ++i) {
        if (dense[i] == 0) continue;
        taps.pixels[count] = static_cast<int32_t>(i);
        taps.weights[count++] = dense[i];
      }
      taps.lo = std::min(taps.lo, lo);
      taps.hi = std::max(taps.hi, hi);
      taps.ends[b] = count;
    }
    return memory + taps_floats(bins, size);
  }

  void pool(const float* plane, const float* box, float* scratch, float* y) const {
    const float offset = a_.half_pixel ? 0.5f : 0.0f, scale = static_cast<float>(a_.scale);
    const auto edge = [&](int i) { return box[i] * scale - offset; };
    float* const dense = scratch;
    float* memory = scratch + std::max(height_, width_);
    BinTaps rows, columns;
    memory = find_taps(edge(1), edge(3), a_.height, height_, dense, memory, rows);
    memory = find_taps(edge(0), edge(2), a_.width, width_, dense, memory, columns);
    for (int64_t c = 0; c < channels_; ++c, plane += height_ * width_, y += a_.height * a_.width) {
      int32_t row = 0;
      for (int64_t i = 0; i < a_.height; ++i) {
        combine_rows(plane, rows, row, rows.ends[i], columns, memory);
        combine_columns(memory, columns, y + i * a_.width);
        row = rows.ends[i];
      }
    }
  }
  /// line[x] = weighted sum of the rows of taps [first, end), for the columns that are asked for.
  void combine_rows(const float* plane, const BinTaps& rows, int32_t first, int32_t end, const BinTaps& columns,
                    float* line) const {
    const int64_t lo = columns.lo, n = columns.hi - lo;
    if (n <= 0) return;
    line += lo;
    if (first == end) std::fill_n(line, n, 0.0f);
    for (int32_t t = first; t < end; ++t) {
      const float weight = rows.weights[t];
      const float* from = plane + rows.pixels[t] * width_ + lo;
      if (t == first)
        for (int64_t x = 0; x < n; ++x) line[x] = weight * from[x];
      else
        for (int64_t x = 0; x < n; ++x) line[x] += weight * from[x];
    }
  }
  void combine_columns(const float* line, const BinTaps& columns, float* y) const {
    int32_t t = 0;
    for (int64_t j = 0; j < a_.width; ++j) {
      float sum = 0;
      for (; t < columns.ends[j]; ++t) sum += columns.weights[t] * line[columns.pixels[t]];
      y[j] = sum;
    }
  }

  RoiAttrs a_;
  int64_t channels_, height_, width_, regions_, parts_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_roi_align_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<RoiAttrs>();
  const Shape &x = spec.inputs[0].shape, &rois = spec.inputs[1].shape;
  constexpr int64_t kMostTaps = 1 << 20;
  if (a.max || a.legacy || a.crop_and_resize) return spec.refuse("maxima, or boxes of another operator");
  if (a.sampling_ratio > 4096 || x.elements() == 0 || rois[0] == 0 ||
      std::max(a.height, a.width) * std::max(x[2], x[3]) > kMostTaps)
    return nullptr;
  if (spec.has(2) && spec.inputs[2].shape.elements() != rois[0]) return nullptr;
  return std::make_unique<RoiAlignF32>(spec);
}

}  // namespace smelt
