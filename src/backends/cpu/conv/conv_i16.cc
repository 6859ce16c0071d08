// Convolutions of 16-bit values with 8-bit filters, channels-last (TFLite's 16x8): 32-bit accumulators of bytes, or of
// as much of k as they hold, sums and rescaling in 64 bits.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_i16.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/conv_i16.h"
#include "backends/cpu/conv/depthwise_shape.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/conv/rescale_i16.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "base/checked.h"
#include "tensor/pages.h"

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
  for_lanes<int32_t>(n, step);
}

/// The low bytes of n numbers, and the high ones plus 128.
void split_bytes(const int16_t* x, int64_t n, uint8_t* low, uint8_t* high) {
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto flip = hn::Set(d, 0x8000);
  const auto* from = reinterpret_cast<const uint16_t*>(x);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    hn::StoreU(hn::TruncateTo(d8, v), d8, low + i);
    hn::StoreU(hn::TruncateTo(d8, hn::ShiftRight<8>(hn::Xor(v, flip))), d8, high + i);
  }
  for (; i < n; ++i) {
    low[i] = static_cast<uint8_t>(from[i]);
    high[i] = static_cast<uint8_t>((from[i] ^ 0x8000) >> 8);
  }
}

/// sums[i] = low[i] + 256 * high[i] for i < n, and up to the next whole vector.
void join_sums(const int32_t* low, const int32_t* high, int64_t n, int64_t* sums) {
  const hn::ScalableTag<int64_t> d;
  const hn::Rebind<int32_t, decltype(d)> d32;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Add(hn::PromoteTo(d, hn::LoadU(d32, low + i)),
                       hn::ShiftLeft<8>(hn::PromoteTo(d, hn::LoadU(d32, high + i)))),
               d, sums + i);
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

/// Rows of patches times packed filters of int8, where products take bytes. Each row of patches is two rows of bytes,
/// the low ones and the high ones plus 128.
class ConvI16OfBytes final : public Kernel {
 public:
  /// True if this strategy pays off for the shape: splitting patches and joining sums costs little beside the product.
  static bool is_profitable(const ConvShape& g, Isa isa) {
    constexpr int64_t kMostK = 65536;  // products of bytes whose sums 32 bits hold
    constexpr int64_t kLeastWeights = 64 * 1024;
    return gemm_i8(isa, true).bytes && g.k() <= kMostK && g.k() * g.c_out >= kLeastWeights;
  }
  /// Precondition: filter_fits_int8().
  ConvI16OfBytes(const ConvShape& g, const std::vector<int32_t>& w_zeros, RescaleI16 rescale, const KernelSpec& spec)
      : g_(g),
        bytes_(g),
        rescale_(std::move(rescale)),
        gemm_(gemm_i8(spec.isa, true)),
        split_(SMELT_FOR_LEVEL(spec.isa, split_bytes)),
        join_(SMELT_FOR_LEVEL(spec.isa, join_sums)),
        threads_(std::max(spec.threads, 1)) {
    constexpr int64_t kPatchBytes = 192 * 1024, kRawBytes = 16 * 1024;
    bytes_.c_in *= 2;
    lda_ = gemm_.a_row_bytes(g.k());
    const int64_t most = std::max<int64_t>(1, kPatchBytes / (lda_ * gemm_.mr)) * pixels_of_tile();
    block_ = ceil_div(g.out_pixels(), std::max(ceil_div(g.out_pixels(), most), threads_));
    if (!g.pointwise()) raw_rows_ = std::clamp<int64_t>(kRawBytes / (g.k() * 2), 1, block_);
    raw_ = padded_bytes((raw_rows_ * g.k() + kPatchSlack) * 2);
    slot_ = raw_ + padded_bytes(2 * block_ * lda_);
    const Tensor& filter = *spec.constant(1);
    packed_ = spec.packs.get(ConvI16Key{{g, filter, nullptr}, &gemm_}, [&] {
      return is_ordered_filter(g, filter, w_zeros) ? pack(static_cast<const int8_t*>(elements_once(filter).get()))
                                                   : pack(ordered_filter_int8(g, filter, w_zeros).data());
    });
    if (spec.packs.mode() == PackCache::Mode::kDry) return;
    const auto* sums = reinterpret_cast<const int32_t*>(packed_->data<char>() + panels_bytes());
    for (int64_t c = 0; c < g.all_out(); ++c) rescale_.add_to_bias(c, int64_t{-128} * 256 * sums[c]);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    const int64_t blocks = ceil_div(g_.out_pixels(), block_);
    in_slots(ctx.threads(), threads_, g_.batch * blocks, [&](int64_t i, int64_t slot) {
      const int64_t image = i / blocks, first = i % blocks * block_, last = std::min(first + block_, g_.out_pixels());
      const auto* x = ctx.input(0).data<int16_t>() + image * g_.in_pixels() * g_.all_in();
      auto* y = ctx.output(0).data<int16_t>() + (image * g_.out_pixels() + first) * g_.all_out();
      uint8_t* const raw = scratch + slot * slot_;
      for (int64_t group = 0; group < g_.groups; ++group) {
        split_patches(x + group * g_.c_in, first, last, raw, raw + raw_);
        multiply(raw + raw_, last - first, group, y);
      }
    });
    return Ok();
  }

