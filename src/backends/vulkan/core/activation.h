#pragma once

#include "ops/common/enums.h"
#include "shaders/functions.h"

namespace smelt::vulkan {

/// An activation in push constants, with the codes of activation.glsl.
struct GpuActivation {
  uint32_t code = shaders::kActNone;
  float a = 0, b = 0;
};

inline GpuActivation gpu_activation(const Activation& act) {
  switch (act.kind) {
    case ActKind::kNone:
      return {};
    case ActKind::kTanh:
      return {shaders::kActTanh};
    case ActKind::kSignBit:
      return {shaders::kActSignBit};
    case ActKind::kSigmoid:
      return {shaders::kActSigmoid};
    case ActKind::kLeakyRelu:
      return {shaders::kActLeakyRelu, act.a};
    case ActKind::kHardSigmoid:
      return {shaders::kActHardSigmoid, act.a, act.b};
    default: {
      const Bounds b = activation_bounds(act);
      return {shaders::kActBounds, b.lo, b.hi};
    }
  }
}

}  // namespace smelt::vulkan
