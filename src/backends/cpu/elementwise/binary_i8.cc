// Sums, differences and products of 8-bit values in float32: equal to the reference kernel bit by bit.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/binary_i8.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/elementwise/byte_blocks-inl.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_BINARY_I8
#define SMELT_CPU_BINARY_I8
namespace smelt {
/// The arithmetic of a node. Bytes are taken as uint8: the flips turn int8 into uint8 and back, zero points move along.
///
/// Definition: y = nearest(clamp(op(scale_a * (a - zero_a), factor_b * (scale_b * (b - zero_b))), lo, hi) / scale_y),
/// each operation in float32, then clamped to [low, high], plus zero_y. Near: with the scales folded into coefficients,
/// a sum is a * near_a + b * near_b + near_c, a product (a - zero_a) * (b - zero_b) * near_a + near_c. Where that is
/// further than 1/2 - `sure` from the middle between two integers, its nearest integer, within [out_low, out_high], is
/// y's. `blocks` says the same of sums in integers, and so does `certain` where it is right for every pair of bytes.
struct BinaryI8Rule {
  bool product = false;
  uint8_t flip_a = 0, flip_b = 0, flip_y = 0;
  int32_t zero_a = 0, zero_b = 0, zero_y = 0;
  float scale_a = 1, scale_b = 1, factor_b = 1, scale_y = 1;
  float lo = 0, hi = 0;               ///< of the activation
  float low = 0, high = 0;            ///< of y less its zero point
  uint8_t out_low = 0, out_high = 0;  ///< of y, within what the activation leaves
  bool away = false;                  ///< ties of the last rounding go away from zero, else to even
  float near_a = 0, near_b = 0, near_c = 0, sure = -1;
  std::optional<ByteSum> blocks, certain;
};
using BinaryI8Row = void (*)(const BinaryI8Rule&, const uint8_t*, int64_t, const uint8_t*, int64_t, uint8_t*, int64_t);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kProduct>
struct BinaryI8Step {
  const BinaryI8Rule& r;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D di, const uint8_t* from, int64_t step, uint8_t flip) const {
    const hn::Rebind<uint8_t, D> d8;
    if (step == 0) return hn::Set(di, static_cast<int32_t>(*from ^ flip));
    return hn::PromoteTo(di, hn::Xor(hn::LoadU(d8, from), hn::Set(d8, flip)));
  }
  /// y by the definition.
  template <class D, class VI = hn::Vec<D>>
  HWY_INLINE VI defined(D di, VI a, VI b) const {
    const hn::RebindToFloat<D> df;
    const auto real_a = hn::Mul(hn::Set(df, r.scale_a), hn::ConvertTo(df, hn::Sub(a, hn::Set(di, r.zero_a))));
    const auto real_b = hn::Mul(hn::Set(df, r.factor_b),
                                hn::Mul(hn::Set(df, r.scale_b), hn::ConvertTo(df, hn::Sub(b, hn::Set(di, r.zero_b)))));
    auto y = kProduct ? hn::Mul(real_a, real_b) : hn::Add(real_a, real_b);
    y = hn::Min(hn::Max(y, hn::Set(df, r.lo)), hn::Set(df, r.hi));
    y = hn::Div(y, hn::Set(df, r.scale_y));
    y = hn::Min(hn::Max(y, hn::Set(df, r.low)), hn::Set(df, r.high));
    const VI nearest =
        r.away ? whole_in_range(hn::Add(y, hn::CopySign(hn::Set(df, 0x1.fffffep-2f), y))) : nearest_in_range(y);
    return hn::Add(nearest, hn::Set(di, r.zero_y));
  }
  template <class D, class VI = hn::Vec<D>>
  HWY_INLINE auto near(D di, VI a, VI b) const {
    const hn::RebindToFloat<D> df;
    const auto near_a = hn::Set(df, r.near_a), near_c = hn::Set(df, r.near_c);
    if constexpr (kProduct)
      return hn::MulAdd(hn::Mul(hn::ConvertTo(df, hn::Sub(a, hn::Set(di, r.zero_a))),
                                hn::ConvertTo(df, hn::Sub(b, hn::Set(di, r.zero_b)))),
                        near_a, near_c);
    else
      return hn::MulAdd(hn::ConvertTo(df, a), near_a, hn::MulAdd(hn::ConvertTo(df, b), hn::Set(df, r.near_b), near_c));
  }
  /// As many bytes as D has lanes.
  template <class D>
  HWY_INLINE void operator()(D di, const uint8_t* pa, int64_t sa, const uint8_t* pb, int64_t sb, uint8_t* to) const {
    const hn::RebindToFloat<D> df;
    const hn::Rebind<uint8_t, D> d8;
    const hn::RebindToUnsigned<D> du;
    const auto a = load(di, pa, sa, r.flip_a), b = load(di, pb, sb, r.flip_b);
    const auto real = near(di, a, b);
    auto y = nearest_in_range(real);
    const auto off = hn::Abs(hn::Sub(real, hn::ConvertTo(df, y)));
    if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Lt(off, hn::Set(df, r.sure))))) y = defined(di, a, b);
    y = hn::Min(hn::Max(y, hn::Set(di, int32_t{r.out_low})), hn::Set(di, int32_t{r.out_high}));
    hn::StoreU(hn::Xor(hn::TruncateTo(d8, hn::BitCast(du, y)), hn::Set(d8, r.flip_y)), d8, to);
  }
};