 private:
  int64_t pixels_of_tile() const { return gemm_.mr / 2; }
  int64_t panels_bytes() const { return padded_bytes(g_.groups * gemm_.packed_bytes(g_.k(), g_.c_out)); }
  /// Packs an ordered filter. Behind it lie the sums of the weights of each channel.
  [[gnu::cold]] Packed pack(const int8_t* weights) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(panels_bytes() + g_.all_out() * 4));
    auto* sums = reinterpret_cast<int32_t*>(packed->data<char>() + panels_bytes());
    for (int64_t group = 0; group < g_.groups; ++group) {
      const int8_t* const from = weights + group * g_.c_out * g_.k();
      for (int64_t o = 0; o < g_.c_out; ++o)
        *sums++ = gemm_.sum_bytes(reinterpret_cast<const uint8_t*>(from + o * g_.k()), g_.k(), true);
      gemm_.pack(from, g_.k(), g_.c_out, nullptr, 0,
                 packed->data<char>() + group * gemm_.packed_bytes(g_.k(), g_.c_out));
    }
    return packed;
  }
  /// Rows of the patches of output pixels [first, last). `raw`: memory for raw_rows_ of them as they are.
  void split_patches(const int16_t* x, int64_t first, int64_t last, uint8_t* raw, uint8_t* rows) const {
    const int64_t step = g_.pointwise() ? last - first : raw_rows_;
    for (int64_t at = first; at < last; at += step) {
      const int64_t count = std::min(step, last - at);
      if (!g_.pointwise())
        im2col_rows<uint8_t>(bytes_, reinterpret_cast<const uint8_t*>(x), at, at + count, 0, raw, 2 * g_.k());
      for (int64_t r = 0; r < count; ++r, rows += 2 * lda_)
        split_(g_.pointwise() ? x + (at + r) * g_.all_in() : reinterpret_cast<int16_t*>(raw) + r * g_.k(), g_.k(), rows,
               rows + lda_);
    }
  }
  void multiply(const uint8_t* patches, int64_t pixels, int64_t group, int16_t* y) const {
    alignas(64) int32_t acc[GemmI8::kMaxTile];
    alignas(64) int64_t sums[GemmI8::kMaxTile / 2];
    TileState state;
    const EvenTiles tiles(pixels, pixels_of_tile());
    const int64_t nr = gemm_.nr(), panels = gemm_.panels(g_.c_out), steps = gemm_.steps(g_.k());
    const char* const packed = packed_->data<char>() + group * gemm_.packed_bytes(g_.k(), g_.c_out);
    for (int64_t p = 0; p < panels; ++p) {
      const bool wide = gemm_.width(g_.c_out, p) > gemm_.lanes, prefetches = p + 1 < panels;
      const int64_t column = group * g_.c_out + p * nr, n = std::min(nr, g_.c_out - p * nr);
      const char* const panel = packed + gemm_.panel_offset(g_.k(), p);
      const char* const next = packed + gemm_.panel_offset(g_.k(), prefetches ? p + 1 : 0);
      state.bring(next, prefetches ? gemm_.panel_offset(g_.k(), 1) : 0, tiles.count * steps);
      for (int64_t t = 0, i = 0, here = 0; t < tiles.count; ++t, i += here) {
        here = tiles.rows(t);
        const void* const rows = patches + i * 2 * lda_;
        const auto& of_width = (prefetches && t == 0 ? gemm_.prefetching_tiles : gemm_.tiles)[0][wide];
        of_width[static_cast<size_t>(2 * here - 1)](&rows, 1, lda_, panel, steps, acc, next, state);
        for (int64_t r = 0; r < here; ++r) {
          join_(acc + 2 * r * nr, acc + (2 * r + 1) * nr, n, sums);
          rescale_(sums, n, column, y + (i + r) * g_.all_out() + column);
        }
      }
    }
  }

  ConvShape g_, bytes_;  ///< bytes_: that of two channels of bytes for each of g_
  RescaleI16 rescale_;
  const GemmI8& gemm_;
  void (*split_)(const int16_t*, int64_t, uint8_t*, uint8_t*);
  void (*join_)(const int32_t*, const int32_t*, int64_t, int64_t*);
  int64_t threads_, lda_ = 0, block_ = 1, raw_rows_ = 0, raw_ = 0, slot_ = 0;
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

 private:
  void line(const int16_t* x, int64_t index, const int16_t* zeros, int32_t* acc, int16_t* y) const {
    const int16_t* taps[kMostDepthwiseTaps];
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
  const bool depthwise = g.depthwise() && g.c_out == 1 && g.taps() <= kMostDepthwiseTaps;
  const Tensor& filter = *spec.constant(1);
  std::unique_ptr<Kernel> kernel;
  if (!depthwise && ConvI16OfBytes::is_profitable(g, spec.isa) && filter_fits_int8(g, filter, q->w_zeros)) {
    kernel = std::make_unique<ConvI16OfBytes>(g, q->w_zeros, std::move(*rescale), spec);
  } else {
    const auto weights = ordered_filter(g, filter, q->w_zeros);
    if (depthwise)
      kernel = std::make_unique<DepthwiseI16>(g, weights, std::move(*rescale), spec);
    else
      kernel = std::make_unique<ConvI16>(g, weights, std::move(*rescale), spec);
  }
  release_pages(filter);
  return kernel;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g) return spec.refuse("a geometry that no kernel takes");
  return make_i16_kernel(spec, *g, filter_output_axis(attrs, spec.inputs[1].shape.rank()), attrs.rescale_rule());
}

}  // namespace smelt
#endif
