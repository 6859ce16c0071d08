// Convolutions of 16-bit values with 8-bit filters, channels-last (TFLite's 16x8): 32-bit accumulators of as much of k
// as they hold, sums and rescaling in 64 bits.
#include <algorithm>
#include <span>
#include <vector>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_i16.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/conv_i16.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/conv/rescale_i16.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "base/checked.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// accumulators[c] = sum over taps of taps[t][c] * weights[t * n + c].
void tap_acc(const int16_t* const* taps, int64_t count, int64_t n, const int32_t* weights, int32_t* acc) {
  const auto step = [&](auto d, int64_t c) HWY_ATTR {
    const hn::Rebind<int16_t, decltype(d)> d16;
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t)
      sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(d16, taps[t] + c)), hn::LoadU(d, weights + t * n + c)));
    hn::StoreU(sum, d, acc + c);
  };
  const hn::ScalableTag<int32_t> d;
  const hn::CappedTag<int32_t, 4> four;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) step(d, c);
  for (; c + 4 <= n; c += 4) step(four, c);
  for (; c < n; ++c) step(hn::CappedTag<int32_t, 1>(), c);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct ConvI16Key {
  FilterKey filter;
  const GemmI8* gemm;
  auto operator<=>(const ConvI16Key&) const = default;
};

/// Entries of k in a slice: whole steps of the product, as many as let 32 bits hold every slice's sums.
int64_t slice_of_k(const std::vector<int16_t>& weights, int64_t k, const GemmI8& gemm) {
  const std::span<const int16_t> all(weights);
  for (int64_t slices = 1;; ++slices) {
    const int64_t depth = ceil_div(gemm.steps(k), slices) * gemm.per_step();
    bool fits = true;
    for (int64_t row = 0; fits && row < std::ssize(all); row += k)
      for (int64_t at = 0; fits && at < k; at += depth)
        fits = fits_32_bits(all.subspan(static_cast<size_t>(row + at), static_cast<size_t>(std::min(depth, k - at))));
    if (fits || depth == gemm.per_step()) return depth;
  }
}

