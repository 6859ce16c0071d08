// Largest and smallest numbers of neighbouring dimensions: integers, quantized ones with unchanged parameters, and
// float32, where NaN beats numbers.
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/reduce/reduce_extreme.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/reduce/reduce_view.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_REDUCE_EXTREME
#define SMELT_CPU_REDUCE_EXTREME
namespace smelt {
/// Reduces x [count, inner] to y [inner].
using ReduceRows = void (*)(const void* x, int64_t count, int64_t inner, void* y);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kMin, class V>
HWY_INLINE V extreme(V a, V v) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    const auto better = kMin ? hn::Lt(v, a) : hn::Gt(v, a);
    return hn::IfThenElse(hn::Or(better, hn::IsNaN(v)), v, a);
  } else {
    return kMin ? hn::Min(a, v) : hn::Max(a, v);
  }
}

/// Numbers of one row; they may be read in any order.
template <class T, bool kMin>
T of_row(const T* HWY_RESTRICT x, int64_t n) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  T ends[HWY_MAX_BYTES / sizeof(T)];
  int64_t i = 0, left = 1;
  ends[0] = x[0];
  if (n >= 2 * lanes) {
    auto a = hn::LoadU(d, x), b = hn::LoadU(d, x + lanes);
    for (i = 2 * lanes; i + 2 * lanes <= n; i += 2 * lanes) {
      a = extreme<kMin>(a, hn::LoadU(d, x + i));
      b = extreme<kMin>(b, hn::LoadU(d, x + i + lanes));
    }
    hn::StoreU(extreme<kMin>(a, b), d, ends);
    left = lanes;
  }
  auto best = hn::LoadU(one, ends);
  for (int64_t k = 1; k < left; ++k) best = extreme<kMin>(best, hn::LoadU(one, ends + k));
  for (; i < n; ++i) best = extreme<kMin>(best, hn::LoadU(one, x + i));
  return hn::GetLane(best);
}

template <class T, bool kMin>
void reduce_rows(const void* from, int64_t count, int64_t inner, void* to) {
  const T* HWY_RESTRICT x = static_cast<const T*>(from);
  T* HWY_RESTRICT y = static_cast<T*>(to);
  if (inner == 1) {
    *y = of_row<T, kMin>(x, count);
    return;
  }
  const auto step = [&](auto d, int64_t c) HWY_ATTR {
    auto best = hn::LoadU(d, x + c);
    for (int64_t k = 1; k < count; ++k) best = extreme<kMin>(best, hn::LoadU(d, x + k * inner + c));
    hn::StoreU(best, d, y + c);
  };
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= inner; c += lanes) step(d, c);
  for (; c < inner; ++c) step(hn::CappedTag<T, 1>(), c);
}

template <bool kMin>
ReduceRows choose_extreme_of(DType t) {
  switch (t) {
    case DType::kI8:
      return reduce_rows<int8_t, kMin>;
    case DType::kU8:
      return reduce_rows<uint8_t, kMin>;
    case DType::kI16:
      return reduce_rows<int16_t, kMin>;
    case DType::kU16:
      return reduce_rows<uint16_t, kMin>;
    case DType::kI32:
      return reduce_rows<int32_t, kMin>;
    case DType::kI64:
      return reduce_rows<int64_t, kMin>;
    case DType::kF32:
      return reduce_rows<float, kMin>;
    default:
      return nullptr;
  }
}
ReduceRows choose_extreme(DType t, bool min) { return min ? choose_extreme_of<true>(t) : choose_extreme_of<false>(t); }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class ReduceExtreme final : public Kernel {
 public:
  ReduceExtreme(const ReduceView& view, ReduceRows rows, int64_t unit) : v_(view), rows_(rows), unit_(unit) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    const int64_t image = v_.count * v_.inner;
    ctx.threads().parallel_for(v_.outer, std::max<int64_t>(1, 32768 / image), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) rows_(x + i * image * unit_, v_.count, v_.inner, y + i * v_.inner * unit_);
    });
    return Ok();
  }

 private:
  ReduceView v_;
  ReduceRows rows_;
  int64_t unit_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_reduce_extreme(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (attrs.fn != Reduction::kMax && attrs.fn != Reduction::kMin) return spec.refuse("neither a maximum nor a minimum");
  if (x.dtype != y.dtype || !x.quant != !y.quant) return spec.refuse("input and output differ in type");
  if (x.quant && (!is_per_tensor(x.quant) || !same_quant_params(x.quant, y.quant)))
    return spec.refuse("the quantization parameters change");
  const auto v = reduce_view(spec);
  if (!v) return spec.refuse("dynamic axes, or reduced dimensions that are no neighbours");
  const ReduceRows rows = SMELT_FOR_LEVEL(spec.isa, choose_extreme)(x.dtype, attrs.fn == Reduction::kMin);
  return rows ? std::make_unique<ReduceExtreme>(*v, rows, bit_width(x.dtype) / 8) : nullptr;
}

}  // namespace smelt
#endif
