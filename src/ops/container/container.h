#pragma once

#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct SequenceAttrs : Attrs {
  int64_t axis = 0;
  bool new_axis = false;   ///< ConcatFromSequence
  bool keep_dims = true;   ///< SplitToSequence without sizes
  DType to = DType::kF32;  ///< SequenceEmpty
  int graph = -1;          ///< SequenceMap: body
  SMELT_FIELDS(axis, new_axis, keep_dims, to, graph)
  std::vector<int> graphs() const { return {graph}; }  ///< of kControl operators alone
};

}  // namespace smelt
