// Channels-last convolutions of bytes by so few filters that they fill a small part of a vector: the taps of a line of
// the window become columns of one product with the image's pixels, whose accumulators are added up shifted.
#include <algorithm>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_few_filters_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/few_filters.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "base/checked.h"
#include "ops/common/quantized_pair.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The sums of output pixels [begin, end) of a line, `stride` apart. Reads and writes whole vectors of 4.
void add_tap_accumulators(const few_filters::TapColumns<int32_t>& c, int64_t begin, int64_t end, int64_t stride,
                          int32_t* sums) {
  const hn::CappedTag<int32_t, 4> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t x = begin; x < end; ++x, sums += stride) {
    const auto taps = c.inside(x);
    for (int64_t f = 0; f < c.filters; f += lanes) {
      auto sum = hn::LoadU(d, c.bias + f);
      const int32_t* from = c.result(x, taps.begin, f);
      for (int64_t k = taps.begin; k < taps.end; ++k, from += c.step()) sum = hn::Add(sum, hn::LoadU(d, from));
      hn::StoreU(sum, d, sums + f);
    }
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct FewFiltersI8Key {
  FilterKey filter;
  const GemmI8* gemm;
  int64_t taps_of_line;
  int32_t x_zero;
  bool x_signed;
  auto operator<=>(const FewFiltersI8Key&) const = default;
};

class ConvFewFiltersI8 final : public Kernel {
 public:
  /// False unless few_filters::pay_off(), pixels are read where they lie, and the products saved take longer than
  /// adding up columns.
  static bool pays_off(const ConvShape& g, const GemmI8& gemm) {
    if (!gemm.bytes || !g.channels_last || g.c_in % 4 != 0 || !few_filters::pay_off(g, gemm.lanes)) return false;
    constexpr int64_t kAdding = 40;  // what a pixel takes in products of vectors, beside its taps
    const int64_t saved = g.kernel[2] * ceil_div(g.c_out, gemm.lanes) - ceil_div(g.kernel[2] * g.c_out, gemm.lanes);
    return saved * g.kernel[1] * g.c_in / 4 >= kAdding + 2 * g.kernel[2] * ceil_div(g.c_out, 4);
  }
  ConvFewFiltersI8(const ConvShape& g, const QuantizedPair& q, RequantizeParams requantize_params, const GemmI8& gemm,
                   const KernelSpec& spec)
      : g_(g),
        x_signed_(q.x_signed),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_accumulators(spec.isa, requantize_params_)),
        gemm_(gemm),
        add_(SMELT_FOR_LEVEL(spec.isa, add_tap_accumulators)),
        threads_(std::max(spec.threads, 1)) {
    columns_ = g.kernel[2] * g.c_out;
    stretches_ = ceil_div(g.out[2], kStretch);
    stretch_ = ceil_div(g.out[2], stretches_);
    const int64_t most = std::min(g.in[2], stretch_ + (g.kernel[2] - 1) * g.dilation[2]);
    columns_size_ = round_up(most * columns_ + kMostFilters, 16);
    slot_ = columns_size_ + stretch_ * kMostFilters + kMostFilters;
    outside_.assign(static_cast<size_t>(most * g.c_in), static_cast<uint8_t>(q.x_zero));
    requantize_params_.bias.resize(2 * kMostFilters);
    const Tensor& filter = *spec.constant(1);
    const FewFiltersI8Key key{{g, filter, nullptr}, &gemm, g.kernel[2], q.x_zero, q.x_signed};
    packed_ = spec.packs.get(
        key,
        [&] {
          const int32_t zero = GemmI8::int8_zero_point(q.x_signed, q.x_zero);
          return pack(ordered_filter_int8(g, filter, q.w_zeros), zero);
        },
        [&] {
          return spec.contents("conv_few_filters_i8", key.filter.numbers(),
                               {key.taps_of_line, key.x_zero, key.x_signed, gemm.addend_rows});
        });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_) * sizeof(int32_t); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<int32_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the columns of a convolution");
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    in_slots(ctx.threads(), threads_, g_.batch * g_.out[1] * stretches_,
             [&](int64_t unit, int64_t slot) { stretch(x, y, unit, scratch + slot * slot_); });
    return Ok();
  }

 private:
  static constexpr int64_t kMostFilters = few_filters::kMostFilters, kMostLines = few_filters::kMostLines,
                           kStretch = few_filters::kStretch;

  /// Columns (tap of a line, filter) of rows (line of the window, channel), from [filter][line][tap][channel].
  Packed pack(const std::vector<int8_t>& filter, int32_t zero) const {
    const int64_t k = g_.kernel[1] * g_.c_in;
    std::vector<int8_t> ordered(static_cast<size_t>(columns_ * k));
    int8_t* to = ordered.data();
    for (int64_t kx = 0; kx < g_.kernel[2]; ++kx)
      for (int64_t o = 0; o < g_.c_out; ++o)
        for (int64_t ky = 0; ky < g_.kernel[1]; ++ky, to += g_.c_in)
          std::copy_n(filter.data() + ((o * g_.kernel[1] + ky) * g_.kernel[2] + kx) * g_.c_in, g_.c_in, to);
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(gemm_.packed_bytes(k, columns_)));
    gemm_.pack(ordered.data(), k, columns_, nullptr, zero, packed->data<char>());
    return packed;
  }
  /// A part of an output line.
  void stretch(const uint8_t* x, uint8_t* y, int64_t unit, int32_t* scratch) const {
    const int64_t line = unit / stretches_, image = line / g_.out[1], oy = line % g_.out[1];
    const int64_t begin = unit % stretches_ * stretch_, end = std::min(begin + stretch_, g_.out[2]);
    const int64_t reach = (g_.kernel[2] - 1) * g_.dilation[2];
    const int64_t first = std::clamp<int64_t>(begin - g_.pad[2], 0, g_.in[2]);
    const int64_t last = std::clamp<int64_t>(end - g_.pad[2] + reach, first, g_.in[2]);
    const uint8_t* lines[kMostLines];
    for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
      const int64_t iy = oy * g_.stride[1] - g_.pad[1] + ky * g_.dilation[1];
      lines[ky] =
          iy < 0 || iy >= g_.in[1] ? outside_.data() : x + ((image * g_.in[1] + iy) * g_.in[2] + first) * g_.c_in;
    }
    if (first < last) product(lines, last - first, scratch);
    int32_t* const sums = scratch + columns_size_;
    add_({scratch, columns_, first, g_.kernel[2], g_.dilation[2], g_.pad[2], g_.in[2], g_.c_out,
          requantize_params_.bias.data()},
         begin, end, kMostFilters, sums);
    rescale_(requantize_params_, sums, kMostFilters, end - begin, g_.c_out, 0,
             y + (line * g_.out[2] + begin) * g_.c_out, g_.c_out);
  }
  /// The columns of `pixels` neighbours, whose lines of the window start at `lines`.
  void product(const uint8_t* const* lines, int64_t pixels, int32_t* columns) const {
    alignas(64) int32_t acc[GemmI8::kMaxTile];
    TileState state;
    const int64_t steps = g_.c_in / 4, k = g_.kernel[1] * g_.c_in, nr = gemm_.nr();
    const EvenTiles tiles(pixels, gemm_.mr);
    for (int64_t p = 0; p < gemm_.panels(columns_); ++p) {
      const auto& of_height = gemm_.tiles_of(x_signed_, columns_ - p * nr);
      const auto* panel = packed_->data<char>() + gemm_.panel_offset(k, p);
      const int64_t n = std::min(nr, columns_ - p * nr);
      for (int64_t t = 0, pixel = 0, here = 0; t < tiles.count; ++t, pixel += here) {
        here = tiles.rows(t);
        const void* starts[kMostLines];
        for (int64_t i = 0; i < g_.kernel[1]; ++i) starts[i] = lines[i] + pixel * g_.c_in;
        of_height[static_cast<size_t>(here - 1)](starts, g_.kernel[1], g_.c_in, panel, steps, acc, nullptr, state);
        for (int64_t r = 0; r < here; ++r) std::copy_n(acc + r * nr, n, columns + (pixel + r) * columns_ + p * nr);
      }
    }
  }

  ConvShape g_;
  bool x_signed_;
  RequantizeParams requantize_params_;
  RequantizeAccumulators rescale_;
  const GemmI8& gemm_;
  void (*add_)(const few_filters::TapColumns<int32_t>&, int64_t, int64_t, int64_t, int32_t*);
  int64_t threads_;
  int64_t columns_ = 0, stretches_ = 1, stretch_ = 1, columns_size_ = 0, slot_ = 0;
  std::vector<uint8_t> outside_;  ///< a line of zero points
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_few_filters_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const int axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, g->all_out());
  if (!q) return nullptr;
  const GemmI8& gemm = gemm_i8(spec.isa, filter_fits_int8(*g, *spec.constant(1), q->w_zeros));
  if (!ConvFewFiltersI8::pays_off(*g, gemm)) return spec.refuse("filters fill vectors as well as taps would");
  auto params = requantize_params(spec, g->all_out(), attrs.rescale_rule());
  if (!params) return nullptr;
  return std::make_unique<ConvFewFiltersI8>(*g, *q, std::move(*params), gemm, spec);
}

}  // namespace smelt
#endif
