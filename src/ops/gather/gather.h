#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "smelt/tensor.h"

namespace smelt {

struct GatherAttrs : Attrs {
  int64_t axis = 0;
  int64_t batch_dims = 0;
  bool negative = true;  ///< negative indices count from the end; else they are errors
  SMELT_FIELDS(axis, batch_dims, negative)
};

struct ScatterAttrs : Attrs {
  int64_t axis = 0;
  enum class Reduce : uint8_t { kNone, kAdd, kMul, kMin, kMax, kMean } reduction = Reduce::kNone;
  bool include_self = true;  ///< PyTorch scatter_reduce
  friend SMELT_ENUM_NAMES(Reduce, "none", "add", "mul", "min", "max", "mean");
  SMELT_FIELDS(axis, reduction, include_self)
};

struct IndexAttrs : Attrs {
  bool accumulate = false;
  SMELT_FIELDS(accumulate)
};

struct OneHotAttrs : Attrs {
  int64_t axis = -1;
  bool wrap_negative = true;  ///< ONNX: -1 means depth - 1; TFLite: out of range gives off_value
  SMELT_FIELDS(axis, wrap_negative)
};

struct EmbeddingSparseAttrs : Attrs {
  enum class Combiner : uint8_t { kSum, kMean, kSqrtN } combiner = Combiner::kSum;
  friend SMELT_ENUM_NAMES(Combiner, "sum", "mean", "sqrtn");
  SMELT_FIELDS(combiner)
};

struct GatherBlockQuantizedAttrs : Attrs {
  int64_t gather_axis = 0, quantize_axis = 1, block = 128, bits = 4;
  SMELT_FIELDS(gather_axis, quantize_axis, block, bits)
};

}  // namespace smelt
