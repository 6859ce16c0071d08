#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct SoftmaxAttrs : Attrs {
  enum class Kind : uint8_t { kSoftmax, kLogSoftmax, kHardmax } kind = Kind::kSoftmax;
  friend SMELT_ENUM_NAMES(Kind, "softmax", "log_softmax", "hardmax");
  int64_t axis = -1;
  bool flatten = false;  ///< ONNX before opset 13: over all dimensions from axis on
  double beta = 1;       ///< softmax(beta * x)
  Rounding rounding = Rounding::kFloatHalfEven;
  SMELT_FIELDS(kind, axis, flatten, beta, rounding)
};

struct LossAttrs : Attrs {
  enum class Reduce : uint8_t { kNone, kMean, kSum } reduction = Reduce::kMean;
  friend SMELT_ENUM_NAMES(Reduce, "none", "mean", "sum");
  bool has_ignore_index = false;
  int64_t ignore_index = 0;
  SMELT_FIELDS(reduction, has_ignore_index, ignore_index)
};

}  // namespace smelt
