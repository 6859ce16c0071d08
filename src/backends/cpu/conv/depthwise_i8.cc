#include <algorithm>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/depthwise_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/depthwise_shape.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/copy/transpose_bytes.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/pairs-inl.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "base/checked.h"
#include "ops/common/quantized_pair.h"
#include "ops/conv/conv_shape.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Stores accumulators that interleaving left in halves of 128-bit blocks, in the order of channels.
HWY_INLINE void store_in_order(VI lower, VI upper, int32_t* to) {
  const DI d;
#if HWY_TARGET == HWY_AVX3
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  hn::StoreU(VI{_mm512_permutex2var_epi64(lower.raw, first, upper.raw)}, d, to);
  hn::StoreU(VI{_mm512_permutex2var_epi64(lower.raw, last, upper.raw)}, d, to + 16);
#elif HWY_TARGET == HWY_AVX2
  hn::StoreU(VI{_mm256_permute2x128_si256(lower.raw, upper.raw, 0x20)}, d, to);
  hn::StoreU(VI{_mm256_permute2x128_si256(lower.raw, upper.raw, 0x31)}, d, to + 8);
#else
  hn::StoreU(lower, d, to);
  hn::StoreU(upper, d, to + hn::Lanes(d));
#endif
}

template <class T>
HWY_INLINE VS load_wide(const uint8_t* from) {
  const DS d;
  const hn::Rebind<T, DS> d8;
  return hn::PromoteTo(d, hn::LoadU(d8, reinterpret_cast<const T*>(from)));
}

/// Accumulators of `count` output pixels over all channels, whose taps lie `step` bytes apart. Taps come in pairs;
/// `packed` holds for each block of channels its addends and then two vectors of interleaved weights a pair. Blocks of
/// DS's lanes; the last one ends at the last channel. kPairs: of taps; 0: `pairs`.
template <class T, bool kVnni, int kPairs>
void pixels(const uint8_t* const* taps, int64_t pairs, int64_t channels, const int16_t* packed, int64_t count,
            int64_t step, int32_t* acc) {
  const DI d;
  const DS ds;
  constexpr int64_t L = HWY_MAX_BYTES / 2;
  for (int64_t at = 0; count > 0; --count, at += step, acc += channels) {
    const int16_t* weights = packed;
    for (int64_t block = 0; block < channels; block += L) {
      const int64_t c = std::min(block, channels - L);
      VI lower = hn::Load(d, reinterpret_cast<const int32_t*>(weights));
      VI upper = hn::Load(d, reinterpret_cast<const int32_t*>(weights) + L / 2);
      weights += 2 * L;
      const auto add = [&](const uint8_t* a, const uint8_t* b) HWY_ATTR {
        const VS va = load_wide<T>(a + (at + c)), vb = load_wide<T>(b + (at + c));
        lower = add_pairs<kVnni>(lower, hn::InterleaveLower(ds, va, vb), hn::Load(ds, weights));
        upper = add_pairs<kVnni>(upper, hn::InterleaveUpper(ds, va, vb), hn::Load(ds, weights + L));
        weights += 2 * L;
      };
      if constexpr (kPairs > 0) {
#pragma GCC unroll 8
        for (int p = 0; p < kPairs; ++p) add(taps[2 * p], taps[2 * p + 1]);
      } else {
        for (int64_t p = 0; p < pairs; ++p) add(taps[2 * p], taps[2 * p + 1]);
      }
      store_in_order(lower, upper, acc + c);
    }
  }
}

using Pixels = void (*)(const uint8_t* const*, int64_t, int64_t, const int16_t*, int64_t, int64_t, int32_t*);
template <int kPairs>
Pixels choose_type(bool is_signed, bool vnni) {
  if (vnni && HWY_MAX_BYTES >= 64) return is_signed ? pixels<int8_t, true, kPairs> : pixels<uint8_t, true, kPairs>;
  return is_signed ? pixels<int8_t, false, kPairs> : pixels<uint8_t, false, kPairs>;
}
Pixels choose_pixels(bool is_signed, bool vnni, int64_t pairs) {
  return pairs == 5 ? choose_type<5>(is_signed, vnni) : choose_type<0>(is_signed, vnni);  // 5: of filters 3x3
}

