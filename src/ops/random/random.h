#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct RandomAttrs : Attrs {
  enum class Kind : uint8_t {
    kUniform,
    kNormal,
    kBernoulli,
    kMultinomial,
    kPermutation,
    kDropoutMask
  } kind = Kind::kUniform;
  friend SMELT_ENUM_NAMES(Kind, "uniform", "normal", "bernoulli", "multinomial", "permutation", "dropout_mask");
  DType to = DType::kF32;
  double a = 0, b = 1;  ///< uniform: low, high; normal: mean, scale; integer uniform: [a, b)
  int64_t samples = 1;  ///< multinomial
  bool seeded = false;
  double seed = 0;
  SMELT_FIELDS(kind, to, a, b, samples, seeded, seed)
};

}  // namespace smelt
