#pragma once

#include <cstdint>

#include "ops/common/enums.h"

namespace smelt {

/// True if the activation is a clamp to activation_bounds().
inline bool clamps(const Activation& act) {
  switch (act.kind) {
    case ActKind::kNone:
    case ActKind::kRelu:
    case ActKind::kReluN1:
    case ActKind::kRelu6:
    case ActKind::kClamp:
      return true;
    default:
      return false;
  }
}

/// Activations that are no clamp, applied in place behind a kernel.
inline void apply_activation(const Activation& act, float* y, int64_t rows, int64_t columns, int64_t stride) {
  if (clamps(act)) return;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[i * stride + j] = activate(act, y[i * stride + j]);
}

}  // namespace smelt
