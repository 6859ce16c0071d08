// Channels-last convolutions of groups with so few filters that a vector of filters stays half empty: vectors are of
// pixels instead.
#include <algorithm>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_grouped_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/turn-inl.h"
#include "backends/cpu/core/workspace.h"
#include "ops/conv/conv_shape.h"

#ifndef SMELT_CPU_CONV_GROUPED_F32
#define SMELT_CPU_CONV_GROUPED_F32
namespace smelt {
/// What a group of filters reads of a band of lines, channel by channel: of every channel the pixels of each phase of
/// the strides, line by line, padding included. Offsets are in floats.
struct GroupedBand {
  const float* x;                  ///< of the group's first channel
  int64_t channels, channel_step;  ///< of the group; between two of them
  const int64_t* taps;             ///< offset of each tap's pixel for the first output
  int64_t n_taps;
  const float* filter;  ///< biases, then [tap][channel][filter]; as many filters as the tile computes
  float lo, hi;
};
struct GroupedOps {
  int64_t filters = 0, pixels = 0;  ///< of a tile
  /// Channels [0, n) of `count` pixels, which lie `step` floats apart, to rows of pixels `row_step` apart.
  void (*turn)(const float* from, int64_t step, int64_t n, int64_t count, float* to, int64_t row_step) = nullptr;
  /// Zeros in `count` pixels of n rows.
  void (*clear)(float* to, int64_t n, int64_t count, int64_t row_step) = nullptr;
  /// Sums for the `pixels` outputs from `at` on: for every vector of pixels quads of filters, a quad a pixel.
  void (*tile)(const GroupedBand& band, int64_t at, float* to) = nullptr;
  /// The first `filters` sums of pixels [begin, end) of a tile, to pixels `step` floats apart.
  void (*store)(const float* sums, int64_t begin, int64_t end, int64_t filters, float* to, int64_t step) = nullptr;
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int64_t L = HWY_MAX_BYTES / 4;

/// The last vector overlaps the one before.
void turn_pixels(const float* from, int64_t step, int64_t n, int64_t count, float* to, int64_t row_step) {
  const auto vectors = [&](auto tag) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
    for (int64_t at = 0; at < count; at += lanes) {
      const int64_t i = std::min(at, count - lanes);
      int64_t c = 0;
      for (; c + 4 <= n; c += 4) turn_columns(tag, from + i * step + c, step, 1.0f, to + c * row_step + i, row_step);
      for (; c < n; ++c)
        for (int64_t j = i; j < i + lanes; ++j) to[c * row_step + j] = from[j * step + c];
    }
  };
  if (count >= L) return vectors(D());
  if (count >= 4) return vectors(hn::CappedTag<float, 4>());
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < n; ++c) to[c * row_step + i] = from[i * step + c];
}

void clear_pixels(float* to, int64_t n, int64_t count, int64_t row_step) {
  const D d;
  for (int64_t c = 0; c < n; ++c, to += row_step) {
    int64_t i = 0;
    for (; i + L <= count; i += L) hn::StoreU(hn::Zero(d), d, to + i);
    if (i < count) hn::BlendedStore(hn::Zero(d), hn::FirstN(d, static_cast<size_t>(count - i)), d, to + i);
  }
}

/// kFilters: a multiple of 4. kVectors of pixels.
template <int kFilters, int kVectors>
void grouped_tile(const GroupedBand& band, int64_t at, float* to) {
  const D d;
  V acc[kFilters][kVectors];
  const float* w = band.filter;
#pragma GCC unroll 8
  for (int o = 0; o < kFilters; ++o)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[o][v] = hn::Set(d, w[o]);
  w += kFilters;
  for (int64_t t = 0; t < band.n_taps; ++t) {
    const float* x = band.x + at + band.taps[t];
    for (int64_t c = 0; c < band.channels; ++c, x += band.channel_step, w += kFilters) {
      V pixels[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) pixels[v] = hn::LoadU(d, x + v * L);
#pragma GCC unroll 8
      for (int o = 0; o < kFilters; ++o) {
        const V weight = hn::Set(d, w[o]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) acc[o][v] = hn::MulAdd(pixels[v], weight, acc[o][v]);
      }
    }
  }
  const V lo = hn::Set(d, band.lo), hi = hn::Set(d, band.hi);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 2
    for (int q = 0; q < kFilters; q += 4, to += 4 * L) {
#pragma GCC unroll 4
      for (int o = q; o < q + 4; ++o) acc[o][v] = clamp(acc[o][v], lo, hi);
      hn::StoreInterleaved4(acc[q][v], acc[q + 1][v], acc[q + 2][v], acc[q + 3][v], d, to);
    }
}

template <int kFilters>
void store_pixels(const float* sums, int64_t begin, int64_t end, int64_t filters, float* to, int64_t step) {
  const hn::CappedTag<float, 4> d4;
  for (int64_t i = begin; i < end; ++i, to += step) {
    const float* from = sums + i / L * kFilters * L + i % L * 4;
    int64_t o = 0;
    for (; o + 4 <= filters; o += 4, from += 4 * L) hn::StoreU(hn::Load(d4, from), d4, to + o);
    for (int64_t j = 0; o + j < filters; ++j) to[o + j] = from[j];
  }
}

