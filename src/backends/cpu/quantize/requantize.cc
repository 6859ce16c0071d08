// Quantized integers to another params, another width, or both, by TFLite's fixed-point factor.
#include <algorithm>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/quantize/requantize.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/fixed_point-inl.h"
#include "backends/cpu/core/kernel.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_REQUANTIZE
#define SMELT_CPU_REQUANTIZE
namespace smelt {
/// y = clamp(rescale_double(x - from_zero, factor) + to_zero).
struct RequantizeRule {
  FixedFactor factor;
  int32_t from_zero, to_zero;
  /// Bounds of y - to_zero in 32 bits.
  template <class To>
  int32_t low() const {
    return saturate_int32(int64_t{std::numeric_limits<To>::min()} - to_zero);
  }
  template <class To>
  int32_t high() const {
    return saturate_int32(int64_t{std::numeric_limits<To>::max()} - to_zero);
  }
};
using RequantizeInts = void (*)(const RequantizeRule&, const void* x, int64_t n, void* y);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class From, class To>
void requantize_ints(const RequantizeRule& rule, const void* x, int64_t n, void* y) {
  const DI d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  const int left = std::max(rule.factor.shift, 0);
  const Rescale<false> rescale({rule.factor.multiplier, std::min(rule.factor.shift, 0)}, 0);
  const VI from_zero = hn::Set(d, rule.from_zero), to_zero = hn::Set(d, rule.to_zero), low = hn::Set(d, rule.low<To>()),
           high = hn::Set(d, rule.high<To>());
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t here = std::min(lanes, n - i);
    const VI v = hn::ShiftLeftSame(load_wide(from + i, 1, here, from_zero), left);
    store_narrow(hn::Add(hn::Min(hn::Max(rescale(v), low), high), to_zero), here, to + i);
  }
}

template <class From>
RequantizeInts requantize_from(DType to) {
  switch (to) {
    case DType::kI8:
      return requantize_ints<From, int8_t>;
    case DType::kU8:
      return requantize_ints<From, uint8_t>;
    case DType::kI16:
      return requantize_ints<From, int16_t>;
    case DType::kI32:
      return requantize_ints<From, int32_t>;
    default:
      return nullptr;
  }
}

RequantizeInts choose_requantize(DType from, DType to) {
  switch (from) {
    case DType::kI8:
      return requantize_from<int8_t>(to);
    case DType::kU8:
      return requantize_from<uint8_t>(to);
    case DType::kI16:
      return requantize_from<int16_t>(to);
    case DType::kI32:
      return requantize_from<int32_t>(to);
    default:
      return nullptr;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class Requantize final : public Kernel {
 public:
  Requantize(const RequantizeRule& rule, RequantizeInts ints, const KernelSpec& spec)
      : rule_(rule),
        ints_(ints),
        n_(spec.inputs[0].shape.elements()),
        from_bytes_(bit_width(spec.inputs[0].dtype) / 8),
        to_bytes_(bit_width(spec.outputs[0].dtype) / 8) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    ctx.threads().parallel_for(n_, 32768, [&](int64_t begin, int64_t end) {
      ints_(rule_, x + begin * from_bytes_, end - begin, y + begin * to_bytes_);
    });
    return Ok();
  }

 private:
  RequantizeRule rule_;
  RequantizeInts ints_;
  int64_t n_, from_bytes_, to_bytes_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_requantize(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.shape != y.shape) return nullptr;
  if (x.quant->rounding == Rounding::kFloatHalfEven && y.quant->rounding == Rounding::kFloatHalfEven) return nullptr;
  const RequantizeRule rule{fixed_factor(static_cast<double>(x.quant->scale()) / static_cast<double>(y.quant->scale())),
                            x.quant->zero_point(), y.quant->zero_point()};
  const RequantizeInts ints = SMELT_FOR_LEVEL(spec.isa, choose_requantize)(x.dtype, y.dtype);
  return ints ? std::make_unique<Requantize>(rule, ints, spec) : nullptr;
}

}  // namespace smelt
#endif
