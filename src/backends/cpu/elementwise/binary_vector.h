#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {

/// y[i] = clamp(fn(a[i * sa], b[i * sb]), lo, hi) for i < n; sa and sb are 0 or 1.
using BinaryVector = void (*)(const float* a, int64_t sa, const float* b, int64_t sb, float* y, int64_t n, float lo,
                              float hi);
/// Null: a function without a vector version.
BinaryVector binary_vector(Isa isa, Binary fn);

}  // namespace smelt
