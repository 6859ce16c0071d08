#pragma once

#include "ops/common/enums.h"

namespace smelt::vulkan {

/// An activation in push constants, with the codes of activation.glsl.
struct GpuActivation {
  uint32_t code = 0;
  float a = 0, b = 0;
};

inline GpuActivation gpu_activation(const Activation& act) {
  switch (act.kind) {
    case ActKind::kNone:
      return {};
    case ActKind::kTanh:
      return {2};
    case ActKind::kSignBit:
      return {3};
    case ActKind::kSigmoid:
      return {4};
    case ActKind::kLeakyRelu:
      return {5, act.a};
    case ActKind::kHardSigmoid:
      return {6, act.a, act.b};
    default: {
      const Bounds b = activation_bounds(act);
      return {1, b.lo, b.hi};
    }
  }
}

}  // namespace smelt::vulkan