/// Rows of patches times packed filters, cut along k into slices whose sums 32 bits hold.
class ConvI16 final : public Kernel {
 public:
  ConvI16(const ConvShape& g, const std::vector<int16_t>& weights, RescaleI16 rescale, const KernelSpec& spec)
      : g_(g),
        bytes_(g),
        rescale_(std::move(rescale)),
        gemm_(gemm_i8(spec.isa, false)),
        threads_(std::max(spec.threads, 1)) {
    bytes_.c_in *= 2;
    lda_ = gemm_.a_row_bytes(g.k());
    block_ = std::max<int64_t>(1, 64 * 1024 / std::max<int64_t>(1, lda_ * gemm_.mr)) * gemm_.mr;
    patches_ = padded_bytes(block_ * lda_ + kPatchSlack);
    slice_ = slice_of_k(weights, g.k(), gemm_);
    slices_ = ceil_div(g.k(), slice_);
    sums_ = slices_ > 1 ? padded_bytes(block_ * g.c_out * 8) : 0;
    slice_bytes_ = gemm_.packed_bytes(slice_, g.c_out);
    packed_ = spec.packs.get(ConvI16Key{{g, *spec.constant(1), nullptr}, &gemm_}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(slice_bytes_ * slices_ * g.groups));
      std::vector<int16_t> rows(slices_ > 1 ? static_cast<size_t>(g.c_out * slice_) : 0);
      for (int64_t group = 0; group < g.groups; ++group)
        for (int64_t s = 0; s < slices_; ++s) {
          const int64_t at = s * slice_, depth = slice_depth(s);
          const int16_t* from = weights.data() + group * g.c_out * g.k();
          if (slices_ > 1) {
            for (int64_t o = 0; o < g.c_out; ++o) std::copy_n(from + o * g.k() + at, depth, rows.data() + o * depth);
            from = rows.data();
          }
          gemm_.pack(from, depth, g.c_out, nullptr, 0, packed->data<char>() + (group * slices_ + s) * slice_bytes_);
        }
      return packed;
    });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * (patches_ + sums_)); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    const int64_t blocks = (g_.out_pixels() + block_ - 1) / block_;
    for (int64_t image = 0; image < g_.batch; ++image) {
      const auto* x = ctx.input(0).data<int16_t>() + image * g_.in_pixels() * g_.all_in();
      auto* y = ctx.output(0).data<int16_t>() + image * g_.out_pixels() * g_.all_out();
      in_slots(ctx.threads(), threads_, blocks,
               [&](int64_t b, int64_t slot) { block(x, y, b, scratch + slot * (patches_ + sums_)); });
    }
    return Ok();
  }

 private:
  int64_t slice_depth(int64_t s) const { return std::min(slice_, g_.k() - s * slice_); }
  void block(const int16_t* x, int16_t* y, int64_t index, uint8_t* patches) const {
    const int64_t first = index * block_, rows = std::min(block_, g_.out_pixels() - first);
    auto* sums = reinterpret_cast<int64_t*>(patches + patches_);
    for (int64_t group = 0; group < g_.groups; ++group) {
      const auto* from = reinterpret_cast<const uint8_t*>(x + group * g_.c_in);
      im2col_rows<uint8_t>(bytes_, from, first, first + rows, 0, patches, lda_);
      int16_t* to = y + first * g_.all_out() + group * g_.c_out;
      if (slices_ == 1) {
        multiply(patches, rows, group, 0, [&](const int32_t* acc, int64_t row, int64_t column, int64_t n) {
          rescale_(acc, n, group * g_.c_out + column, to + row * g_.all_out() + column);
        });
        continue;
      }
      std::fill_n(sums, rows * g_.c_out, int64_t{0});
      for (int64_t s = 0; s < slices_; ++s)
        multiply(patches, rows, group, s, [&](const int32_t* acc, int64_t row, int64_t column, int64_t n) {
          int64_t* sum = sums + row * g_.c_out + column;
          for (int64_t i = 0; i < n; ++i) sum[i] += acc[i];
        });
      for (int64_t r = 0; r < rows; ++r)
        rescale_(sums + r * g_.c_out, g_.c_out, group * g_.c_out, to + r * g_.all_out());
    }
  }
  /// Rows of patches times slice s of a group's filters: calls done(accumulators, row, column, columns) row by row.
  template <class F>
  void multiply(const uint8_t* patches, int64_t rows, int64_t group, int64_t s, F&& done) const {
    const char* packed = packed_->data<char>() + (group * slices_ + s) * slice_bytes_;
    gemm_.run(rows, g_.c_out, slice_depth(s), patches + s * gemm_.a_row_bytes(slice_), lda_, true, packed, 0,
              gemm_.panels(g_.c_out), [&](const int32_t* acc, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
                for (int64_t r = 0; r < n_rows; ++r) done(acc + r * gemm_.nr(), row + r, column, n);
              });
  }

  ConvShape g_, bytes_;  ///< bytes_: that of two channels of bytes for each of g_
  RescaleI16 rescale_;
  const GemmI8& gemm_;
  int64_t threads_, lda_ = 0, block_ = 1, patches_ = 0, sums_ = 0;
  int64_t slices_ = 1, slice_ = 0, slice_bytes_ = 0;  ///< slice_: entries of k in a slice, the last may have fewer
  Packed packed_;
};

