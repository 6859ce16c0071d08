#pragma once

#include "ops/common/enums.h"

namespace smelt {

/// activate() in the precision of T for activations that clamp, in float32 for others.
template <class T>
T activated(const Activation& act, T x) {
  switch (act.kind) {
    case ActKind::kNone:
      return x;
    case ActKind::kRelu:
    case ActKind::kReluN1:
    case ActKind::kRelu6:
    case ActKind::kClamp: {
      const Bounds b = activation_bounds(act);
      return x < static_cast<T>(b.lo) ? static_cast<T>(b.lo) : (x > static_cast<T>(b.hi) ? static_cast<T>(b.hi) : x);
    }
    default:
      return static_cast<T>(activate(act, static_cast<float>(x)));
  }
}

}  // namespace smelt
