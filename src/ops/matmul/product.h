#pragma once

#include "ops/common/operands.h"
#include "ops/matmul/geometry.h"

namespace smelt {

/// Raw products op(a) @ op(b) in [batch, m, n] order; T is float, double, uint32_t, uint64_t or complex.
template <class T>
Result<T*> products(KernelContext& ctx, const MatMulGeometry& g, const T* a, const T* b);

/// For each element of `output` the index of the element of `c` that broadcasts to it.
Status broadcast_index(const Shape& c, const Shape& output, int64_t* index);

}  // namespace smelt
