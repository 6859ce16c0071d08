#include "ops/common/enums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"

namespace smelt {

const char* to_string(FilterLayout l) {
  static const char* const names[] = {"OIS", "OSI", "ISO", "SIO", "SOI", "IOS"};
  return names[static_cast<int>(l)];
}

const char* to_string(AutoPad p) {
  static const char* const names[] = {"explicit", "same_upper", "same_lower", "valid"};
  return names[static_cast<int>(p)];
}

const char* to_string(ActKind a) {
  static const char* const names[] = {"none",     "relu",  "relu_n1_to_1", "relu6",      "tanh",
                                      "sign_bit", "clamp", "sigmoid",      "leaky_relu", "hard_sigmoid"};
  return names[static_cast<int>(a)];
}

std::string to_string(const Activation& act) {
  const char* name = to_string(act.kind);
  if (act.kind == ActKind::kClamp || act.kind == ActKind::kHardSigmoid) return Cat(name, "(", act.a, ", ", act.b, ")");
  if (act.kind == ActKind::kLeakyRelu) return Cat(name, "(", act.a, ")");
  return name;
}

Bounds activation_bounds(const Activation& act) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  switch (act.kind) {
    case ActKind::kRelu:
      return {0, inf};
    case ActKind::kReluN1:
      return {-1, 1};
    case ActKind::kRelu6:
      return {0, 6};
    case ActKind::kClamp:
      return {act.a, act.b};
    default:
      return {-inf, inf};
  }
}

float activate(const Activation& act, float x) {
  switch (act.kind) {
    case ActKind::kNone:
      return x;
    case ActKind::kTanh:
      return std::tanh(x);
    case ActKind::kSignBit:
      return std::signbit(x) ? 1.0f : 0.0f;
    case ActKind::kSigmoid:
      return 1.0f / (1.0f + std::exp(-x));
    case ActKind::kLeakyRelu:
      return x < 0 ? act.a * x : x;
    case ActKind::kHardSigmoid: {
      const float y = act.a * x + act.b;
      return y < 0.0f ? 0.0f : (y > 1.0f ? 1.0f : y);
    }
    default: {
      const Bounds b = activation_bounds(act);
      return x < b.lo ? b.lo : (x > b.hi ? b.hi : x);
    }
  }
}

}  // namespace smelt
