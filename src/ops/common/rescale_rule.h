#pragma once

#include "ops/common/enums.h"

namespace smelt {

/// How the accumulators of a quantized Conv or MatMul become its output. docs/arithmetic.md says which rule a format's
/// operator has.
struct RescaleRule {
  Activation act;
  Rounding rounding = Rounding::kFloatHalfEven;
  bool float_scale_product = false;  ///< as ConvAttrs::float_scale_product
  double alpha = 1;                  ///< real factor of the product of the operands
};

}  // namespace smelt
