// XNNPACK's sums, differences and products of 8-bit values, a vector at a time: equal to XnnpackArithmetic bit by bit.
#include <algorithm>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/binary_xnnpack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/fixed_point-inl.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/elementwise/xnnpack_rules.h"
#include "tensor/quant_params.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void xnnpack_vector(const XnnpackArithmetic& f, const void* a, int64_t sa, const void* b, int64_t sb, void* y,
                    int64_t n) {
  const DI d;
  const hn::RebindToFloat<DI> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  const VI zero_a = hn::Set(d, f.zero_a), zero_b = hn::Set(d, f.zero_b), zero = hn::Set(d, f.zero),
           low = hn::Set(d, f.low), high = hn::Set(d, f.high);
  const auto each = [&](auto combine) HWY_ATTR {
    for (int64_t i = 0; i < n; i += lanes) {
      const int64_t here = std::min(lanes, n - i);
      const VI v = combine(load_wide(p + i * sa, sa, here, zero_a), load_wide(q + i * sb, sb, here, zero_b));
      store_narrow(hn::Min(hn::Max(hn::Add(v, zero), low), high), here, to + i);
    }
  };
  if (f.product) {
    const auto scale = hn::Set(df, f.scale);
    return each([&](VI u, VI v)
                    HWY_ATTR { return nearest_in_range(hn::Mul(hn::ConvertTo(df, hn::Mul(u, v)), scale)); });
  }
  const VI by_a = hn::Set(d, f.a), by_b = hn::Set(d, f.b), half = hn::Set(d, 1 << (f.shift - 1));
  each([&](VI u, VI v) HWY_ATTR {
    return hn::ShiftRightSame(hn::Add(hn::Add(hn::Mul(u, by_a), hn::Mul(v, by_b)), half), f.shift);
  });
}

using XnnpackVector = void (*)(const XnnpackArithmetic&, const void*, int64_t, const void*, int64_t, void*, int64_t);
XnnpackVector choose_xnnpack_vector(DType dtype) {
  return dtype == DType::kI8 ? xnnpack_vector<int8_t> : xnnpack_vector<uint8_t>;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class BinaryXnnpack final : public Kernel {
 public:
  BinaryXnnpack(const XnnpackArithmetic& f, const KernelSpec& spec)
      : f_(f),
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)),
        rows_(SMELT_FOR_LEVEL(spec.isa, choose_xnnpack_vector)(spec.outputs[0].dtype)) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, 1, 1, [&](const void* a, const void* b, void* y, int64_t n) {
      rows_(f_, a, loops_.inner_a, b, loops_.inner_b, y, n);
    });
    return Ok();
  }

 private:
  XnnpackArithmetic f_;
  BroadcastLoops loops_;
  void (*rows_)(const XnnpackArithmetic&, const void*, int64_t, const void*, int64_t, void*, int64_t);
};

}  // namespace

std::unique_ptr<Kernel> make_binary_xnnpack(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (attrs.rounding != Rounding::kXnnpack) return nullptr;
  for (const ValueType* t : {&spec.inputs[0], &spec.inputs[1], &spec.outputs[0]})
    if (!is_per_tensor(t->quant) || t->quant->zero_point() < -128 || t->quant->zero_point() > 255) return nullptr;
  const auto f =
      XnnpackArithmetic::make(attrs, type_only(spec.inputs[0]), type_only(spec.inputs[1]), type_only(spec.outputs[0]));
  return f ? std::make_unique<BinaryXnnpack>(*f, spec) : nullptr;
}

}  // namespace smelt
#endif
