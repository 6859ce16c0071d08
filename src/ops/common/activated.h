#pragma once

#include <cstdint>

#include "ops/common/enums.h"

namespace smelt {

/// activate() of n values in the precision of T for activations that clamp, in float32 for others.
template <class T>
void activate_all(const Activation& act, int64_t n, T* values) {
  switch (act.kind) {
    case ActKind::kNone:
      return;
    case ActKind::kRelu:
    case ActKind::kReluN1:
    case ActKind::kRelu6:
    case ActKind::kClamp: {
      const Bounds b = activation_bounds(act);
      const auto lo = static_cast<T>(b.lo), hi = static_cast<T>(b.hi);
      for (int64_t i = 0; i < n; ++i) values[i] = values[i] < lo ? lo : (values[i] > hi ? hi : values[i]);
      return;
    }
    default:
      for (int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(activate(act, static_cast<float>(values[i])));
  }
}

}  // namespace smelt