template <bool kProduct, bool kVnni = false>
void binary_i8_row(const BinaryI8Rule& rule, const uint8_t* a, int64_t sa, const uint8_t* b, int64_t sb, uint8_t* y,
                   int64_t n) {
  const BinaryI8Rule r = rule;  // stores to y cannot change it
  const BinaryI8Step<kProduct> step{r};
  const DI d;
  const hn::CappedTag<int32_t, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if constexpr (kProduct) {
    // Products are too often near the middle between two integers for blocks to pay off: a cache line a round.
    constexpr int64_t kLine = 64, kAhead = 768;
    for (; i + kLine <= n; i += kLine) {
      hwy::Prefetch(a + (i + kAhead) * sa);
      hwy::Prefetch(b + (i + kAhead) * sb);
      for (int64_t j = i; j < i + kLine; j += lanes) step(d, a + j * sa, sa, b + j * sb, sb, y + j);
    }
  } else if (r.blocks) {
    i = sum_byte_blocks<kVnni>({a, sa, r.flip_a}, {b, sb, r.flip_b}, {y, r.flip_y, r.out_low, r.out_high}, n, *r.blocks,
                               [&](VI u, VI v) HWY_ATTR { return step.defined(d, u, v); });
  }
  for (; i + lanes <= n; i += lanes) step(d, a + i * sa, sa, b + i * sb, sb, y + i);
  for (; i < n; ++i) step(one, a + i * sa, sa, b + i * sb, sb, y + i);
}

