// Transposed convolutions of channels-last images line by line: the products of input lines with the filter of all taps
// are kept as long as output lines need them, and each output pixel adds up those that reach it; of few channels, each
// input pixel adds its products, which lie side by side, to a line of sums. Of one filter a channel nothing is kept:
// each output pixel multiplies the input pixels that reach it.
#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_transpose_lines_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/conv_transpose.h"
#include "backends/cpu/conv/conv_transpose_f32.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vectors-inl.h"
#include "base/checked.h"

#ifndef SMELT_CPU_CONV_TRANSPOSE_LINES_F32
#define SMELT_CPU_CONV_TRANSPOSE_LINES_F32
namespace smelt {
/// The products that output pixels of a line add up.
struct ReachingProducts {
  const float* const* lines;  ///< products of an input line with a line of the filter
  int64_t count;              ///< of `lines`
  const int64_t *begin, *at;  ///< pixel x adds up lines[i] + at[k] - first, k in [begin[x], begin[x + 1])
  int64_t first;
  int64_t channels;
  int64_t step;       ///< from one output pixel to the next
  const float* bias;  ///< one a channel
  float lo, hi;
  const float* const* weights = nullptr;  ///< not null: what it adds up is multiplied by weights[i] + weight_at[k]
  const int64_t* weight_at = nullptr;
};
struct TransposeLineOps {
  /// Output pixels [first, last) of a line.
  void (*gather)(const ReachingProducts& p, int64_t first, int64_t last, float* y);
  /// sums[i * step + j] += from[i * stride + j], j < n, for `pixels` values of i. n > 0
  void (*spread)(const float* from, int64_t stride, int64_t pixels, int64_t n, int64_t step, float* sums);
  /// y[i] = clamp(x[i], lo, hi)
  void (*clamped)(const float* x, int64_t n, float lo, float hi, float* y);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void add_reaching_products(const ReachingProducts& p, int64_t first, int64_t last, float* y) {
  for (int64_t x = first; x < last; ++x, y += p.step)
    each_vector(p.channels, [&](auto part, int64_t c) HWY_ATTR {
      const auto d = part.d;
      auto sum = part.load(p.bias + c);
      for (int64_t i = 0; i < p.count; ++i) {
        const float* const line = p.lines[i] + (c - p.first);
        if (p.weights) {
          const float* const weights = p.weights[i] + c;
          for (int64_t k = p.begin[x]; k < p.begin[x + 1]; ++k)
            sum = hn::MulAdd(part.load(line + p.at[k]), part.load(weights + p.weight_at[k]), sum);
        } else {
          for (int64_t k = p.begin[x]; k < p.begin[x + 1]; ++k) sum = hn::Add(sum, part.load(line + p.at[k]));
        }
      }
      part.store(clamp(sum, hn::Set(d, p.lo), hn::Set(d, p.hi)), y + c);
    });
}

/// Pixels whose runs do not overlap follow one another: no load waits for the store before it. Vectors are whole, too:
/// a load waits long for a store by a mask.
void spread_products(const float* from, int64_t stride, int64_t pixels, int64_t n, int64_t step, float* sums) {
  const int64_t apart = (n + step - 1) / step + 1;
  for (int64_t first = 0; first < std::min(apart, pixels); ++first)
    for (int64_t i = first; i < pixels; i += apart) {
      const float* const x = from + i * stride;
      float* const y = sums + i * step;
      for_lanes<float>(n, [&](auto d, int64_t j)
                              HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, y + j), hn::LoadU(d, x + j)), d, y + j); });
    }
}

void clamped_line(const float* x, int64_t n, float lo, float hi, float* y) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    part.store(clamp(part.load(x + i), hn::Set(part.d, lo), hn::Set(part.d, hi)), y + i);
  });
}

