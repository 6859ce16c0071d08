#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/quantize/near_means.h"
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
        parts_(v.outer == 1 ? std::clamp<int64_t>(v.count * v.inner / kPart, 1, std::min(threads, v.count)) : 1),
        ops_(vector_ops(isa)),
        near_(near_means(isa)),
        means_({x.quant->scale(), x.quant->zero_point()}, {y.quant->scale(), y.quant->zero_point()}, v.count, v.count) {
    means_.low = signed_ ? -128 : 0;
    means_.high = signed_ ? 127 : 255;
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
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_bytes()); }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a reduction");
    if (parts_ == 1) {
      in_slots(ctx.threads(), threads_, v_.outer, [&](int64_t i, int64_t slot) {
        rescale(sum(x + i * v_.count * v_.inner, 0, v_.count, scratch + slot * slot_bytes()), y + i * v_.inner);
      });
      return Ok();
    }
    in_slots(ctx.threads(), threads_, parts_, [&](int64_t part, int64_t) {
      sum(x, v_.count * part / parts_, v_.count * (part + 1) / parts_, scratch + part * slot_bytes());
    });
    int32_t* const sums = sums_in(scratch);
    for (int64_t part = 1; part < parts_; ++part) {
      const int32_t* const more = sums_in(scratch + part * slot_bytes());
      for (int64_t c = 0; c < v_.inner; ++c) sums[c] += more[c];
    }
    rescale(sums, y);
    return Ok();
  }

 private:
  static constexpr int64_t kShort = 8;        ///< so many means are rescaled together
  static constexpr int64_t kPart = 16 << 10;  ///< bytes that a thread takes of one image at least
  int64_t slot_bytes() const { return workspace_stride(padded_bytes(v_.count * 8 + v_.inner * 4), threads_); }
  int32_t* sums_in(char* slot) const { return reinterpret_cast<int32_t*>(slot + v_.count * 8); }
  /// Sums of the taps [first, last) of an image, in a slot of scratch memory.
  int32_t* sum(const uint8_t* image, int64_t first, int64_t last, char* slot) const {
    if (v_.inner == 1) {
      const int32_t flip = signed_ ? 128 : 0;
      *sums_in(slot) =
          sum_of(image + first, image + last, static_cast<uint8_t>(flip)) - flip * static_cast<int32_t>(last - first);
      return sums_in(slot);
    }
    auto** const taps = reinterpret_cast<const uint8_t**>(slot);
    for (int64_t t = first; t < last; ++t) taps[t - first] = image + t * v_.inner;
    ops_.sum_taps_i8(taps, last - first, v_.inner, signed_, sums_in(slot));
    return sums_in(slot);
  }
  /// Of bytes with their sign bits flipped, or as they are.
  [[gnu::noinline]] static int32_t sum_of(const uint8_t* from, const uint8_t* end, uint8_t flip) {
    constexpr int64_t kTogether = 32;
    int32_t sum = 0;
    for (; end - from >= kTogether; from += kTogether)
      for (int64_t i = 0; i < kTogether; ++i) sum += from[i] ^ flip;
    for (; from < end; ++from) sum += *from ^ flip;
    return sum;
  }
  void rescale(int32_t* sums, uint8_t* y) const {
    if (rescale_ && v_.inner >= kShort) {
      for (int64_t c = 0; c < v_.inner; ++c) sums[c] -= static_cast<int32_t>(x_zero_ * v_.count);
      rescale_(rule_, sums, v_.inner, 1, v_.inner, 0, y, v_.inner);
    } else if (xnnpack_) {
      rescale_xnnpack(sums, y);
    } else if (real_) {
      each_mean(near_, means_, sums, v_.inner, y, [&](int64_t c) { return quantized(sums[c]); });
    } else {
      for (int64_t c = 0; c < v_.inner; ++c) y[c] = quantized(sums[c]);
    }
  }
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
  int64_t parts_;  ///< of the taps of a single image, which threads share
  const VectorOps& ops_;
  NearMeansFn near_;
  NearMeans means_;
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
