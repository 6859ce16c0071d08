#include "backends/cpu/elementwise/compare_f32.h"

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/compare_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void compare_rows(const Comparison& fn, const float* a, int64_t sa, const float* b, int64_t sb, int64_t n, uint8_t* y) {
  for_lanes<float>(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint8_t, decltype(d)> bytes;
    const auto va = sa ? hn::LoadU(d, a + i) : hn::Set(d, *a), vb = sb ? hn::LoadU(d, b + i) : hn::Set(d, *b);
    const auto one_if = [&](auto mask, bool counts) HWY_ATTR {
      return hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, counts ? 1 : 0));
    };
    // What differs from the outcome of NaN.
    const auto ordered =
        hn::Or(hn::Or(one_if(hn::Lt(va, vb), fn.less != fn.none), one_if(hn::Gt(va, vb), fn.greater != fn.none)),
               one_if(hn::Eq(va, vb), fn.equal != fn.none));
    hn::StoreU(hn::DemoteTo(bytes, hn::Xor(ordered, hn::Set(di, fn.none ? 1 : 0))), bytes, y + i);
  });
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

Comparison Comparison::of(Binary fn) {
  const bool unequal = fn == Binary::kNotEqual;
  return {unequal || fn == Binary::kLess || fn == Binary::kLessEqual,
          fn == Binary::kEqual || fn == Binary::kLessEqual || fn == Binary::kGreaterEqual,
          unequal || fn == Binary::kGreater || fn == Binary::kGreaterEqual, unequal};
}

CompareF32 compare_f32(Isa isa) { return SMELT_FOR_LEVEL(isa, compare_rows); }

}  // namespace smelt
#endif
