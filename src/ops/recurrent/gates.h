#pragma once

#include <vector>

#include "base/error.h"
#include "ops/recurrent/recurrent.h"

namespace smelt {

/// One activation with its parameters resolved.
struct RecurrentGate {
  enum class Fn : uint8_t {
    kAffine,
    kElu,
    kHardSigmoid,
    kLeakyRelu,
    kRelu,
    kScaledTanh,
    kSigmoid,
    kSoftplus,
    kSoftsign,
    kTanh,
    kThresholdedRelu
  } fn = Fn::kTanh;
  double alpha = 0, beta = 0;

  double operator()(double x) const;
};

/// The activations of all gates, direction by direction.
Result<std::vector<RecurrentGate>> recurrent_gates(const RecurrentAttrs& a, int directions);

}  // namespace smelt
