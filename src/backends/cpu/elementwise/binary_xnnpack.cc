// XNNPACK's sums, differences and products of 8-bit values, a vector at a time: equal to XnnpackArithmetic bit by bit.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/binary_xnnpack.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/elementwise/byte_blocks-inl.h"
#include "ops/elementwise/xnnpack_rules.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_BINARY_XNNPACK
#define SMELT_CPU_BINARY_XNNPACK
namespace smelt {
/// What the loops of a node need.
struct XnnpackNode {
  XnnpackArithmetic f;
  std::optional<ByteSum> blocks;  ///< of a sum whose operands and output are bytes read as uint8
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr uint8_t kFlip = std::is_signed_v<T> ? 128 : 0;

/// Values from `from` on, `step` (0 or 1) apart.
template <class T, class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const T* from, int64_t step) {
  if (step == 0) return hn::Set(d, *from);
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
}

template <class T, class Combine>
HWY_INLINE void each_vector(const XnnpackArithmetic& f, const T* a, int64_t sa, const T* b, int64_t sb, T* y, int64_t n,
                            const Combine& combine) {
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint8_t, decltype(d)> d8;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto v = combine(d, load_bytes(d, a + i * sa, sa), load_bytes(d, b + i * sb, sb));
    const auto sum = hn::Add(v, hn::Set(d, f.zero));
    const auto q = hn::And(hn::Min(hn::Max(sum, hn::Set(d, f.low)), hn::Set(d, f.high)), hn::Set(d, 255));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, q)), d8, reinterpret_cast<uint8_t*>(y) + i);
  };
  const hn::ScalableTag<int32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // A cache line a round. The operands are often the last results of convolutions, which lie in an outer cache.
  constexpr int64_t kLine = 64, kAhead = 768;
  for (; i + kLine <= n; i += kLine) {
    hwy::Prefetch(a + (i + kAhead) * sa);
    hwy::Prefetch(b + (i + kAhead) * sb);
    for (int64_t j = i; j < i + kLine; j += lanes) step(d, j);
  }
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(hn::CappedTag<int32_t, 1>(), i);
}

template <class T>
void xnnpack_products(const XnnpackNode& node, const void* a, int64_t sa, const void* b, int64_t sb, void* y,
                      int64_t n) {
  const XnnpackArithmetic f = node.f;  // stores to y cannot change it
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  each_vector(f, p, sa, q, sb, static_cast<T*>(y), n, [&](auto d, auto u, auto v) HWY_ATTR {
    const hn::RebindToFloat<decltype(d)> df;
    const auto x = hn::ConvertTo(df, hn::Sub(u, hn::Set(d, f.zero_a)));  // products of two are exact
    return nearest_in_range(
        hn::Mul(hn::Mul(x, hn::ConvertTo(df, hn::Sub(v, hn::Set(d, f.zero_b)))), hn::Set(df, f.scale)));
  });
}

template <class T, bool kVnni = false>
void xnnpack_sums(const XnnpackNode& node, const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
  const XnnpackArithmetic f = node.f;
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  int64_t done = 0;
  if (node.blocks) {
    const auto bound = [](int32_t v) { return static_cast<uint8_t>(v + kFlip<T>); };
    const auto byte = [](const T* from) { return reinterpret_cast<const uint8_t*>(from); };
    done = sum_byte_blocks<kVnni>({byte(p), sa, kFlip<T>}, {byte(q), sb, kFlip<T>},
                                  {static_cast<uint8_t*>(y), kFlip<T>, bound(f.low), bound(f.high)}, n, *node.blocks);
  }
  const int32_t bias = (1 << (f.shift - 1)) - f.a * f.zero_a - f.b * f.zero_b;
  each_vector(f, p + done * sa, sa, q + done * sb, sb, to + done, n - done, [&](auto d, auto u, auto v) HWY_ATTR {
    const auto sum = hn::Add(hn::Mul(u, hn::Set(d, f.a)), hn::Mul(v, hn::Set(d, f.b)));
    return hn::ShiftRightSame(hn::Add(sum, hn::Set(d, bias)), f.shift);
  });
}

using XnnpackVector = void (*)(const XnnpackNode&, const void*, int64_t, const void*, int64_t, void*, int64_t);
XnnpackVector choose_xnnpack_vector(bool product, DType dtype, bool vnni) {
  constexpr bool kHasVnni = HWY_TARGET == HWY_AVX3;
  const bool is_signed = dtype == DType::kI8;
  if (product) return is_signed ? xnnpack_products<int8_t> : xnnpack_products<uint8_t>;
  if (vnni) return is_signed ? xnnpack_sums<int8_t, kHasVnni> : xnnpack_sums<uint8_t, kHasVnni>;
  return is_signed ? xnnpack_sums<int8_t> : xnnpack_sums<uint8_t>;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// A sum of bytes, int8 plus `flip`.
std::optional<ByteSum> block_sum(const XnnpackArithmetic& f, int32_t flip) {
  if (f.product) return std::nullopt;
  const int64_t a = f.a, b = f.b, unit = int64_t{1} << f.shift;
  return ByteSum::exact(a, b, unit / 2 + (f.zero + flip) * unit - a * (f.zero_a + flip) - b * (f.zero_b + flip),
                        f.shift);
}

class BinaryXnnpack final : public Kernel {
 public:
  BinaryXnnpack(const XnnpackArithmetic& f, const KernelSpec& spec)
      : node_{f, block_sum(f, spec.outputs[0].dtype == DType::kI8 ? 128 : 0)},
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)),
        rows_(SMELT_FOR_LEVEL(spec.isa, choose_xnnpack_vector)(f.product, spec.outputs[0].dtype,
                                                               spec.isa.has(IsaFeature::kVnni))) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, 1, 1, [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
      rows_(node_, a, sa, b, sb, y, n);
    });
    return Ok();
  }

 private:
  XnnpackNode node_;
  BroadcastLoops loops_;
  void (*rows_)(const XnnpackNode&, const void*, int64_t, const void*, int64_t, void*, int64_t);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_binary_xnnpack(const KernelSpec& spec) {
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