/// One filter a channel.
class DepthwiseI16 final : public Kernel {
 public:
  DepthwiseI16(const ConvShape& g, const std::vector<int16_t>& weights, RescaleI16 rescale, const KernelSpec& spec)
      : g_(g),
        rescale_(std::move(rescale)),
        acc_(SMELT_FOR_LEVEL(spec.isa, tap_acc)),
        threads_(std::max(spec.threads, 1)) {
    weights_.resize(weights.size());
    for (int64_t c = 0; c < g.groups; ++c)
      for (int64_t t = 0; t < g.taps(); ++t)
        weights_[static_cast<size_t>(t * g.groups + c)] = weights[static_cast<size_t>(c * g.taps() + t)];
    slot_ = padded_bytes(g.groups * 4);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_ + padded_bytes(g_.groups * 2)); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a depthwise convolution");
    auto* zeros = reinterpret_cast<int16_t*>(scratch + threads_ * slot_);
    std::fill_n(zeros, g_.groups, int16_t{0});
    const int64_t lines = g_.out[0] * g_.out[1];
    in_slots(ctx.threads(), threads_, g_.batch * lines, [&](int64_t i, int64_t slot) {
      line(ctx.input(0).data<int16_t>() + i / lines * g_.in_pixels() * g_.groups, i % lines, zeros,
           reinterpret_cast<int32_t*>(scratch + slot * slot_),
           ctx.output(0).data<int16_t>() + i * g_.out[2] * g_.groups);
    });
    return Ok();
  }
  static constexpr int64_t kMaxTaps = 128;

 private:
  void line(const int16_t* x, int64_t index, const int16_t* zeros, int32_t* acc, int16_t* y) const {
    const int16_t* taps[kMaxTaps];
    const int64_t z0 = index / g_.out[1] * g_.stride[0] - g_.pad[0], y0 = index % g_.out[1] * g_.stride[1] - g_.pad[1];
    for (int64_t ox = 0; ox < g_.out[2]; ++ox, y += g_.groups) {
      int64_t n = 0;
      for (int64_t kz = 0; kz < g_.kernel[0]; ++kz)
        for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
          const int64_t iz = z0 + kz * g_.dilation[0], iy = y0 + ky * g_.dilation[1];
          const bool inside = iz >= 0 && iz < g_.in[0] && iy >= 0 && iy < g_.in[1];
          for (int64_t kx = 0; kx < g_.kernel[2]; ++kx) {
            const int64_t ix = ox * g_.stride[2] - g_.pad[2] + kx * g_.dilation[2];
            taps[n++] =
                inside && ix >= 0 && ix < g_.in[2] ? x + ((iz * g_.in[1] + iy) * g_.in[2] + ix) * g_.groups : zeros;
          }
        }
      acc_(taps, n, g_.groups, weights_.data(), acc);
      rescale_(acc, g_.groups, 0, y);
    }
  }

  ConvShape g_;
  RescaleI16 rescale_;
  void (*acc_)(const int16_t* const*, int64_t, int64_t, const int32_t*, int32_t*);
  int64_t threads_, slot_ = 0;
  std::vector<int32_t> weights_;  ///< [tap][channel]
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_i16_kernel(const KernelSpec& spec, const ConvShape& g, int axis,
                                                      const RescaleRule& rule) {
  const auto q = pair_of_i16(spec, axis, g.all_out());
  if (!q || g.k() == 0) return spec.refuse("other quantization parameters than 16-bit values by 8-bit filters have");
  auto rescale = RescaleI16::make(spec, g.all_out(), rule);
  if (!rescale) return spec.refuse("a rescaling in real numbers");
  const auto weights = ordered_filter(g, *spec.constant(1), q->w_zeros);
  release_pages(*spec.constant(1));
  if (g.depthwise() && g.c_out == 1 && g.taps() <= DepthwiseI16::kMaxTaps)
    return std::make_unique<DepthwiseI16>(g, weights, std::move(*rescale), spec);
  return std::make_unique<ConvI16>(g, weights, std::move(*rescale), spec);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g) return spec.refuse("a geometry that no kernel takes");
  return make_i16_kernel(spec, *g, filter_output_axis(attrs, spec.inputs[1].shape.rank()), attrs.rescale_rule());
}

}  // namespace smelt
#endif
