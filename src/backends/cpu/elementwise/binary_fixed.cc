// TFLite's fixed-point sums, differences, their squares and products, a vector at a time: equal to FixedArithmetic bit
// by bit.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/binary_fixed.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/fixed_point-inl.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/elementwise/byte_blocks-inl.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/elementwise/binary_fixed.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_BINARY_FIXED
#define SMELT_CPU_BINARY_FIXED
namespace smelt {
/// The arithmetic of bytes in float32, of the operands less their zero points: a sum or difference as a * u + b * v +
/// zero, a product as a * u * v + zero, and `away` further from zero. FixedArithmetic, before its last rounding, is no
/// further than `error` from either in real numbers and from what float32 makes of it.
struct NearReal {
  float a, b = 0, zero, error, away = 0;
  /// Of a sum whose u, v and y are bytes read as uint8, with zero points; `certain`: if it is right for every pair.
  std::optional<ByteSum> blocks, certain;

  explicit NearReal(const FixedArithmetic& f, int32_t flip) {
    const auto real = [](FixedFactor g) { return std::ldexp(static_cast<double>(g.multiplier), g.shift - 31); };
    const double out = real(f.out), common = std::ldexp(out, f.left);
    zero = static_cast<float>(f.zero);
    if (f.product) {
      // The first rounding is of halves upwards, the one of the shift of halves away from zero: together they round up
      // from 1/2 before the shift below the middle on, or above it for what is negative. float32 rounds the factor and
      // two sums.
      a = static_cast<float>(out);
      if (f.out.shift < 0) away = std::ldexp(0.5f, f.out.shift);
      error = static_cast<float>((255.0 * 255.0 * out + std::fabs(zero) + 1) * 0x1p-22);
      return;
    }
    const double by_a = real(f.a) * common, by_b = (f.negate_b ? -1 : 1) * real(f.b) * common;
    a = static_cast<float>(by_a);
    b = static_cast<float>(by_b);
    // Both operands come to the common scale with less than 1 lost each, the sum loses 1/2 before its last shift;
    // float32 rounds two factors and two sums.
    const double size = 512 * (std::fabs(a) + std::fabs(b)) + std::fabs(zero) + flip;
    const double lost = 2 * out + std::ldexp(0.5, f.out.shift);
    error = static_cast<float>(lost + size * 0x1p-22);
    const double constant = f.zero + flip - by_a * (f.zero_a + flip) - by_b * (f.zero_b + flip);
    blocks = ByteSum::near(by_a, by_b, constant, lost);
    certain = ByteSum::nearest(by_a, by_b, constant);
  }
  static constexpr float kMostError = 0.05f;  ///< beyond it too many results would have to be computed twice
};

/// What the loops of a node need.
struct FixedNode {
  FixedArithmetic f;
  NearReal near;
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, bool kSmall>
void fixed_vector(const FixedNode& node, const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
  const FixedArithmetic& f = node.f;
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
  if (f.square) {
    return each([&](VI u, VI v) HWY_ATTR {
      const VI difference = hn::Sub(common_a(u), common_b(v));
      return hn::Mul(difference, difference);
    });
  }
  if (f.negate_b) return each([&](VI u, VI v) HWY_ATTR { return hn::Sub(common_a(u), common_b(v)); });
  each([&](VI u, VI v) HWY_ATTR { return hn::Add(common_a(u), common_b(v)); });
}

/// fixed_vector() of bytes by way of float32: where that is further than `near.error` from the middle between two
/// integers, the nearest one is the result.
template <class T, bool kProduct, bool kVnni = false>
void near_vector(const FixedNode& node, const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
  const DI d;
  const hn::RebindToFloat<DI> df;
  const FixedArithmetic& f = node.f;
  const NearReal& near = node.near;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  const auto by_a = hn::Set(df, near.a), by_b = hn::Set(df, near.b), zero = hn::Set(df, near.zero),
             away = hn::Set(df, near.away), sure = hn::Set(df, 0.5f - near.error);
  const VI zero_a = hn::Set(d, f.zero_a), zero_b = hn::Set(d, f.zero_b), low = hn::Set(d, static_cast<int32_t>(f.low)),
           high = hn::Set(d, static_cast<int32_t>(std::max(f.low, f.high)));
  const Rescale<true> of_a(kProduct ? FixedFactor{} : f.a, 0), of_b(kProduct ? FixedFactor{} : f.b, 0),
      of_out(f.out, f.zero);
  const auto exact = [&](VI u, VI v) HWY_ATTR {
    if constexpr (kProduct) return of_out(hn::Mul(u, v));
    const VI common_a = of_a(hn::ShiftLeftSame(u, f.left)), common_b = of_b(hn::ShiftLeftSame(v, f.left));
    return of_out(f.negate_b ? hn::Sub(common_a, common_b) : hn::Add(common_a, common_b));
  };
  constexpr uint8_t kFlip = std::is_signed_v<T> ? 128 : 0;
  const VI flip = hn::Set(d, kFlip), flipped_a = hn::Add(zero_a, flip), flipped_b = hn::Add(zero_b, flip);
  int64_t i = 0;
  if constexpr (!kProduct) {  // a block would gain nothing for products
    if (near.blocks)
      i = sum_byte_blocks<kVnni>(
          {static_cast<const uint8_t*>(a), sa, kFlip}, {static_cast<const uint8_t*>(b), sb, kFlip},
          {static_cast<uint8_t*>(y), kFlip, static_cast<uint8_t>(f.low + kFlip),
           static_cast<uint8_t>(std::max(f.low, f.high) + kFlip)},
          n, *near.blocks,
          [&](VI u, VI v) HWY_ATTR { return hn::Add(exact(hn::Sub(u, flipped_a), hn::Sub(v, flipped_b)), flip); });
  }
  for (; i < n; i += lanes) {
    const int64_t here = std::min(lanes, n - i);
    const VI u = load_wide(p + i * sa, sa, here, zero_a), v = load_wide(q + i * sb, sb, here, zero_b);
    const auto fu = hn::ConvertTo(df, u), fv = hn::ConvertTo(df, v);
    const auto product = hn::Mul(fu, fv);
    const auto real = kProduct ? hn::Add(hn::MulAdd(product, by_a, zero), hn::CopySignToAbs(away, product))
                               : hn::MulAdd(fu, by_a, hn::MulAdd(fv, by_b, zero));
    VI y = nearest_in_range(real);
    const auto off = hn::Abs(hn::Sub(real, hn::ConvertTo(df, y)));
    if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Lt(off, sure)))) y = exact(u, v);
    store_narrow(hn::Min(hn::Max(y, low), high), here, to + i);
  }
}

