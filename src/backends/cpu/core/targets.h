// Highway's targets as smelt builds them. Include first in a file that is compiled once a target:
//   #include "backends/cpu/core/targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "backends/cpu/FAMILY/FILE.cc"
//   #include <hwy/foreach_target.h>
//   #include "backends/cpu/core/highway.h"
#pragma once

#include "backends/cpu/core/isa.h"

#if defined(__x86_64__)
// Debian's Highway has no SSE2 target; SSE4.1 is the lowest level with vectors (has_vectors() guards it).
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
/// Address of the function of that name compiled for a level.
#define SMELT_FOR_LEVEL(level, function)                         \
  ((level).has(::smelt::IsaFeature::kAvx512) ? &N_AVX3::function \
   : (level).has(::smelt::IsaFeature::kAvx2) ? &N_AVX2::function \
                                             : &N_SSE4::function)
#else
#define HWY_COMPILE_ONLY_STATIC
#define SMELT_FOR_LEVEL(level, function) ::smelt::of_only_level(level, &HWY_NAMESPACE::function)
namespace smelt {
/// The function: a parameter gives an instance of a template its type, which a comma would not.
template <class Function>
constexpr Function* of_only_level(const Isa& /*level*/, Function* function) {
  return function;
}
}  // namespace smelt
#endif