/// nullptr as tile: a vector of filters is at least as good.
GroupedOps make_grouped_ops(int64_t filters) {
  GroupedOps ops;
  if (filters * 2 > L || L < 8) return ops;
  ops.turn = turn_pixels;
  ops.clear = clear_pixels;
  constexpr int kVectors = L >= 16 ? 4 : 2;
  if (filters <= 4) {
    ops.filters = 4;
    ops.pixels = kVectors * L;
    ops.tile = grouped_tile<4, kVectors>;
    ops.store = store_pixels<4>;
  } else if constexpr (L >= 16) {
    ops.filters = 8;
    ops.pixels = 2 * L;
    ops.tile = grouped_tile<8, 2>;
    ops.store = store_pixels<8>;
  }
  return ops;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct ConvGroupedKey {
  FilterKey filter;
  int64_t filters;
  auto operator<=>(const ConvGroupedKey&) const = default;
};

class ConvGroupedF32 final : public Kernel {
 public:
  ConvGroupedF32(const ConvShape& g, const GroupedOps& ops, const KernelSpec& spec)
      : g_(g), ops_(ops), act_(spec.attrs<ConvAttrs>().act), threads_(std::max(spec.threads, 1)) {
    constexpr int64_t kChannels = 16;           // a cache line of a pixel
    constexpr int64_t kBandFloats = 48 * 1024;  // that stay in the second cache
    block_ = std::clamp<int64_t>(kChannels / std::max(g.c_in, g.c_out), 1, g.groups);
    width_ = width_of(g);
    margin_ = (g.kernel[1] - 1) * g.dilation[1] / g.stride[1];
    const int64_t line = block_ * g.c_in * g.stride[1] * g.stride[2] * width_;
    lines_ = std::clamp<int64_t>(kBandFloats / line - margin_, 1, g.out[1]);
    bands_ = ceil_div(g.out[1], lines_);
    lines_ = ceil_div(g.out[1], bands_);
    plane_ = round_up((lines_ + margin_) * width_ + ops.pixels, 16);
    for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < g.kernel[2]; ++kx) {
        const int64_t y = ky * g.dilation[1], x = kx * g.dilation[2];
        taps_.push_back((y % g.stride[1] * g.stride[2] + x % g.stride[2]) * plane_ + y / g.stride[1] * width_ +
                        x / g.stride[2]);
      }
    packed_ = spec.packs.get(ConvGroupedKey{{g, *spec.constant(1), spec.constant(2)}, ops.filters},
                             [&] { return pack(spec); });
  }
  /// Phases of the strides hold pixels that no tap reads where windows leave some out.
  static bool applies(const ConvShape& g) {
    constexpr int64_t kMostChannels = 64;
    if (!g.planar() || g.groups == 1 || g.c_in < 2 || g.c_in > kMostChannels) return false;
    const int64_t width = width_of(g);
    return g.stride[1] <= g.kernel[1] && g.stride[2] <= g.kernel[2] && width * 2 <= g.out[2] * 3 &&
           width * g.stride[1] * g.stride[2] * g.c_in * ((g.kernel[1] - 1) * g.dilation[1] + 1) <= (1 << 20);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_floats()) * sizeof(float); }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a grouped convolution");
    const EpilogueRun epilogue(epilogue_, ctx);
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t blocks = ceil_div(g_.groups, block_);
    in_slots(ctx.threads(), threads_, g_.batch * bands_ * blocks, [&](int64_t u, int64_t slot) {
      const int64_t image = u / (bands_ * blocks), band = u / blocks % bands_;
      compute(x + image * g_.in_pixels() * g_.all_in(), y + image * g_.out_pixels() * g_.all_out(), epilogue,
              u % blocks * block_, g_.out[1] * band / bands_, g_.out[1] * (band + 1) / bands_,
              scratch + slot * slot_floats());
    });
    return Ok();
  }

 private:
  /// Pixels of a line of a phase.
  static int64_t width_of(const ConvShape& g) { return g.out[2] + (g.kernel[2] - 1) * g.dilation[2] / g.stride[2]; }
  int64_t phases() const { return g_.stride[1] * g_.stride[2]; }
  int64_t tile_floats() const { return ops_.pixels * ops_.filters; }
  /// Of a thread: a band, a tile of results.
  int64_t slot_floats() const { return block_ * g_.c_in * phases() * plane_ + tile_floats(); }
  int64_t filter_floats() const { return ops_.filters * (1 + g_.k()); }
  Packed pack(const KernelSpec& spec) const {
    const Tensor weights = spec.constant(1)->read_once();
    const auto* const filter = weights.data<float>();
    const float* bias = spec.has(2) ? spec.constant(2)->data<float>() : nullptr;
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(g_.groups * filter_floats()) * sizeof(float));
    for (int64_t group = 0; group < g_.groups; ++group)
      for (int64_t o = 0; o < g_.c_out; ++o) {
        float* to = packed->data<float>() + group * filter_floats() + o;
        const int64_t all = group * g_.c_out + o;
        *to = bias ? bias[all] : 0.0f;
        for (int64_t t = 0; t < g_.taps(); ++t)
          for (int64_t c = 0; c < g_.c_in; ++c)
            *(to += ops_.filters) = filter[all * g_.filter_o + c * g_.filter_i + t * g_.filter_s];
      }
    release_pages(weights);
    return packed;
  }
  /// The channels of groups [group, group + groups) that output lines [first, last) see.
  void fill(const float* x, int64_t group, int64_t groups, int64_t first, int64_t last, float* band) const {
    const int64_t channels = groups * g_.c_in, step = phases() * plane_, all = g_.all_in();
    const int64_t rows = last - first + margin_, sx = g_.stride[2];
    const auto clear = [&](float* to, int64_t begin, int64_t end) {
      if (begin < end) ops_.clear(to + begin, channels, end - begin, step);
    };
    for (int64_t py = 0; py < g_.stride[1]; ++py)
      for (int64_t px = 0; px < sx; ++px) {
        float* const plane = band + (py * sx + px) * plane_;
        const int64_t shift = px - g_.pad[2];  // pixel i of a line is pixel i * sx + shift of the image
        const int64_t begin = std::clamp<int64_t>(shift >= 0 ? 0 : ceil_div(-shift, sx), 0, width_);
        const int64_t end = shift >= g_.in[2] ? begin : std::clamp(ceil_div(g_.in[2] - shift, sx), begin, width_);
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t y = (first + r) * g_.stride[1] + py - g_.pad[1];
          float* const line = plane + r * width_;
          if (y < 0 || y >= g_.in[1]) {
            clear(line, 0, width_);
            continue;
          }
          clear(line, 0, begin);
          ops_.turn(x + (y * g_.in[2] + begin * sx + shift) * all + group * g_.c_in, sx * all, channels, end - begin,
                    line + begin, step);
          clear(line, end, width_);
        }
        clear(plane, rows * width_, plane_);  // tiles read whole vectors
      }
  }
  /// Output lines [first, last) of some groups from `group` on; x and y: of an image.
  void compute(const float* x, float* y, const EpilogueRun& epilogue, int64_t group, int64_t first, int64_t last,
               float* band) const {
    const int64_t groups = std::min(block_, g_.groups - group), step = phases() * plane_;
    float* const results = band + block_ * g_.c_in * step;
    const Bounds bounds = activation_bounds(act_);
    fill(x, group, groups, first, last, band);
    const int64_t n = (last - first - 1) * width_ + g_.out[2];
    for (int64_t i = 0; i < groups; ++i) {
      const GroupedBand of_group{band + i * g_.c_in * step,
                                 g_.c_in,
                                 step,
                                 taps_.data(),
                                 g_.taps(),
                                 packed_->data<float>() + (group + i) * filter_floats(),
                                 bounds.lo,
                                 bounds.hi};
      for (int64_t at = 0; at < n; at += ops_.pixels) {
        ops_.tile(of_group, at, results);
        store(results, at, std::min(at + ops_.pixels, n), y + (group + i) * g_.c_out, first);
      }
    }
    const int64_t columns = groups * g_.c_out;
    float* const done = y + first * g_.out[2] * g_.all_out() + group * g_.c_out;
    apply_activation(act_, done, (last - first) * g_.out[2], columns, g_.all_out());
    if (epilogue) epilogue(done, (last - first) * g_.out[2], columns, g_.all_out());
  }
  /// Results of positions [begin, end) of a band that begins with output line `first`; y: the group's first channel.
  void store(const float* results, int64_t begin, int64_t end, float* y, int64_t first) const {
    for (int64_t at = begin; at < end;) {
      const int64_t line = at / width_, x = at % width_, n = std::min(end - at, width_ - x);
      const int64_t used = std::min(n, g_.out[2] - x);
      if (used > 0)
        ops_.store(results, at - begin, at - begin + used, g_.c_out,
                   y + ((first + line) * g_.out[2] + x) * g_.all_out(), g_.all_out());
      at += n;
    }
  }

  ConvShape g_;
  GroupedOps ops_;
  Activation act_;
  EpilogueF32 epilogue_;
  int64_t threads_;
  int64_t block_ = 1;                          ///< groups that are worked on at once
  int64_t width_ = 1, lines_ = 1, bands_ = 1;  ///< of a line of a phase; output lines of a band, at most; bands
  int64_t margin_ = 0, plane_ = 0;             ///< lines of a phase beyond the output's; floats of a phase
  std::vector<int64_t> taps_;
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_grouped_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  if (!ConvGroupedF32::applies(*g)) return spec.refuse("one group, or windows that lie far apart");
  const GroupedOps ops = SMELT_FOR_LEVEL(spec.isa, make_grouped_ops)(g->c_out);
  if (!ops.tile) return spec.refuse("filters of a group fill a vector: ", g->c_out);
  return std::make_unique<ConvGroupedF32>(*g, ops, spec);
}

}  // namespace smelt
#endif
