// The steps of ops/recurrent/fixed_cell.cc on vectors of int16.
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/fixed_cell_ops.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/recurrent/fixed_cell_ops.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Arithmetic of numbers with a point somewhere in 16 bits; sums wrap.
template <class D>
struct FixedCell16 {
  using V = hn::Vec<D>;
  D d;
  static constexpr int16_t kOne = 32767, kOneOfTwoBits = 8192;

  HWY_INLINE V set(int v) const { return hn::Set(d, static_cast<int16_t>(v)); }
  /// A constant of 31 fraction bits in 15.
  HWY_INLINE V narrow(int64_t v) const { return set(static_cast<int>((v + (v < 0 ? 32767 : 32768)) >> 16)); }
  static HWY_INLINE V mul(V a, V b) { return hn::MulFixedPoint15(a, b); }
  /// Halves away from zero.
  HWY_INLINE V divide_by_pot(V v, int exponent) const {
    const V rest = hn::And(v, set((1 << exponent) - 1)), negative = hn::BroadcastSignBit(v);
    const V threshold = hn::Sub(set(((1 << exponent) - 1) >> 1), negative);
    return hn::Sub(hn::ShiftRightSame(v, exponent), hn::VecFromMask(d, hn::Gt(rest, threshold)));
  }
  /// Saturates.
  HWY_INLINE V multiply_by_pot(V v, int exponent) const {
    if (exponent == 0) return v;
    const V limit = set((1 << (15 - exponent)) - 1);
    const V shifted = hn::ShiftLeftSame(v, exponent);
    const V low = hn::IfThenElse(hn::Lt(v, hn::Neg(limit)), set(-32768), shifted);
    return hn::IfThenElse(hn::Gt(v, limit), set(32767), low);
  }
  HWY_INLINE V exp_small(V a) const {
    const V eighth = narrow(1895147668), x = hn::Add(a, set(1 << 12));
    const V x2 = mul(x, x), x3 = mul(x2, x), x4 = mul(x2, x2);
    const V tail = divide_by_pot(hn::Add(mul(hn::Add(divide_by_pot(x4, 2), x3), narrow(715827883)), x2), 1);
    return hn::SaturatedAdd(eighth, mul(eighth, hn::Add(x, tail)));
  }
  HWY_INLINE V exp_negative(V a, int bits) const {
    constexpr int64_t kExps[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int fraction = 15 - bits, quarter = 1 << (fraction - 2);
    const V rest = hn::Sub(hn::And(a, set(quarter - 1)), set(quarter)), remainder = hn::Sub(rest, a);
    V result = exp_small(multiply_by_pot(rest, bits));
    for (int e = -2; e <= 4 && e < bits; ++e) {
      const V bit = set(1 << (fraction + e));
      result = hn::IfThenElse(hn::Eq(hn::And(remainder, bit), bit), mul(result, narrow(kExps[e + 2])), result);
    }
    if (bits > 5) result = hn::IfThenZeroElse(hn::Lt(a, set(-(1 << (20 - bits)))), result);
    return hn::IfThenElse(hn::Eq(a, hn::Zero(d)), set(kOne), result);
  }
  HWY_INLINE V twice_reciprocal(V a) const {
    const V half = hn::Add(hn::ShiftRight<1>(a), set(1 << 14));
    V x = hn::Add(narrow(1515870810), mul(half, narrow(-1010580540)));
    for (int i = 0; i < 3; ++i) x = hn::Add(x, multiply_by_pot(mul(x, hn::Sub(set(kOneOfTwoBits), mul(half, x))), 2));
    return x;
  }
  HWY_INLINE V logistic(V x, int bits) const {
    const auto positive = hn::Gt(x, hn::Zero(d));
    const V y = multiply_by_pot(twice_reciprocal(exp_negative(hn::IfThenElse(positive, hn::Neg(x), x), bits)), 1);
    const V either = hn::IfThenElse(positive, y, hn::Sub(set(kOne), y));
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), set(1 << 14), either);
  }
  HWY_INLINE V tanh(V x, int bits) const {
    const auto negative = hn::Lt(x, hn::Zero(d));
    const V exps = exp_negative(hn::IfThenElse(negative, x, hn::Neg(x)), bits + 1);
    const V y = multiply_by_pot(hn::Sub(twice_reciprocal(exps), set(kOneOfTwoBits)), 2);
    return hn::IfThenZeroElse(hn::Eq(x, hn::Zero(d)), hn::IfThenElse(negative, hn::Neg(y), y));
  }
};

template <bool kTanh>
void apply_cell(const int16_t* x, int64_t n, int integer_bits, int16_t* y) {
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const FixedCell16<decltype(d)> cell{d};
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(kTanh ? cell.tanh(v, integer_bits) : cell.logistic(v, integer_bits), d, y + i);
  };
  const hn::ScalableTag<int16_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i + 8 <= n; i += 8) step(hn::CappedTag<int16_t, 8>(), i);
  for (; i < n; ++i) step(hn::CappedTag<int16_t, 1>(), i);
}

FixedCellOps cell_ops() { return {apply_cell<false>, apply_cell<true>}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
FixedCellOps fixed_cell_ops(Isa isa) { return SMELT_FOR_LEVEL(isa, cell_ops)(); }
}  // namespace smelt
#endif
