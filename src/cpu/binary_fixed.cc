// TFLite's fixed-point sums, differences and products, a vector at a time: equal to FixedArithmetic bit by bit.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/binary_fixed.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/broadcast.h"
#include "cpu/fixed-inl.h"
#include "cpu/kernel.h"
#include "ops/elementwise/binary_fixed.h"
#include "tensor/numeric.h"
#include "tensor/one_grid.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, bool kSmall>
void fixed_rows(const FixedArithmetic& f, const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
  const DI d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  const VI zero_a = hn::Set(d, f.zero_a), zero_b = hn::Set(d, f.zero_b);
  const VI low = hn::Set(d, static_cast<int32_t>(f.low)),
           high = hn::Set(d, static_cast<int32_t>(std::max(f.low, f.high)));
  const Rescale<kSmall> of_a(f.product ? FixedFactor{} : f.a, 0), of_b(f.product ? FixedFactor{} : f.b, 0),
      of_out(f.out, f.zero);
  const auto each = [&](auto combine) HWY_ATTR {
    for (int64_t i = 0; i < n; i += lanes) {
      const int64_t here = std::min(lanes, n - i);
      const VI v = combine(load_wide(p + i * sa, sa, here, zero_a), load_wide(q + i * sb, sb, here, zero_b));
      store_narrow(hn::Min(hn::Max(of_out(v), low), high), here, to + i);
    }
  };
  if (f.product) return each([&](VI u, VI v) HWY_ATTR { return hn::Mul(u, v); });
  const auto common_a = [&](VI v) HWY_ATTR { return of_a(hn::ShiftLeftSame(v, f.left)); };
  const auto common_b = [&](VI v) HWY_ATTR { return of_b(hn::ShiftLeftSame(v, f.left)); };
  if (f.negate_b) return each([&](VI u, VI v) HWY_ATTR { return hn::Sub(common_a(u), common_b(v)); });
  each([&](VI u, VI v) HWY_ATTR { return hn::Add(common_a(u), common_b(v)); });
}

using FixedRows = void (*)(const FixedArithmetic&, const void*, int64_t, const void*, int64_t, void*, int64_t);
FixedRows choose_fixed_rows(DType dtype, bool small) {
  if (dtype == DType::kI8) return small ? fixed_rows<int8_t, true> : fixed_rows<int8_t, false>;
  if (dtype == DType::kU8) return small ? fixed_rows<uint8_t, true> : fixed_rows<uint8_t, false>;
  return small ? fixed_rows<int16_t, true> : fixed_rows<int16_t, false>;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class BinaryFixed final : public Kernel {
 public:
  BinaryFixed(const FixedArithmetic& f, bool small, const KernelSpec& spec)
      : f_(f),
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)),
        bytes_(spec.outputs[0].dtype == DType::kI16 ? 2 : 1),
        rows_(SMELT_FOR_LEVEL(spec.isa, choose_fixed_rows)(spec.outputs[0].dtype, small)) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, bytes_, bytes_, [&](const void* a, const void* b, void* y, int64_t n) {
      rows_(f_, a, loops_.inner_a, b, loops_.inner_b, y, n);
    });
    return Ok();
  }

 private:
  FixedArithmetic f_;
  BroadcastLoops loops_;
  int64_t bytes_;
  void (*rows_)(const FixedArithmetic&, const void*, int64_t, const void*, int64_t, void*, int64_t);
};

bool at_most_one(FixedFactor f) { return f.shift <= 0 && f.shift >= -31; }

/// Whether twice a sum, and what is added before the last shift, fit 32 bits.
bool is_small(const FixedArithmetic& f, DType dtype) {
  const int64_t range = dtype == DType::kI16 ? 65535 : 255, most = f.product ? range * range : range << f.left;
  const int64_t limit = int64_t{1} << 29;
  return most < limit && f.a.shift > -30 && f.b.shift > -30 && f.out.shift > -30 &&
         (std::abs(int64_t{f.zero}) + 1) << -f.out.shift <= 2 * limit;
}

}  // namespace

std::unique_ptr<Kernel> make_binary_fixed(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (attrs.rounding == Rounding::kFloatHalfEven || !on_one_grid(a.quant) || !on_one_grid(b.quant) ||
      !on_one_grid(y.quant))
    return nullptr;
  Tensor out = type_only(y);
  const auto f = FixedArithmetic::make(attrs, type_only(a), type_only(b), out);
  if (!f || f->low < int_min(y.dtype) || f->high > int_max(y.dtype)) return nullptr;
  if (!at_most_one(f->out) || (!f->product && !(at_most_one(f->a) && at_most_one(f->b)))) return nullptr;
  for (const auto& [zero, dtype] : {std::pair{f->zero_a, a.dtype}, {f->zero_b, b.dtype}, {f->zero, y.dtype}})
    if (zero < int_min(dtype) || zero > int_max(dtype)) return nullptr;
  return std::make_unique<BinaryFixed>(*f, is_small(*f, y.dtype), spec);
}

}  // namespace smelt
#endif
