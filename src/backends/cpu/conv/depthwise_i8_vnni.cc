#include "backends/cpu/conv/depthwise_i8_vnni.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "backends/cpu/conv/depthwise_shape.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/line_buffer.h"
#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/copy/transpose_bytes.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "base/checked.h"
#include "ops/common/quantized_pair.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

#if defined(__x86_64__)
namespace {

using Rule = DepthwiseRow::Rule;

Rule rule_of(const RequantizeParams& r) {
  if (r.rounding == Rounding::kFloatHalfEven) return Rule::kFloat;
  return r.steps == RequantizeParams::Steps::kPositive ? Rule::kPositive : Rule::kDouble;
}

struct VnniKey {
  FilterKey filter;
  int64_t channels;  ///< of a bundle
  int32_t x_zero;
  bool x_signed;
  auto operator<=>(const VnniKey&) const = default;
};

/// The channels of a block, which lie side by side in a bundle: those of the convolution, over and over.
struct ChannelsOfBlock {
  int64_t first;   ///< of the bundle
  int64_t count;   ///< DepthwiseRow::kBlock, fewer in a bundle that has fewer
  int64_t groups;  ///< channels of the convolution

  /// Calls f(place in the block, channel of the convolution, how many) for those that are neighbours in both.
  template <class F>
  void each_run(F&& f) const {
    int64_t c = first % groups;
    for (int64_t at = 0, n = 0; at < count; at += n, c = 0) f(at, c, n = std::min(groups - c, count - at));
  }
  /// values[channel] of every place, as the lanes of DepthwiseRow lie; places without a channel are zero.
  template <class T>
  std::array<T, DepthwiseRow::kBlock> in_lanes(const T* values) const {
    std::array<T, DepthwiseRow::kBlock> by_place{};
    each_run([&](int64_t at, int64_t c, int64_t n) { std::copy_n(values + c, n, by_place.begin() + at); });
    return places_in_lanes(by_place);
  }
  template <class T>
  static std::array<T, DepthwiseRow::kBlock> places_in_lanes(const std::array<T, DepthwiseRow::kBlock>& by_place) {
    std::array<T, DepthwiseRow::kBlock> out;
    auto to = out.begin();
    for (int64_t v = 0; v < DepthwiseRow::kVectors; ++v)
      for (int64_t lane = 0; lane < 16; lane += 4)  // channel() of four lanes is that of the first and the next ones
        to = std::copy_n(by_place.begin() + DepthwiseRow::channel(v, lane), 4, to);
    return out;
  }
};

/// The weights of a block's channels, tap by tap.
class TapsOfBlock {
 public:
  TapsOfBlock(const uint8_t* filter, const ConvShape& g, const ChannelsOfBlock& channels)
      : filter_(filter), g_(g), channels_(channels) {
    const int64_t c = channels.first % channels.groups;
    if (g.filter_o == 1 && channels.count == DepthwiseRow::kBlock && c + channels.count <= channels.groups)
      in_order_ = c;
  }
  /// Those of one tap, in the filter or in `memory`, which holds zeros behind the last channel; zeros where there is no
  /// tap.
  const uint8_t* tap(int64_t t, uint8_t* memory) const {
    static constexpr uint8_t kNone[DepthwiseRow::kBlock] = {};
    if (t >= g_.taps()) return kNone;
    const uint8_t* from = filter_ + t * g_.filter_s;
    if (in_order_) return from + *in_order_;
    channels_.each_run([&](int64_t at, int64_t c, int64_t n) {
      if (g_.filter_o == 1)
        std::copy_n(from + c, n, memory + at);
      else
        for (int64_t i = 0; i < n; ++i) memory[at + i] = from[(c + i) * g_.filter_o];
    });
    return memory;
  }

 private:
  const uint8_t* filter_;
  const ConvShape& g_;
  ChannelsOfBlock channels_;
  std::optional<int64_t> in_order_;  ///< first channel, where the filter has those of the block side by side
};

/// Sums of the weights of a block's channels over taps: of 256 taps at a time in int16, which they fit.
class TapSums {
 public:
  explicit TapSums(bool is_signed) : is_signed_(is_signed) {}
  void add(const uint8_t* bytes) {
    if (++added_ % 256 == 0) fold();
    const __m128i zero = _mm_setzero_si128();
    for (size_t i = 0; i < std::size(sums_); i += 2) {
      const __m128i w = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i * 8));
      const __m128i high = is_signed_ ? _mm_cmpgt_epi8(zero, w) : zero;
      sums_[i] = _mm_add_epi16(sums_[i], _mm_unpacklo_epi8(w, high));
      sums_[i + 1] = _mm_add_epi16(sums_[i + 1], _mm_unpackhi_epi8(w, high));
    }
  }
  int32_t of(int64_t channel) const {
    int16_t sum;
    std::memcpy(&sum, reinterpret_cast<const char*>(sums_) + channel * 2, sizeof(sum));
    return folded_[channel] + sum;
  }

 private:
  void fold() {
    for (int64_t c = 0; c < DepthwiseRow::kBlock; ++c) folded_[c] = of(c);
    std::fill(std::begin(sums_), std::end(sums_), _mm_setzero_si128());
  }

  int32_t folded_[DepthwiseRow::kBlock] = {};
  int64_t added_ = 0;
  __m128i sums_[DepthwiseRow::kBlock / 8] = {};
  bool is_signed_;
};