TransposeLineOps transpose_line_ops() { return {add_reaching_products, spread_products, clamped_line}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct TransposeLinesKey {
  FilterKey filter;
  const GemmF32* gemm;
  auto operator<=>(const TransposeLinesKey&) const = default;
};
struct TransposeDepthwiseKey {
  FilterKey filter;
  auto operator<=>(const TransposeDepthwiseKey&) const = default;
};

/// Inputs [first, last) along a dimension that reach outputs.
struct Range {
  int64_t first, last;
};
/// Outputs [begin, end) of dimension d.
Range reaching(const Spread& s, int d, int64_t begin, int64_t end) {
  const int64_t low = begin + s.pad[d] - (s.kernel[d] - 1) * s.dilation[d], high = end - 1 + s.pad[d];
  const int64_t first = low <= 0 ? 0 : std::min(s.in[d], ceil_div(low, s.stride[d]));
  return {first, high < 0 ? first : std::clamp(high / s.stride[d] + 1, first, s.in[d])};
}

/// Of every output pixel of a line, [begin[x], begin[x + 1]), the input pixels that reach it and their taps.
struct ReachingPixels {
  std::vector<int64_t> begin, pixel, tap;
  /// pixel, tap: elements from one to the next.
  ReachingPixels(const Spread& s, int64_t pixel_step, int64_t tap_step) {
    for (int64_t x = 0; x < s.out[2]; ++x) {
      begin.push_back(static_cast<int64_t>(pixel.size()));
      for (int64_t k = 0; k < s.kernel[2]; ++k) {
        const int64_t from = x + s.pad[2] - k * s.dilation[2];
        if (from < 0 || from % s.stride[2] != 0 || from / s.stride[2] >= s.in[2]) continue;
        pixel.push_back(from / s.stride[2] * pixel_step);
        tap.push_back(k * tap_step);
      }
    }
    begin.push_back(static_cast<int64_t>(pixel.size()));
  }
};

constexpr int64_t kMostLines = 32;  ///< that reach an output line

/// Calls use(input line, line of the filter) for those that reach output line oy.
template <class F>
void each_reaching_line(const Spread& s, int64_t oy, F&& use) {
  const Range reach = reaching(s, 1, oy, oy + 1);
  for (int64_t iy = reach.first; iy < reach.last; ++iy) {
    const int64_t tap = oy + s.pad[1] - iy * s.stride[1];
    if (tap % s.dilation[1] == 0) use(iy, tap / s.dilation[1]);
  }
}

/// One filter a channel.
class ConvTransposeDepthwiseF32 final : public Kernel {
 public:
  static bool applies(const Spread& s) {
    return s.planar() && s.groups == s.all_in() && s.c_out == 1 && s.reaching_lines() <= kMostLines;
  }
  [[gnu::cold]] ConvTransposeDepthwiseF32(const Spread& s, const KernelSpec& spec)
      : s_(s),
        act_(spec.attrs<ConvTransposeAttrs>().act),
        ops_(SMELT_FOR_LEVEL(spec.isa, transpose_line_ops)()),
        reaching_(s, s.groups, s.groups),
        zeros_(spec.has(2) ? 0 : static_cast<size_t>(s.groups)) {
    packed_ = spec.packs.get(TransposeDepthwiseKey{{s, *spec.constant(1), nullptr}}, [&] {
      const Tensor given = spec.constant(1)->read_once();
      const auto* filter = given.data<float>();
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(s.taps() * s.groups) * sizeof(float));
      float* to = packed->data<float>();
      for (int64_t t = 0; t < s.taps(); ++t)
        for (int64_t c = 0; c < s.groups; ++c) *to++ = filter[s.at(c, 0, 0, t)];
      return packed;
    });
  }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const float* bias = zeros_.empty() ? ctx.input(2).data<float>() : zeros_.data();
    const EpilogueRun epilogue(epilogue_, ctx);
    const Bounds bounds = activation_bounds(act_);
    const int64_t n = s_.groups, row = s_.kernel[2] * n;
    ctx.threads().parallel_for(s_.batch * s_.out[1], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float *lines[kMostLines], *weights[kMostLines];
        int64_t count = 0;
        each_reaching_line(s_, i % s_.out[1], [&](int64_t iy, int64_t ky) {
          lines[count] = x + (i / s_.out[1] * s_.in[1] + iy) * s_.in[2] * n;
          weights[count++] = packed_->data<float>() + ky * row;
        });
        float* const to = y + i * s_.out[2] * n;
        ops_.gather({lines, count, reaching_.begin.data(), reaching_.pixel.data(), 0, n, n, bias, bounds.lo, bounds.hi,
                     weights, reaching_.tap.data()},
                    0, s_.out[2], to);
        apply_activation(act_, to, s_.out[2], n, n);
        if (epilogue) epilogue(to, s_.out[2], n, n);
      }
    });
    return Ok();
  }

 private:
  Spread s_;
  Activation act_;
  EpilogueF32 epilogue_;
  TransposeLineOps ops_;
  ReachingPixels reaching_;
  std::vector<float> zeros_;  ///< where there is no bias
  Packed packed_;
};

