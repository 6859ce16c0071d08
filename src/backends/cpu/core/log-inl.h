// Logarithms for softmax. Include after hwy/highway.h in files that are compiled once a target.
#include <hwy/contrib/math/math-inl.h>

#if defined(SMELT_CPU_LOG_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_LOG_INL_H
#undef SMELT_CPU_LOG_INL_H
#else
#define SMELT_CPU_LOG_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The logarithm of sums of exponentials, of which the largest is 1.
template <class Tag>
HWY_NOINLINE hn::Vec<Tag> log_of_sums(Tag d, hn::Vec<Tag> sums) {
  return hn::IfThenElse(hn::IsNaN(sums), sums, hn::Log(d, sums));
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
