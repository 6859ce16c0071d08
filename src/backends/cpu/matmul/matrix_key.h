#pragma once

#include <compare>
#include <vector>

#include "backends/cpu/core/constant_key.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {

/// What the packed form of a constant matrix b depends on whatever the kernel. A part of the kernels' keys of packed
/// weights.
struct MatrixKey {
  ConstantKey b;
  const void* c = nullptr;  ///< the addend; nullptr: not a part of the packed form
  int64_t k = 0, n = 0, row_stride = 0, column_stride = 0, matrices = 1;

  MatrixKey(const MatMulShape& s, const Tensor& b, const Tensor* c)
      : b(b),
        c(c ? c->identity() : nullptr),
        k(s.k),
        n(s.n),
        row_stride(s.g.b.row_stride),
        column_stride(s.g.b.column_stride),
        matrices(s.b_matrices) {}
  auto operator<=>(const MatrixKey&) const = default;
  std::vector<int64_t> numbers() const { return {k, n, row_stride, column_stride, matrices}; }
};

}  // namespace smelt
