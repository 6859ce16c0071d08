#pragma once

#include <cstdint>

#include "ops/common/enums.h"

namespace smelt {

/// Activations that are no clamp, applied in place behind a kernel.
inline void apply_activation(const Activation& act, float* y, int64_t rows, int64_t columns, int64_t stride) {
  if (clamps(act)) return;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[i * stride + j] = activate(act, y[i * stride + j]);
}

}  // namespace smelt
