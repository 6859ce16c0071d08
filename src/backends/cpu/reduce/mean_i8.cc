#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "backends/cpu/reduce/reduce_view.h"
#include "ops/common/fixed_point.h"
#include "ops/reduce/reduce_quantized.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Accumulators in 32 bits, then as the reference kernel does it: real numbers where ties go to even, else a factor
/// with the division by the count folded in, in fixed point or as XNNPACK has it in float32.
class MeanI8 final : public Kernel {
 public:
  MeanI8(const ReduceView& v, const ValueType& x, const ValueType& y, Rounding rounding, int64_t threads, Isa isa)
      : v_(v),
        to_xnnpack_(*x.quant, *y.quant, v.count, true),
        real_(rounding == Rounding::kFloatHalfEven),
        xnnpack_(rounding == Rounding::kXnnpack),
        away_(y.quant->rounding != Rounding::kFloatHalfEven),
        x_scale_(x.quant->scale()),
        y_scale_(y.quant->scale()),
        signed_(x.dtype == DType::kI8),
        x_zero_(x.quant->zero_point()),
        y_zero_(y.quant->zero_point()),
        threads_(threads),
        ops_(vector_ops(isa)) {
    factor_ = fixed_factor(static_cast<double>(x.quant->scale()) / static_cast<double>(y.quant->scale()));
    int shift = std::min(63 - std::countl_zero(static_cast<uint64_t>(v.count)), 32);
    shift = std::max(std::min(shift, 31 + factor_.shift), 0);
    factor_.multiplier = static_cast<int32_t>((int64_t{factor_.multiplier} << shift) / v.count);
    factor_.shift -= shift;
    if (real_ || xnnpack_ || factor_.shift > 0 || factor_.shift < -31 || std::abs(x_zero_) > 255) return;
    const auto n = static_cast<size_t>(v.inner) + 64;
    rule_.rounding = Rounding::kFixedDouble;
    rule_.is_signed = signed_;
    rule_.zero = y_zero_;
    rule_.low = signed_ ? -128 : 0;
    rule_.high = signed_ ? 127 : 255;
    rule_.factors.assign(n, 0);
    rule_.multipliers.assign(n, factor_.multiplier);
    rule_.shifts.assign(n, -factor_.shift);
    rule_.reach = std::min<int64_t>(INT32_MAX, v.count * 510);
    rule_.prepare();
    rescale_ = requantize_accumulators(isa, rule_);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_) * slot_bytes(); }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a reduction");
    in_slots(ctx.threads(), threads_, v_.outer, [&](int64_t i, int64_t slot) {
      auto** taps = reinterpret_cast<const uint8_t**>(scratch + static_cast<size_t>(slot) * slot_bytes());
      auto* sums = reinterpret_cast<int32_t*>(taps + v_.count);
      for (int64_t t = 0; t < v_.count; ++t) taps[t] = x + (i * v_.count + t) * v_.inner;
      ops_.sum_taps_i8(taps, v_.count, v_.inner, signed_, sums);
      if (rescale_ && v_.inner >= kShort) {
        for (int64_t c = 0; c < v_.inner; ++c) sums[c] -= static_cast<int32_t>(x_zero_ * v_.count);
        rescale_(rule_, sums, v_.inner, 1, v_.inner, 0, y + i * v_.inner, v_.inner);
      } else if (xnnpack_) {
        rescale_xnnpack(sums, y + i * v_.inner);
      } else {
        for (int64_t c = 0; c < v_.inner; ++c) y[i * v_.inner + c] = quantized(sums[c]);
      }
    });
    return Ok();
  }

 private:
  size_t slot_bytes() const { return static_cast<size_t>(padded_bytes(v_.count * 8 + v_.inner * 4)); }
  static constexpr int64_t kShort = 8;  ///< so many means are rescaled together
  uint8_t quantized(int32_t sum) const {
    const double lo = signed_ ? -128 : 0, hi = signed_ ? 127 : 255;
    if (real_) {
      const double total = static_cast<double>(x_scale_) * static_cast<double>(sum - int64_t{x_zero_} * v_.count);
      const float scaled = static_cast<float>(total / static_cast<double>(v_.count)) / y_scale_;
      const double r = static_cast<double>(away_ ? std::round(scaled) : std::nearbyint(scaled)) + y_zero_;
      return static_cast<uint8_t>(r != r ? 0 : static_cast<int64_t>(std::clamp(r, lo, hi)));
    }
    const auto centred = static_cast<int32_t>(sum - int64_t{x_zero_} * v_.count);
    const int64_t q = int64_t{rescale_double(centred, factor_)} + y_zero_;
    return static_cast<uint8_t>(std::clamp(q, static_cast<int64_t>(lo), static_cast<int64_t>(hi)));
  }
  void rescale_xnnpack(const int32_t* sums, uint8_t* y) const {
    constexpr float kToInteger = 0x1.8p23f;  // added to a small number it leaves no fraction: rounded to even
    const float lo = signed_ ? -128 : 0, hi = signed_ ? 127 : 255;
    for (int64_t c = 0; c < v_.inner; ++c) {
      const float r = std::max(lo, std::min(hi, to_xnnpack_(sums[c])));
      y[c] = static_cast<uint8_t>(static_cast<int32_t>((r + kToInteger) - kToInteger));
    }
  }
  ReduceView v_;
  XnnpackReduceRescale to_xnnpack_;
  bool real_, xnnpack_, away_;
  float x_scale_, y_scale_;
  bool signed_;
  int32_t x_zero_, y_zero_;
  int64_t threads_;
  const VectorOps& ops_;
  FixedFactor factor_;
  RequantizeParams rule_;
  RequantizeAccumulators rescale_ = nullptr;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_mean_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (attrs.fn != Reduction::kMean || x.dtype != y.dtype) return nullptr;
  for (const ValueType* t : {&x, &y})
    if (!is_per_tensor(t->quant)) return nullptr;
  const auto v = reduce_view(spec);
  if (!v || v->count > (1 << 22)) return nullptr;
  return std::make_unique<MeanI8>(*v, x, y, attrs.rounding, std::max(spec.threads, 1), spec.isa);
}

}  // namespace smelt
