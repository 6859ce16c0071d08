#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

enum class Reduction : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kAny,
  kAll,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare,
  kVar,
  kStd
};
inline SMELT_ENUM_NAMES(Reduction, "sum", "mean", "max", "min", "prod", "any", "all", "l1", "l2", "log_sum",
                        "log_sum_exp", "sum_square", "var", "std");

/// Axes are input 1 (integer tensor, negative allowed); absent or empty: all axes, or none when noop_with_empty_axes.
struct ReduceAttrs : Attrs {
  Reduction fn = Reduction::kSum;
  bool keep_dims = false;
  bool noop_with_empty_axes = false;
  double correction = 0;               ///< kVar, kStd: divisor n - correction
  DType accumulate = DType::kInvalid;  ///< dtype of the result where it differs from x (PyTorch dtype=)
  Rounding rounding = Rounding::kFloatHalfEven;
  SMELT_FIELDS(fn, keep_dims, noop_with_empty_axes, correction, accumulate, rounding)
};

struct ArgReduceAttrs : Attrs {
  bool min = false;
  bool flatten = false;  ///< over all elements; axis ignored
  int64_t axis = 0;      ///< used when input 1 is absent
  bool keep_dims = false;
  bool select_last = false;
  DType to = DType::kI64;
  SMELT_FIELDS(min, flatten, axis, keep_dims, select_last, to)
};

struct CumulativeAttrs : Attrs {
  enum class Fn : uint8_t { kSum, kProd, kMax, kMin, kLogSumExp };
  Fn fn = Fn::kSum;
  bool exclusive = false, reverse = false;
  friend SMELT_ENUM_NAMES(Fn, "sum", "prod", "max", "min", "logsumexp");
  SMELT_FIELDS(fn, exclusive, reverse)
};

struct SegmentAttrs : Attrs {
  Reduction fn = Reduction::kSum;
  bool sorted = true;  ///< segment ids ascend and the count is the last id + 1; else input 2 gives the count
  SMELT_FIELDS(fn, sorted)
};

}  // namespace smelt