int64_t short_lanes() { return HWY_MAX_BYTES / 2; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct DepthwiseI8Key {
  FilterKey filter;
  int64_t lanes;
  int32_t x_zero;
  bool x_signed;
  auto operator<=>(const DepthwiseI8Key&) const = default;
};

/// 8-bit depthwise convolution, one filter a channel. Channels-first images are turned around before and after.
class DepthwiseI8 final : public Kernel {
 public:
  DepthwiseI8(const ConvShape& g, const QuantizedPair& q, RequantizeParams requantize_params, Isa level,
              const KernelSpec& spec)
      : g_(g),
        q_(q),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_accumulators(spec.isa, requantize_params_)),
        lanes_(SMELT_FOR_LEVEL(level, short_lanes)()),
        threads_(std::max(spec.threads, 1)),
        pairs_((g.taps() + 1) / 2),
        pixels_(SMELT_FOR_LEVEL(level, choose_pixels)(q.x_signed, level.has(IsaFeature::kVnni), pairs_)) {
    const Tensor* bias = spec.constant(2);
    packed_ = spec.packs.get(DepthwiseI8Key{{g, *spec.constant(1), bias}, lanes_, q.x_zero, q.x_signed},
                             [&] { return pack(spec.constant(1)->data<uint8_t>()); });
    batch_ = std::clamp<int64_t>(4096 / g.groups, 1, 32);
    acc_ = padded_bytes(batch_ * g.groups * 4);
    for (int64_t t = 0; t < g.taps(); ++t) {
      const int64_t kx = t % g.kernel[2], ky = t / g.kernel[2] % g.kernel[1], kz = t / g.kernel[2] / g.kernel[1];
      offsets_.push_back(((kz * g.dilation[0] * g.in[1] + ky * g.dilation[1]) * g.in[2] + kx * g.dilation[2]) *
                         g.groups);
    }
    zeros_ = padded_bytes(g.groups);
    if (!g.channels_last) {
      turned_in_ = padded_bytes(g.in_pixels() * g.groups);
      turned_out_ = padded_bytes(g.out_pixels() * g.groups);
    }
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(threads_ * acc_ + zeros_ + turned_in_ + turned_out_);
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a depthwise convolution");
    uint8_t* const padding = scratch + threads_ * acc_;
    uint8_t* const turned_in = padding + zeros_;
    uint8_t* const turned_out = turned_in + turned_in_;
    std::fill_n(padding, g_.groups, static_cast<uint8_t>(q_.x_zero));
    for (int64_t image = 0; image < g_.batch; ++image) {
      const uint8_t* from = x + image * g_.in_pixels() * g_.groups;
      uint8_t* to = y + image * g_.out_pixels() * g_.groups;
      if (turned_in_) {
        transpose_bytes(ctx.threads(), from, g_.groups, g_.in_pixels(), turned_in);
        rows(ctx.threads(), turned_in, padding, scratch, turned_out);
        transpose_bytes(ctx.threads(), turned_out, g_.out_pixels(), g_.groups, to);
      } else {
        rows(ctx.threads(), from, padding, scratch, to);
      }
    }
    return Ok();
  }

 private:
  Packed pack(const uint8_t* filter) const {
    const int64_t blocks = (g_.groups + lanes_ - 1) / lanes_, half = lanes_ / 2;
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(blocks * (1 + pairs_) * 2 * lanes_ * 2));
    auto* to = packed->data<int16_t>();
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t c0 = std::min(block * lanes_, g_.groups - lanes_);
      // Channel of lane i of a vector of 32-bit accumulators: interleaving takes halves of blocks of 8 channels.
      const auto channel = [&](int64_t vector, int64_t i) { return c0 + i / 4 * 8 + vector * 4 + i % 4; };
      auto* addends = reinterpret_cast<uint32_t*>(to);
      for (int64_t v = 0; v < 2; ++v)
        for (int64_t i = 0; i < half; ++i) {
          const int64_t c = channel(v, i);
          uint32_t sum = 0;
          for (int64_t t = 0; t < g_.taps(); ++t)
            sum += static_cast<uint32_t>(static_cast<int32_t>(weight(filter, c, t)));
          addends[v * half + i] = static_cast<uint32_t>(requantize_params_.bias[static_cast<size_t>(c)]) -
                                  sum * static_cast<uint32_t>(q_.x_zero);
        }
      to += 2 * lanes_;
      for (int64_t p = 0; p < pairs_; ++p)
        for (int64_t v = 0; v < 2; ++v)
          for (int64_t i = 0; i < half; ++i) {
            *to++ = weight(filter, channel(v, i), 2 * p);
            *to++ = 2 * p + 1 < g_.taps() ? weight(filter, channel(v, i), 2 * p + 1) : int16_t{0};
          }
    }
    return packed;
  }
  int16_t weight(const uint8_t* filter, int64_t c, int64_t t) const {
    return q_.weight(filter[c * g_.filter_o + t * g_.filter_s], c);
  }
  void rows(ThreadPool& pool, const uint8_t* x, const uint8_t* padding, uint8_t* scratch, uint8_t* y) const {
    // Threads share the pixels of a line where lines are fewer.
    constexpr int64_t kLeast = 16;  // pixels
    const int64_t lines = g_.out[0] * g_.out[1];
    const int64_t parts = std::min(ceil_div(threads_, lines), ceil_div(g_.out[2], kLeast));
    in_slots(pool, threads_, lines * parts, [&](int64_t unit, int64_t slot) {
      const int64_t r = unit / parts, part = unit % parts;
      row(x, padding, r, {g_.out[2] * part / parts, g_.out[2] * (part + 1) / parts},
          reinterpret_cast<int32_t*>(scratch + slot * acc_), y + r * g_.out[2] * g_.groups);
    });
  }
  /// Of a row of output pixels: [begin, end).
  struct Pixels {
    int64_t begin, end;
  };
  void row(const uint8_t* x, const uint8_t* padding, int64_t index, Pixels of, int32_t* acc, uint8_t* y) const {
    const uint8_t* taps[kMostDepthwiseTaps + 1];
    const int64_t c = g_.groups;
    const int64_t z0 = index / g_.out[1] * g_.stride[0] - g_.pad[0], y0 = index % g_.out[1] * g_.stride[1] - g_.pad[1];
    const bool lines_inside = z0 >= 0 && z0 + (g_.kernel[0] - 1) * g_.dilation[0] < g_.in[0] && y0 >= 0 &&
                              y0 + (g_.kernel[1] - 1) * g_.dilation[1] < g_.in[1];
    const uint8_t* corner = x + (z0 * g_.in[1] + y0) * g_.in[2] * c;
    // Windows of output pixels [inner, outer) lie inside.
    const int64_t last = g_.in[2] - 1 - (g_.kernel[2] - 1) * g_.dilation[2] + g_.pad[2];
    const int64_t inner = std::max<int64_t>(0, g_.pad[2] + g_.stride[2] - 1) / g_.stride[2];
    const int64_t outer = lines_inside && last >= 0 ? last / g_.stride[2] + 1 : 0;
    for (int64_t ox = of.begin, waiting = 0, here = 0; ox < of.end; ox += here) {
      const int64_t x0 = ox * g_.stride[2] - g_.pad[2];
      here = 1;
      if (ox >= inner && ox < outer) {
        here = std::min({outer, of.end, ox + batch_ - waiting}) - ox;
        for (int64_t t = 0; t < g_.taps(); ++t) taps[t] = corner + x0 * c + offsets_[static_cast<size_t>(t)];
      } else {
        edge_taps(x, padding, z0, y0, x0, taps);
      }
      taps[g_.taps()] = taps[g_.taps() - 1];
      pixels_(taps, pairs_, c, packed_->data<int16_t>(), here, g_.stride[2] * c, acc + waiting * c);
      waiting += here;
      if (waiting == batch_ || ox + here == of.end) {
        rescale_(requantize_params_, acc, c, waiting, c, 0, y + (ox + here - waiting) * c, c);
        waiting = 0;
      }
    }
  }
  void edge_taps(const uint8_t* x, const uint8_t* padding, int64_t z0, int64_t y0, int64_t x0,
                 const uint8_t** taps) const {
    for (int64_t kz = 0; kz < g_.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
        const int64_t iz = z0 + kz * g_.dilation[0], iy = y0 + ky * g_.dilation[1];
        const bool line = iz >= 0 && iz < g_.in[0] && iy >= 0 && iy < g_.in[1];
        for (int64_t kx = 0; kx < g_.kernel[2]; ++kx) {
          const int64_t ix = x0 + kx * g_.dilation[2];
          *taps++ = line && ix >= 0 && ix < g_.in[2] ? x + ((iz * g_.in[1] + iy) * g_.in[2] + ix) * g_.groups : padding;
        }
      }
  }

  ConvShape g_;
  QuantizedPair q_;
  RequantizeParams requantize_params_;
  RequantizeAccumulators rescale_;
  int64_t lanes_, threads_, pairs_;
  void (*pixels_)(const uint8_t* const*, int64_t, int64_t, const int16_t*, int64_t, int64_t, int32_t*);
  int64_t acc_ = 0, zeros_ = 0, turned_in_ = 0, turned_out_ = 0;
  int64_t batch_ = 1;             ///< pixels rescaled at once
  std::vector<int64_t> offsets_;  ///< of the taps of one window, in bytes
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  if (!g->depthwise() || g->c_out != 1 || g->taps() > kMostDepthwiseTaps || g->taps() == 0) return nullptr;
  // The widest vectors that the channels fill.
  const auto levels = machine_isas();
  const auto level = std::ranges::find_if(levels.rbegin(), levels.rend(), [&](Isa isa) {
    return spec.isa.contains(isa) && SMELT_FOR_LEVEL(isa, short_lanes)() <= g->groups;
  });
  if (level == levels.rend()) return spec.refuse("fewer channels than a vector has lanes");
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1],
                                     filter_output_axis(attrs, spec.inputs[1].shape.rank()), g->groups);
  if (!q) return nullptr;
  auto requantize_params = smelt::requantize_params(spec, g->groups, attrs.rescale_rule());
  if (!requantize_params) return nullptr;
  return std::make_unique<DepthwiseI8>(*g, *q, std::move(*requantize_params), *level, spec);
}

}  // namespace smelt
#endif
