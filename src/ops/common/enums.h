#pragma once

#include <cstdint>

#include "graph/attrs.h"

namespace smelt {

/// Order of dimensions of images and sequences.
enum class Layout : uint8_t {
  kChannelsFirst,  ///< N, C, spatial...
  kChannelsLast,   ///< N, spatial..., C
};
inline const char* to_string(Layout l) { return l == Layout::kChannelsFirst ? "channels_first" : "channels_last"; }
/// Where dimension `axis` of a channels-first value of `rank` dimensions lies once the value is channels-last.
inline int64_t channels_last_axis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

/// Order of a convolution filter's dimensions. O: output channels; I: input channels of one group; S: spatial.
enum class FilterLayout : uint8_t {
  kOIS,  ///< ONNX, PyTorch
  kOSI,  ///< TFLite CONV_2D, XNNPACK
  kISO,  ///< TFLite and XNNPACK depthwise: I = 1, O = C * multiplier
  kSIO,  ///< TFLite CONV_3D
  kSOI,  ///< TFLite CONV_3D_TRANSPOSE
  kIOS,  ///< transposed convolution of ONNX and PyTorch: all input channels, output channels of one group, spatial
};
const char* to_string(FilterLayout l);

enum class AutoPad : uint8_t { kExplicit, kSameUpper, kSameLower, kValid };
const char* to_string(AutoPad p);

/// Activation fused behind an operator. In a quantized kernel it clamps the quantized integers; kTanh and kSignBit are
/// computed in float32.
enum class ActKind : uint8_t {
  kNone,
  kRelu,
  kReluN1,
  kRelu6,
  kTanh,
  kSignBit,
  kClamp,
  kSigmoid,
  kLeakyRelu,
  kHardSigmoid
};
const char* to_string(ActKind a);
struct Activation {
  ActKind kind = ActKind::kNone;
  float a = 0;  ///< kClamp: smallest; kLeakyRelu, kHardSigmoid: alpha
  float b = 0;  ///< kClamp: largest; kHardSigmoid: beta
};
std::string to_string(const Activation& act);  ///< "relu6", "clamp(0, 1)"
/// Real bounds of a clamping activation: [0, inf) for kRelu; (-inf, inf) for kinds that don't clamp.
struct Bounds {
  float lo, hi;
};
Bounds activation_bounds(const Activation& act);
/// True if the activation is a clamp to activation_bounds().
inline bool clamps(const Activation& act) {
  return act.kind == ActKind::kNone || act.kind == ActKind::kRelu || act.kind == ActKind::kReluN1 ||
         act.kind == ActKind::kRelu6 || act.kind == ActKind::kClamp;
}
/// Applies the activation to one real value.
float activate(const Activation& act, float x);

}  // namespace smelt
