#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {

/// Which outcomes of a comparison of a and b are true. None is where one is NaN.
struct Comparison {
  bool less, equal, greater, none;
  /// All false for what is no comparison.
  static Comparison of(Binary fn);
  bool any() const { return less || equal || greater; }
};

/// y[i] = 1 if the comparison of a[i * sa] and b[i * sb] is true, else 0. sa and sb are 0 or 1.
using CompareF32 = void (*)(const Comparison& fn, const float* a, int64_t sa, const float* b, int64_t sb, int64_t n,
                            uint8_t* y);
CompareF32 compare_f32(Isa isa);

}  // namespace smelt
