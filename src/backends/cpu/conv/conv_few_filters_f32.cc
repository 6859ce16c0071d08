// Channels-last convolutions of so few filters that they fill a small part of a vector: the taps of a line of the
// window become columns of one product with the image's pixels, whose results are added up shifted.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_few_filters_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/few_filters.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "base/checked.h"
#include "ops/common/enums.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Output pixels [begin, end) of a line, side by side. Reads up to 3 floats behind the results of a pixel.
void add_tap_columns(const few_filters::TapColumns<float>& c, Bounds bounds, int64_t begin, int64_t end, float* y) {
  const hn::CappedTag<float, 4> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lo = hn::Set(d, bounds.lo), hi = hn::Set(d, bounds.hi);
  int64_t left = (end - begin) * c.filters;
  for (int64_t x = begin; x < end; ++x, y += c.filters, left -= c.filters) {
    const auto taps = c.inside(x);
    for (int64_t f = 0; f < c.filters; f += lanes) {
      auto sum = hn::LoadU(d, c.bias + f);
      const float* from = c.result(x, taps.begin, f);
      for (int64_t k = taps.begin; k < taps.end; ++k, from += c.step()) sum = hn::Add(sum, hn::LoadU(d, from));
      sum = clamp(sum, lo, hi);
      // What a vector holds beyond the filters is written over by the next pixel.
      if (left - f >= lanes) {
        hn::StoreU(sum, d, y + f);
        continue;
      }
      HWY_ALIGN float rest[4];
      hn::Store(sum, d, rest);
      std::copy_n(rest, left - f, y + f);
    }
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct FewFiltersKey {
  FilterKey filter;
  const GemmF32* gemm;
  int64_t taps_of_line;
  auto operator<=>(const FewFiltersKey&) const = default;
};

class ConvFewFiltersF32 final : public Kernel {
 public:
  ConvFewFiltersF32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm),
        act_(spec.attrs<ConvAttrs>().act),
        add_(SMELT_FOR_LEVEL(spec.isa, add_tap_columns)),
        threads_(std::max(spec.threads, 1)),
        has_bias_(spec.has(2)) {
    columns_ = g.kernel[2] * g.c_out;
    stretches_ = ceil_div(g.out[2], kStretch);
    stretch_ = ceil_div(g.out[2], stretches_);
    slot_ = round_up((stretch_ + (g.kernel[2] - 1) * g.dilation[2]) * columns_ + kMostFilters, 16);
    const Tensor& filter = *spec.constant(1);
    const FewFiltersKey key{{g, filter, nullptr}, &gemm, g.kernel[2]};
    packed_ = spec.packs.get(
        key, [&] { return pack(filter.read_unaligned_once()); },
        [&] { return spec.contents("conv_few_filters_f32", key.filter.numbers(), {key.taps_of_line}); });
  }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the columns of a convolution");
    const auto* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<float>();
    float bias[2 * kMostFilters] = {};
    if (has_bias_) std::copy_n(ctx.input(2).data<float>(), g_.c_out, bias);
    const EpilogueRun epilogue(epilogue_, ctx);
    in_slots(ctx.threads(), threads_, g_.batch * g_.out[1] * stretches_,
             [&](int64_t unit, int64_t slot) { stretch(x, y, epilogue, bias, unit, scratch + slot * slot_); });
    return Ok();
  }

 private:
  static constexpr int64_t kMostFilters = few_filters::kMostFilters, kMostLines = few_filters::kMostLines,
                           kStretch = few_filters::kStretch;

  /// Columns (tap of a line, filter) of rows (line of the window, channel).
  Packed pack(const Tensor& given) const {
    const std::byte* const filter = given.unaligned_bytes();
    constexpr int64_t kFloat = sizeof(float);
    const int64_t k = g_.kernel[1] * g_.c_in;
    std::vector<float> ordered(static_cast<size_t>(columns_ * k));
    float* to = ordered.data();
    for (int64_t kx = 0; kx < g_.kernel[2]; ++kx)
      for (int64_t o = 0; o < g_.c_out; ++o)
        for (int64_t ky = 0; ky < g_.kernel[1]; ++ky)
          for (int64_t i = 0; i < g_.c_in; ++i)
            std::memcpy(to++,
                        filter + (o * g_.filter_o + i * g_.filter_i + (ky * g_.kernel[2] + kx) * g_.filter_s) * kFloat,
                        sizeof(float));
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(gemm_.packed_size(k, columns_)) * sizeof(float));
    gemm_.pack(ordered.data(), 1, k, k, columns_, nullptr, packed->data<float>());
    return packed;
  }
  /// A part of an output line.
  void stretch(const float* x, float* y, const EpilogueRun& epilogue, const float* bias, int64_t unit,
               float* results) const {
    const int64_t line = unit / stretches_, image = line / g_.out[1], oy = line % g_.out[1];
    const int64_t begin = unit % stretches_ * stretch_, end = std::min(begin + stretch_, g_.out[2]);
    const int64_t reach = (g_.kernel[2] - 1) * g_.dilation[2];
    const int64_t first = std::clamp<int64_t>(begin - g_.pad[2], 0, g_.in[2]);
    const int64_t last = std::clamp<int64_t>(end - g_.pad[2] + reach, first, g_.in[2]);
    ptrdiff_t at[kMostLines], rows[kMostLines];
    ptrdiff_t n = 0;
    for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
      const int64_t iy = oy * g_.stride[1] - g_.pad[1] + ky * g_.dilation[1];
      if (iy < 0 || iy >= g_.in[1]) continue;
      at[n] = ((image * g_.in[1] + iy) * g_.in[2] + first) * g_.c_in;
      rows[n++] = ky * g_.c_in;
    }
    const Bounds none = activation_bounds({}), bounds = activation_bounds(act_);
    if (n > 0 && first < last)
      gemm_.product({x, results, g_.c_in, columns_, last - first}, {at, n, g_.c_in, rows}, g_.kernel[1] * g_.c_in,
                    columns_, packed_->data<float>(), 0, gemm_.panels(columns_), nullptr, none.lo, none.hi);
    const int64_t width = n > 0 ? g_.in[2] : 0;  // padding alone: no tap adds anything
    float* const to = y + (line * g_.out[2] + begin) * g_.c_out;
    add_({results, columns_, first, g_.kernel[2], g_.dilation[2], g_.pad[2], width, g_.c_out, bias}, bounds, begin, end,
         to);
    apply_activation(act_, to, end - begin, g_.c_out, g_.c_out);
    if (epilogue) epilogue(to, end - begin, g_.c_out, g_.c_out);
  }

  ConvShape g_;
  const GemmF32& gemm_;
  Activation act_;
  EpilogueF32 epilogue_;
  void (*add_)(const few_filters::TapColumns<float>&, Bounds, int64_t, int64_t, float*);
  int64_t threads_;
  bool has_bias_;
  int64_t columns_ = 0, stretches_ = 1, stretch_ = 1, slot_ = 0;
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_few_filters_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const GemmF32& gemm = gemm_f32(spec.isa);
  if (!few_filters::pay_off(*g, gemm.lanes)) return spec.refuse("filters fill vectors as well as taps would");
  return std::make_unique<ConvFewFiltersF32>(*g, gemm, spec);
}

}  // namespace smelt
#endif