using FixedVector = void (*)(const FixedNode&, const void*, int64_t, const void*, int64_t, void*, int64_t);
FixedVector choose_fixed_vector(const FixedNode& node, DType dtype, bool small, bool vnni) {
  if (small && dtype != DType::kI16 && node.near.error < NearReal::kMostError) {
    if (node.f.product) return dtype == DType::kI8 ? near_vector<int8_t, true> : near_vector<uint8_t, true>;
    constexpr bool kHasVnni = HWY_TARGET == HWY_AVX3;
    if (vnni) return dtype == DType::kI8 ? near_vector<int8_t, false, kHasVnni> : near_vector<uint8_t, false, kHasVnni>;
    return dtype == DType::kI8 ? near_vector<int8_t, false> : near_vector<uint8_t, false>;
  }
  if (dtype == DType::kI8) return small ? fixed_vector<int8_t, true> : fixed_vector<int8_t, false>;
  if (dtype == DType::kU8) return small ? fixed_vector<uint8_t, true> : fixed_vector<uint8_t, false>;
  return small ? fixed_vector<int16_t, true> : fixed_vector<int16_t, false>;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class BinaryFixed final : public Kernel {
 public:
  BinaryFixed(const FixedArithmetic& f, bool small, const KernelSpec& spec)
      : node_{f, NearReal(f, spec.outputs[0].dtype == DType::kI8 ? 128 : 0)},
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)),
        bytes_(spec.outputs[0].dtype == DType::kI16 ? 2 : 1),
        rows_(SMELT_FOR_LEVEL(spec.isa, choose_fixed_vector)(node_, spec.outputs[0].dtype, small,
                                                             spec.isa.has(IsaFeature::kVnni))) {
    // Of fewer elements the search takes longer than it saves in thousands of runs.
    constexpr int64_t kWorthSearching = 4096;
    if (bytes_ != 1 || !node_.near.blocks || !node_.near.certain || spec.outputs[0].shape.elements() < kWorthSearching)
      return;
    FixedNode certain = node_;
    certain.near.blocks = node_.near.certain;
    const auto row_by = [&](const FixedNode& node) {
      return [&](const uint8_t* u, const uint8_t* v, int64_t n, uint8_t* y) { rows_(node, u, 1, v, 1, y, n); };
    };
    const uint8_t flip = spec.outputs[0].dtype == DType::kI8 ? 128 : 0;
    if (same_of_every_pair(*node_.near.blocks, least_numbers_for(spec.isa), flip, row_by(node_), row_by(certain)))
      node_ = certain;
  }
  bool may_overwrite(size_t /*input*/) const override { return true; }
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, bytes_, bytes_, [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
      rows_(node_, a, sa, b, sb, y, n);
    });
    return Ok();
  }

 private:
  FixedNode node_;
  BroadcastLoops loops_;
  int64_t bytes_;
  void (*rows_)(const FixedNode&, const void*, int64_t, const void*, int64_t, void*, int64_t);
};

bool at_most_one(FixedFactor f) { return f.shift <= 0 && f.shift >= -31; }

/// True if twice a sum, and what is added before the last shift, fit 32 bits.
bool is_small(const FixedArithmetic& f, DType dtype) {
  if (f.square) return false;
  const int64_t range = dtype == DType::kI16 ? 65535 : 255, most = f.product ? range * range : range << f.left;
  const int64_t limit = int64_t{1} << 29;
  return most < limit && f.a.shift > -30 && f.b.shift > -30 && f.out.shift > -30 &&
         (std::abs(int64_t{f.zero}) + 1) << -f.out.shift <= 2 * limit;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_binary_fixed(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (attrs.rounding == Rounding::kFloatHalfEven || !is_per_tensor(a.quant) || !is_per_tensor(b.quant) ||
      !is_per_tensor(y.quant))
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
