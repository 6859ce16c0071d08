// Accumulators of int32 rescaled in fixed point (CMSIS-NN), row by row of one channel.
#include <algorithm>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/fixed_scale.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/fixed_point-inl.h"
#include "backends/cpu/core/kernel.h"
#include "ops/elementwise/elementwise.h"

#ifndef SMELT_CPU_FIXED_SCALE
#define SMELT_CPU_FIXED_SCALE
namespace smelt {
/// y = clamp(x * multiplier * 2^-right * 2^left, rounded twice, + zero, low, high) for n values.
struct FixedScaleRow {
  int32_t multiplier = 0, left = 0, right = 0, zero = 0, low = 0, high = 0;
};
using ScaleRow = void (*)(const FixedScaleRow& f, const int32_t* x, int64_t n, void* y);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void scale_row(const FixedScaleRow& f, const int32_t* x, int64_t n, void* to) {
  const DI d;
  T* y = static_cast<T*>(to);
  const VI multiplier = hn::Set(d, f.multiplier), zero = hn::Set(d, f.zero);
  const VI low = hn::Set(d, f.low), high = hn::Set(d, f.high);
  const auto mask = static_cast<int32_t>((int64_t{1} << f.right) - 1);
  const VI below = hn::Set(d, mask), half = hn::Set(d, mask >> 1);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t here = std::min(lanes, n - i);
    const VI product = high_mul(hn::ShiftLeftSame(load_wide(x + i, 1, here, hn::Zero(d)), f.left), multiplier);
    // Ties away from zero.
    const VI threshold = hn::Sub(half, hn::BroadcastSignBit(product));
    const VI up = hn::VecFromMask(d, hn::Gt(hn::And(product, below), threshold));
    const VI shifted = hn::Sub(hn::ShiftRightSame(product, f.right), up);
    // The sum with the zero point may leave 32 bits: what is clamped is compared before it.
    const VI sum = hn::Add(hn::Max(hn::Min(shifted, hn::Sub(high, zero)), hn::Sub(low, zero)), zero);
    store_narrow(sum, here, y + i);
  }
}

ScaleRow choose_scale_row(DType t) {
  switch (t) {
    case DType::kI8:
      return scale_row<int8_t>;
    case DType::kU8:
      return scale_row<uint8_t>;
    case DType::kI16:
      return scale_row<int16_t>;
    default:
      return nullptr;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class FixedScale final : public Kernel {
 public:
  FixedScale(const FixedScaleAttrs& a, const Shape& x, ScaleRow scale, int64_t unit) : scale_(scale), unit_(unit) {
    for (size_t c = 0; c < a.multipliers.size(); ++c) {
      const auto shift = static_cast<int32_t>(a.shifts[c]);
      rows_.push_back({static_cast<int32_t>(a.multipliers[c]), std::max(shift, 0), std::max(-shift, 0),
                       static_cast<int32_t>(a.zero_point), static_cast<int32_t>(a.min), static_cast<int32_t>(a.max)});
    }
    if (rows_.size() == 1) {
      length_ = x.elements();
      return;
    }
    for (int d = 0; d < static_cast<int>(a.axis); ++d) outer_ *= x[d];
    for (int d = static_cast<int>(a.axis) + 1; d < x.rank(); ++d) length_ *= x[d];
  }
  int64_t length() const { return length_; }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<int32_t>();
    auto* y = ctx.output(0).data<std::byte>();
    const auto channels = static_cast<int64_t>(rows_.size());
    ctx.threads().parallel_for(
        outer_ * channels, std::max<int64_t>(1, 16384 / length_), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            scale_(rows_[static_cast<size_t>(i % channels)], x + i * length_, length_, y + i * length_ * unit_);
        });
    return Ok();
  }

 private:
  std::vector<FixedScaleRow> rows_;  ///< one, or one a channel
  ScaleRow scale_;
  int64_t unit_, outer_ = 1, length_ = 1;  ///< length: neighbours of one channel
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_fixed_scale(const KernelSpec& spec) {
  const auto& a = spec.attrs<FixedScaleAttrs>();
  const ScaleRow scale = SMELT_FOR_LEVEL(spec.isa, choose_scale_row)(spec.outputs[0].dtype);
  constexpr int64_t kFar = int64_t{1} << 30;
  if (!scale || spec.inputs[0].shape.elements() == 0) return spec.refuse("an output of another type than 8 or 16 bits");
  if (a.zero_point < -kFar || a.zero_point > kFar) return spec.refuse("a zero point far from the output's type");
  auto kernel = std::make_unique<FixedScale>(a, spec.inputs[0].shape, scale, bit_width(spec.outputs[0].dtype) / 8);
  if (kernel->length() < 8) return spec.refuse("fewer than 8 neighbours of one channel");
  return kernel;
}

}  // namespace smelt
#endif