BinaryI8Row choose_binary_i8(const BinaryI8Rule& r, bool vnni) {
  if (r.product) return binary_i8_row<true>;
  return vnni ? binary_i8_row<false, HWY_TARGET == HWY_AVX3> : binary_i8_row<false>;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

bool is_quantized_per_tensor(const ValueType& t) {
  constexpr float kMostScale = 1e30f;  // the real values are finite
  return is_8bit(t.dtype) && is_per_tensor(t.quant) && std::isnormal(t.quant->scale()) && t.quant->scale() > 0 &&
         t.quant->scale() < kMostScale && std::abs(t.quant->zero_point()) <= 1 << 20;
}

float nearest(float v, bool away) { return away ? std::round(v) : std::nearbyint(v); }

BinaryI8Rule make_rule(const BinaryAttrs& attrs, const ValueType& a, const ValueType& b, const ValueType& y) {
  const auto flip = [](const ValueType& t) { return static_cast<uint8_t>(t.dtype == DType::kI8 ? 128 : 0); };
  const Bounds bounds = activation_bounds(attrs.act);
  const QuantRule to = quant_rule(y);
  BinaryI8Rule r;
  r.product = attrs.fn == Binary::kMul;
  r.flip_a = flip(a);
  r.flip_b = flip(b);
  r.zero_a = a.quant->zero_point() + r.flip_a;
  r.zero_b = b.quant->zero_point() + r.flip_b;
  r.flip_y = flip(y);
  r.zero_y = to.zero + r.flip_y;
  r.scale_a = a.quant->scale();
  r.scale_b = b.quant->scale();
  r.scale_y = to.scale;
  r.factor_b = r.product ? 1.0f : static_cast<float>(attrs.alpha) * (attrs.fn == Binary::kSub ? -1.0f : 1.0f);
  r.lo = bounds.lo;
  r.hi = bounds.hi;
  r.away = to.away;
  r.low = static_cast<float>(to.low - to.zero);
  r.high = static_cast<float>(to.high - to.zero);
  const auto within = [&](float bound) {
    const float y_bound = nearest(std::min(std::max(bound / r.scale_y, r.low), r.high), r.away);
    return static_cast<uint8_t>(static_cast<int32_t>(y_bound) + r.zero_y);
  };
  r.out_low = within(r.lo);
  r.out_high = std::max(r.out_low, within(r.hi));
  const auto real_a = static_cast<double>(r.scale_a) / static_cast<double>(r.scale_y);
  const auto real_b = static_cast<double>(r.factor_b) * static_cast<double>(r.scale_b);
  const double most_a = std::max(std::abs(r.zero_a), std::abs(255 - r.zero_a)),
               most_b = std::max(std::abs(r.zero_b), std::abs(255 - r.zero_b));
  double size = std::abs(r.zero_y), by_b = 0, near_c = 0;
  if (r.product) {
    r.near_a = static_cast<float>(real_a * real_b);
    r.near_c = static_cast<float>(r.zero_y);
    size += most_a * most_b * std::abs(real_a * real_b);
  } else {
    by_b = real_b / static_cast<double>(r.scale_y);
    r.near_a = static_cast<float>(real_a);
    r.near_b = static_cast<float>(by_b);
    near_c = r.zero_y - real_a * r.zero_a - by_b * r.zero_b;
    r.near_c = static_cast<float>(near_c);
    // Where y is not saturated by far, no term exceeds the other one and y's range.
    constexpr double kRange = 512;
    const double a = most_a * std::abs(real_a), b = most_b * std::abs(by_b);
    const double in_range_a = std::min(a, b + kRange), in_range_b = std::min(b, a + kRange);
    size += 2 * (std::abs(r.zero_a * real_a) + std::abs(r.zero_b * by_b)) + in_range_a + in_range_b;
    // What the definition rounds: real_a once, real_b twice, then at most three times what is in y's range.
    const double rounded = in_range_a + 2 * in_range_b + 3 * 257;
    r.blocks = ByteSum::near(real_a, by_b, near_c, rounded * 0x1.02p-24);
    r.certain = ByteSum::nearest(real_a, by_b, near_c);
  }
  // Both ways together make less than eight errors of half a unit in the last place of numbers up to `size`.
  const double error = size * 0x1p-21;
  r.sure = error < 0.05 && std::isnormal(r.near_a) ? static_cast<float>(0.5 - error) : -1.0f;
  return r;
}

class BinaryI8 final : public Kernel {
 public:
  BinaryI8(const BinaryI8Rule& rule, const KernelSpec& spec)
      : rule_(rule),
        row_(SMELT_FOR_LEVEL(spec.isa, choose_binary_i8)(rule, spec.isa.has(IsaFeature::kVnni))),
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)) {
    if (!rule_.blocks || !rule_.certain) return;
    BinaryI8Rule certain = rule_;
    certain.blocks = rule_.certain;
    const auto row_by = [&](const BinaryI8Rule& r) {
      return [&](const uint8_t* u, const uint8_t* v, int64_t n, uint8_t* y) { row_(r, u, 1, v, 1, y, n); };
    };
    if (same_of_every_pair(*rule_.blocks, least_numbers_for(spec.isa), rule_.flip_a, row_by(rule_), row_by(certain)))
      rule_ = certain;
  }
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, 1, 1, [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
      row_(rule_, static_cast<const uint8_t*>(a), sa, static_cast<const uint8_t*>(b), sb, static_cast<uint8_t*>(y), n);
    });
    return Ok();
  }

 private:
  BinaryI8Rule rule_;
  BinaryI8Row row_;
  BroadcastLoops loops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_binary_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (!is_quantized_per_tensor(spec.inputs[0]) || !is_quantized_per_tensor(spec.inputs[1]) ||
      !is_quantized_per_tensor(spec.outputs[0]))
    return spec.refuse("an operand has not one scale, a positive normal number below 1e30");
  if (attrs.fn != Binary::kAdd && attrs.fn != Binary::kSub && attrs.fn != Binary::kMul)
    return spec.refuse("neither a sum nor a product");
  if (attrs.rounding != Rounding::kFloatHalfEven || !clamps(attrs.act) || !std::isfinite(attrs.alpha))
    return spec.refuse("fixed-point rounding, or an activation that is no clamp");
  return std::make_unique<BinaryI8>(make_rule(attrs, spec.inputs[0], spec.inputs[1], spec.outputs[0]), spec);
}

}  // namespace smelt
#endif