class ConvTransposeLinesF32 final : public Kernel {
 public:
  static bool applies(const Spread& s) { return s.planar() && s.reaching_lines() <= kMostLines; }
  [[gnu::cold]] ConvTransposeLinesF32(const Spread& s, const KernelSpec& spec)
      : s_(s),
        gemm_(gemm_f32(spec.isa)),
        act_(spec.attrs<ConvTransposeAttrs>().act),
        ops_(SMELT_FOR_LEVEL(spec.isa, transpose_line_ops)()),
        threads_(std::max(spec.threads, 1)),
        has_bias_(spec.has(2)),
        spreads_(s.c_out <= kFewChannels && s.dilation[2] == 1),
        zeros_(static_cast<size_t>(s.all_out())),
        reaching_(s, s.columns(), s.c_out) {
    // Where products are spread, the order of additions follows from where a stretch begins.
    choose_blocks(spreads_ && spec.isa.has(IsaFeature::kOneOrder) ? 1 : threads_);
    for (size_t i = 0; i < reaching_.pixel.size(); ++i) reaching_.pixel[i] += reaching_.tap[i];
    packed_ = spec.packs.get(TransposeLinesKey{{s, *spec.constant(1), nullptr}, &gemm_}, [&] {
      Packed packed = pack(spec.constant(1)->read_once());
      release_pages(*spec.constant(1));
      return packed;
    });
  }
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return s_.groups == 1 && clamps(act_) && epilogue_.take(epilogue);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the products of a transposed convolution");
    const int64_t images = s_.batch * stretches_;
    const int64_t parts = std::clamp<int64_t>(ceil_div(threads_, images), 1, s_.out[1]);
    const Run r{ctx.input(0).data<float>(), ctx.output(0).data<float>(),
                has_bias_ ? ctx.input(2).data<float>() : zeros_.data(), EpilogueRun(epilogue_, ctx)};
    in_slots(ctx.threads(), threads_, images * parts, [&](int64_t unit, int64_t slot) {
      const int64_t part = unit % parts;
      for (int64_t g = 0; g < s_.groups; ++g)
        stretch(r, g, unit / parts, s_.out[1] * part / parts, s_.out[1] * (part + 1) / parts, scratch + slot * slot_);
    });
    return Ok();
  }

 private:
  static constexpr int64_t kFewChannels = 8;
  struct Run {
    const float* x;
    float* y;
    const float* bias;
    EpilogueRun epilogue;
  };
  /// The input pixels that are multiplied for a stretch: whole lines for the only one.
  Range pixels_of(int64_t begin, int64_t end) const {
    return stretches_ == 1 ? Range{0, s_.in[2]} : reaching(s_, 2, begin, end);
  }
  /// Stretches of output lines whose products stay in the level-2 cache, and blocks of input lines that are multiplied
  /// at a time.
  void choose_blocks(int64_t threads) {
    constexpr int64_t kFloats = 96 * 1024;
    const int64_t a_pixel = s_.columns() * s_.reaching_lines() / std::max<int64_t>(1, s_.stride[2]);
    const int64_t most = std::max(kSpreadRows * s_.stride[2], kFloats / std::max<int64_t>(1, a_pixel));
    // Threads share the pixels of a line where lines are fewer.
    const int64_t shares = std::min(ceil_div(threads, s_.batch * s_.out[1]), s_.out[2] / (kSpreadRows * s_.stride[2]));
    stretches_ = std::max(ceil_div(s_.out[2], most), shares);
    stretch_ = ceil_div(s_.out[2], stretches_);
    if (stretches_ == 1) lines_ = std::max<int64_t>(1, std::min(s_.in[1], kSpreadRows / s_.in[2]));
    blocks_ = ceil_div(s_.reaching_lines() - 1, lines_) + 1;
    for (int64_t i = 0; i < stretches_; ++i) {
      const Range of = pixels_of(i * stretch_, std::min(s_.out[2], (i + 1) * stretch_));
      line_ = std::max(line_, (of.last - of.first) * s_.columns());
    }
    sums_at_ = round_up(blocks_ * lines_ * line_, 16) + 16;
    // What the products reach and what is asked for.
    const int64_t sums = (line_ / s_.columns() + 1) * s_.stride[2] + s_.kernel[2] + stretch_ + s_.pad[2];  // pixels
    slot_ = sums_at_ + (spreads_ ? round_up(sums * s_.c_out, 16) : 0);
  }
  int64_t group_floats() const { return gemm_.packed_size(s_.c_in, s_.columns()); }
  Packed pack(const Tensor& weights) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(s_.groups * group_floats()) * sizeof(float));
    for (int64_t g = 0; g < s_.groups; ++g)
      pack_by_taps(s_, gemm_, weights.data<float>(), g, packed->data<float>() + g * group_floats());
    return packed;
  }
  /// Lines [top, bottom) of a stretch of an output image, of the filters of group g.
  void stretch(const Run& r, int64_t g, int64_t unit, int64_t top, int64_t bottom, float* products) const {
    const int64_t image = unit / stretches_, begin = unit % stretches_ * stretch_;
    const int64_t end = std::min(begin + stretch_, s_.out[2]), all = s_.all_out();
    const Range pixels = pixels_of(begin, end);
    const Bounds bounds = activation_bounds(act_);
    const float* const bias = r.bias + g * s_.c_out;
    int64_t next = 0;  // the first block that is not multiplied yet
    for (int64_t oy = top; oy < bottom; ++oy) {
      const Range reach = reaching(s_, 1, oy, oy + 1);
      next = std::max(next, reach.first / lines_);
      for (; next * lines_ < reach.last; ++next) multiply(r.x, g, image, next, pixels, products);
      const float* lines[kMostLines];
      int64_t n = 0;
      each_reaching_line(s_, oy, [&](int64_t iy, int64_t ky) {
        lines[n++] = products + line_of(iy) * line_ + ky * s_.kernel[2] * s_.c_out;
      });
      float* const to = r.y + ((image * s_.out[1] + oy) * s_.out[2] + begin) * all + g * s_.c_out;
      if (spreads_)
        spread(bias, lines, n, pixels, begin, end, products + sums_at_, to);
      else
        ops_.gather({lines, n, reaching_.begin.data(), reaching_.pixel.data(), pixels.first * s_.columns(), s_.c_out,
                     all, bias, bounds.lo, bounds.hi},
                    begin, end, to);
      apply_activation(act_, to, end - begin, s_.c_out, all);
      if (r.epilogue) r.epilogue(to, end - begin, s_.c_out, s_.c_out);
    }
  }
  /// Output pixels [begin, end) of a line from the products of `pixels` in n lines.
  void spread(const float* bias, const float* const* lines, int64_t n, const Range& pixels, int64_t begin, int64_t end,
              float* sums, float* y) const {
    const Bounds bounds = activation_bounds(act_);
    const int64_t count = pixels.last - pixels.first, start = pixels.first * s_.stride[2] - s_.pad[2];
    const int64_t first = std::min(start, begin), last = std::max(end, start + count * s_.stride[2] + s_.kernel[2]);
    float* const sums_of = sums + (start - first) * s_.c_out;
    const int64_t all = (last - first) * s_.c_out;
    std::copy_n(bias, s_.c_out, sums);
    for (int64_t filled = s_.c_out; filled < all; filled *= 2)
      std::copy_n(sums, std::min(filled, all - filled), sums + filled);
    for (int64_t i = 0; i < n; ++i)
      ops_.spread(lines[i], s_.columns(), count, s_.kernel[2] * s_.c_out, s_.stride[2] * s_.c_out, sums_of);
    // The channels of one group lie apart.
    const int64_t runs = s_.groups == 1 ? 1 : end - begin, run = (end - begin) / runs * s_.c_out;
    for (int64_t i = 0; i < runs; ++i)
      ops_.clamped(sums + (begin - first) * s_.c_out + i * run, run, bounds.lo, bounds.hi, y + i * s_.all_out());
  }
  int64_t line_of(int64_t iy) const { return iy / lines_ % blocks_ * lines_ + iy % lines_; }
  /// A block of input lines times the filter.
  void multiply(const float* x, int64_t g, int64_t image, int64_t block, const Range& pixels, float* products) const {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    const int64_t top = block * lines_, n = std::min(lines_, s_.in[1] - top) * (pixels.last - pixels.first);
    if (n == 0) return;
    const int64_t pixel = (image * s_.in[1] + top) * s_.in[2] + pixels.first;
    gemm_.run(n, s_.columns(), s_.c_in, x + pixel * s_.all_in() + g * s_.c_in, s_.all_in(),
              packed_->data<float>() + g * group_floats(), 0, gemm_.panels(s_.columns()),
              products + line_of(top) * line_, s_.columns(), nullptr, -kInf, kInf);
  }

  Spread s_;
  const GemmF32& gemm_;
  Activation act_;
  EpilogueF32 epilogue_;
  TransposeLineOps ops_;
  int64_t threads_;
  bool has_bias_, spreads_;
  int64_t stretches_ = 1, stretch_ = 1;        ///< output pixels of a line at a time
  int64_t lines_ = 1, blocks_ = 1;             ///< input lines of a block, blocks that are kept
  int64_t line_ = 0, sums_at_ = 0, slot_ = 0;  ///< floats of a line's products; before its sums; of a thread
  std::vector<float> zeros_;
  ReachingPixels reaching_;  ///< pixel: with its tap
  Packed packed_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_transpose_lines(const Spread& s, const KernelSpec& spec) {
  if (ConvTransposeDepthwiseF32::applies(s)) return std::make_unique<ConvTransposeDepthwiseF32>(s, spec);
  return ConvTransposeLinesF32::applies(s) ? std::make_unique<ConvTransposeLinesF32>(s, spec) : nullptr;
}

}  // namespace smelt
#endif