/// Four taps of a block's channels, those of a channel side by side, in the order of DepthwiseRow::channel().
void interleave_taps(const uint8_t* const (&taps)[4], uint8_t* to) {
  for (int64_t c = 0; c < DepthwiseRow::kBlock; c += 16) {
    const auto in = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(taps[i] + c)); };
    const __m128i low01 = _mm_unpacklo_epi8(in(0), in(1)), high01 = _mm_unpackhi_epi8(in(0), in(1));
    const __m128i low23 = _mm_unpacklo_epi8(in(2), in(3)), high23 = _mm_unpackhi_epi8(in(2), in(3));
    const __m128i of_vector[] = {_mm_unpacklo_epi16(low01, low23), _mm_unpackhi_epi16(low01, low23),
                                 _mm_unpacklo_epi16(high01, high23), _mm_unpackhi_epi16(high01, high23)};
    for (int64_t v = 0; v < DepthwiseRow::kVectors; ++v)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + v * DepthwiseRow::kVectorBytes + c), of_vector[v]);
  }
}

/// 8-bit depthwise convolution, one filter a channel, from padded rows straight to quantized bytes. Channels-first
/// images are turned around before and after.
class DepthwiseVnni final : public Kernel, public RowStage {
 public:
  DepthwiseVnni(const ConvShape& g, const QuantizedPair& q, const RequantizeParams& requantize_params,
                const KernelSpec& spec)
      : g_(g), rows_(line_buffer(g, q)), q_(q), threads_(std::max(spec.threads, 1)) {
    const Rule rule = rule_of(requantize_params);
    row_.channels = bundle() * g.groups;
    row_.groups = (g.taps() + 3) / 4;
    row_.step = row_.channels;
    row_.count = (g.out[2] * g.groups + row_.step - 1) / row_.step;
    row_.last = g.out[2] * g.groups - row_.channels;
    row_.zero = requantize_params.zero;
    row_.low = requantize_params.low;
    row_.high = requantize_params.high;
    function_ = depthwise_row_vnni(rule, requantize_params.is_signed, g.taps());
    const Tensor* bias = spec.constant(2);
    weights_ = spec.packs.get(VnniKey{{g, *spec.constant(1), bias}, row_.channels, q.x_zero, q.x_signed}, [&] {
      const Tensor& filter = *spec.constant(1);
      std::vector<uint8_t> bytes(filter.bytes());
      filter.copy_elements(0, filter.elements(), bytes.data());
      return pack(bytes.data(), requantize_params.bias);
    });
    rules_ = pack_rules(requantize_params, rule);
    for (int64_t kx = 0; kx < g.kernel[2]; ++kx) offsets_.push_back(rows_.offset(kx));
    if (!g.channels_last) {
      turned_in_ = padded_bytes(g.in_pixels() * g.groups);
      turned_out_ = padded_bytes(g.out_pixels() * g.groups);
    }
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * stride() + turned_in_ + turned_out_); }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a depthwise convolution");
    uint8_t* const turned_in = scratch + threads_ * stride();
    uint8_t* const turned_out = turned_in + turned_in_;
    for (int64_t image = 0; image < g_.batch; ++image) {
      const uint8_t* from = x + image * g_.in_pixels() * g_.groups;
      uint8_t* to = y + image * g_.out_pixels() * g_.groups;
      if (turned_in_) {
        transpose_bytes(ctx.threads(), from, g_.groups, g_.in_pixels(), turned_in);
        rows(ctx.threads(), turned_in, scratch, turned_out);
        transpose_bytes(ctx.threads(), turned_out, g_.out_pixels(), g_.groups, to);
      } else {
        rows(ctx.threads(), from, scratch, to);
      }
    }
    return Ok();
  }

  RowStage* row_stage() override { return g_.channels_last && g_.planar() ? this : nullptr; }
  /// A thread's lines keep the rows that windows of a band saw: all that later ones want, unless windows are dilated.
  Reads reads() const override { return g_.dilation[1] == 1 ? Reads::kBand : Reads::kRing; }
  const ConvShape& shape() const override { return g_; }
  int64_t element_bytes() const override { return 1; }
  int64_t row_scratch() const override { return rows_.workspace_bytes(); }
  void begin_rows(std::byte* scratch) const override { rows_.begin(reinterpret_cast<uint8_t*>(scratch), zero()); }
  void rows(const ImageRows& x, int64_t first, int64_t last, const EpilogueRun*, std::byte* scratch,
            std::byte* y) const override {
    auto* const workspace = reinterpret_cast<uint8_t*>(scratch);
    auto* to = reinterpret_cast<uint8_t*>(y);
    for (int64_t r = first; r < last; ++r, to += g_.out[2] * g_.groups)
      row(x, rows_.outside(workspace), r, {0, row_.count}, workspace, to);
  }

  /// The rows in the form that the tiles take: unsigned.
  static LineBuffer line_buffer(const ConvShape& g, const QuantizedPair& q) {
    return {g, true, q.x_signed ? gather_signed_pixels_vnni : gather_pixels_vnni};
  }

 private:
  /// Pixels of a bundle: those that waste least of the blocks. What a block reads once, its weights and what rescales
  /// its accumulators, takes as long as the pixels of a few bundles.
  int64_t bundle() const {
    constexpr int64_t kMost = 16, kReading = 2;
    int64_t best = 1, least = INT64_MAX;
    for (int64_t p = 1; p <= std::min(kMost, g_.out[2]); ++p) {
      const int64_t bundles = (g_.out[2] + p - 1) / p;
      const int64_t cost = (bundles + kReading) * ((p * g_.groups + DepthwiseRow::kBlock - 1) / DepthwiseRow::kBlock);
      if (cost >= least) continue;
      least = cost;
      best = p;
    }
    return best;
  }
  int64_t blocks() const { return (row_.channels + DepthwiseRow::kBlock - 1) / DepthwiseRow::kBlock; }
  ChannelsOfBlock channels_of(int64_t block) const {
    const int64_t last = std::max<int64_t>(0, row_.channels - DepthwiseRow::kBlock);
    const int64_t first = std::min(block * DepthwiseRow::kBlock, last);
    return {first, std::min(row_.channels - first, DepthwiseRow::kBlock), g_.groups};
  }
  Packed pack(const uint8_t* filter, const std::vector<int32_t>& bias) const {
    const int64_t bytes = DepthwiseRow::weight_bytes(row_.groups);
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(blocks() * bytes));
    const auto zero = static_cast<uint32_t>(q_.x_signed ? q_.x_zero + 128 : q_.x_zero);
    for (int64_t b = 0; b < blocks(); ++b) {
      auto* addends = reinterpret_cast<uint32_t*>(packed->data<char>() + b * bytes);
      auto* weights = reinterpret_cast<uint8_t*>(addends + DepthwiseRow::kBlock);
      const ChannelsOfBlock channels = channels_of(b);
      const TapsOfBlock taps(filter, g_, channels);
      TapSums sums(q_.w_signed);
      alignas(64) uint8_t memory[4][DepthwiseRow::kBlock] = {};
      for (int64_t t = 0; t < g_.taps(); t += 4, weights += 4 * DepthwiseRow::kBlock) {
        const uint8_t* four[4];
        for (int64_t i = 0; i < 4; ++i) {
          four[i] = taps.tap(t + i, memory[i]);
          sums.add(four[i]);
        }
        interleave_taps(four, weights);
      }
      std::array<uint32_t, DepthwiseRow::kBlock> by_place{};
      channels.each_run([&](int64_t at, int64_t c, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
          by_place[static_cast<size_t>(at + i)] =
              static_cast<uint32_t>(bias[static_cast<size_t>(c + i)]) - static_cast<uint32_t>(sums.of(at + i)) * zero;
      });
      std::ranges::copy(ChannelsOfBlock::places_in_lanes(by_place), addends);
    }
    return packed;
  }
  Packed pack_rules(const RequantizeParams& r, Rule rule) const {
    const int64_t bytes = DepthwiseRow::rule_bytes(rule);
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(blocks() * bytes));
    for (int64_t b = 0; b < blocks(); ++b) {
      char* to = packed->data<char>() + b * bytes;
      const ChannelsOfBlock channels = channels_of(b);
      if (rule == Rule::kFloat) {
        std::ranges::copy(channels.in_lanes(r.factors.data()), reinterpret_cast<float*>(to));
        continue;
      }
      auto* words = reinterpret_cast<int32_t*>(to);
      const auto multipliers = channels.in_lanes(r.multipliers.data()), offsets = channels.in_lanes(r.offsets.data());
      std::ranges::copy(multipliers, words);
      std::ranges::copy(channels.in_lanes(r.shifts.data()), words + 128);
      for (size_t i = 0; i < multipliers.size(); i += 2) {
        words[64 + i] = multipliers[i + 1];
        // The low half of a sum of 64 bits rounds the product, the high half the shift.
        words[192 + i] = words[256 + i] = INT32_MIN;
        words[193 + i] = offsets[i];
        words[257 + i] = offsets[i + 1];
      }
    }
    return packed;
  }
  int64_t stride() const { return workspace_stride(rows_.workspace_bytes(), threads_); }
  /// What stands in the padding of the rows.
  uint8_t zero() const { return static_cast<uint8_t>(q_.x_signed ? q_.x_zero + 128 : q_.x_zero); }
  void rows(ThreadPool& pool, const uint8_t* x, uint8_t* scratch, uint8_t* y) const {
    const ImageRows image = ImageRows::of(x, g_);
    // Threads share the bundles of a line where lines are fewer.
    const int64_t lines = g_.out[0] * g_.out[1], parts = std::min(ceil_div(threads_, lines), row_.count);
    ranges_in_slots(pool, threads_, lines * parts, [&](int64_t first, int64_t last, int64_t slot) {
      uint8_t* workspace = scratch + slot * stride();
      const uint8_t* const outside = rows_.begin(workspace, zero());
      for (int64_t unit = first; unit < last; ++unit) {
        const int64_t r = unit / parts, part = unit % parts;
        row(image, outside, r, {row_.count * part / parts, row_.count * (part + 1) / parts}, workspace,
            y + r * g_.out[2] * g_.groups);
      }
    });
  }
  /// Of a row of output pixels: [begin, end).
  struct Bundles {
    int64_t begin, end;
  };
  void row(const ImageRows& x, const uint8_t* outside, int64_t index, Bundles of, uint8_t* workspace,
           uint8_t* y) const {
    const uint8_t* taps[kMostDepthwiseTaps + 4];
    int64_t n = 0;
    const int64_t z0 = index / g_.out[1] * g_.stride[0] - g_.pad[0], y0 = index % g_.out[1] * g_.stride[1] - g_.pad[1];
    for (int64_t kz = 0; kz < g_.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
        const uint8_t* line = rows_.row(x, outside, z0 + kz * g_.dilation[0], y0 + ky * g_.dilation[1], workspace);
        for (int64_t offset : offsets_) taps[n++] = line + offset;
      }
    while (n % 4) taps[n++] = outside;
    const int64_t before = of.begin * row_.step;
    for (int64_t i = 0; i < n; ++i) taps[i] += before;
    DepthwiseRow r = row_;
    r.count = of.end - of.begin;
    r.last -= before;
    r.taps = taps;
    r.weights = weights_->data<char>();
    r.rules = rules_->data<char>();
    r.out = y + before;
    function_(r);
  }

  ConvShape g_;
  LineBuffer rows_;
  QuantizedPair q_;
  int64_t threads_, turned_in_ = 0, turned_out_ = 0;
  DepthwiseRow row_;
  DepthwiseRowFunction function_ = nullptr;
  std::vector<int64_t> offsets_;  ///< of the columns of a window, in bytes
  Packed weights_, rules_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_i8_vnni(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  if (!g->depthwise() || g->c_out != 1 || g->taps() > kMostDepthwiseTaps || g->taps() == 0) return nullptr;
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1],
                                     filter_output_axis(attrs, spec.inputs[1].shape.rank()), g->groups);
  // Differences to other zero points need not fit bytes.
  if (!q || std::ranges::any_of(q->w_zeros, [](int32_t z) { return z != 0; }))
    return spec.refuse("the filter has zero points");
  if (!DepthwiseVnni::line_buffer(*g, *q).small()) return nullptr;
  const auto requantize_params = smelt::requantize_params(spec, g->groups, attrs.rescale_rule());
  if (!requantize_params || requantize_params->steps == RequantizeParams::Steps::kAll ||
      requantize_params->rounding == Rounding::kDoubleHalfAway)
    return nullptr;
  return std::make_unique<DepthwiseVnni>(*g, *q, *requantize_params, spec);
}
#else
std::unique_ptr<Kernel> make_depthwise_i8_vnni(const KernelSpec&) { return nullptr; }
#endif

}  // namespace smelt
