#pragma once

#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct TopKAttrs : Attrs {
  int64_t axis = -1;
  bool largest = true, sorted = true;
  DType index_dtype = DType::kI64;
  /// Equal elements, and all elements of an unsorted result, have the order that PyTorch's selection leaves.
  bool torch_order = false;
  SMELT_FIELDS(axis, largest, sorted, index_dtype, torch_order)
};

struct SortAttrs : Attrs {
  int64_t axis = -1;
  bool descending = false, stable = true;
  SMELT_FIELDS(axis, descending, stable)
};

struct UniqueAttrs : Attrs {
  bool flatten = true;
  int64_t axis = 0;
  bool sorted = true;  ///< else by first occurrence
  DType index_dtype = DType::kI64;
  SMELT_FIELDS(flatten, axis, sorted, index_dtype)
};

struct NonZeroAttrs : Attrs {
  bool rows = false;  ///< [n, rank] (TFLite WHERE, PyTorch); else ONNX's [rank, n]
  SMELT_FIELDS(rows)
};

}  // namespace smelt
