#pragma once

#include "ops/common/operands.h"
#include "ops/matmul/geometry.h"

namespace smelt {

/// op(a) @ op(b) as [batch, m, n] in scratch memory. T: float, double, uint32_t, uint64_t (wrapping), complex doubles.
template <class T>
Result<T*> multiply(KernelContext& ctx, const MatMulGeometry& g, const T* a, const T* b);

/// Sets index[i] to the index of the element of `c` that broadcasts to element i of `output`.
Status broadcast_index(const Shape& c, const Shape& output, int64_t* index);

}  // namespace smelt
