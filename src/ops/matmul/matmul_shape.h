#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ops/core/node_spec.h"
#include "ops/matmul/geometry.h"

namespace smelt {

/// A matrix product with everything known. Batches of a that share one b are one tall matrix.
struct MatMulShape {
  MatMulGeometry g;
  int64_t batches = 1, m = 0, n = 0, k = 0;
  int64_t b_matrices = 1;  ///< different matrices of b

  static std::optional<MatMulShape> make(const NodeSpec& spec) {
    const auto& attrs = spec.attrs<MatMulAttrs>();
    auto geometry = matmul_geometry(attrs, spec.inputs[0].shape, spec.inputs[1].shape);
    if (!geometry.ok() || geometry->output.elements() != spec.outputs[0].shape.elements()) return std::nullopt;
    MatMulShape s;
    s.g = std::move(geometry).value();
    s.batches = s.g.batch.elements();
    s.m = s.g.m;
    s.n = s.g.n;
    s.k = s.g.k;
    s.b_matrices = s.g.b.batch.elements();
    if (s.batches * s.m * s.n == 0) return std::nullopt;
    const MatrixView& a = s.g.a;
    bool dense = a.column_stride == 1 && a.row_stride == s.k && s.b_matrices == 1;
    int64_t expect = s.m * s.k;
    for (int i = a.batch.rank() - 1; dense && i >= 0; --i) {
      dense = a.batch_strides[i] == expect || a.batch[i] == 1;
      expect *= a.batch[i];
    }
    if (dense && a.batch.elements() == s.batches) {
      s.m *= s.batches;
      s.batches = 1;
    }
    return s;
  }

  /// Offset in elements of the matrix of an operand for a batch index.
  int64_t offset(const MatrixView& v, int64_t index) const {
    if (batches == 1) return 0;
    int64_t at_offset = 0;
    for (int i = 1; i <= g.batch.rank(); ++i) {
      const int64_t extent = g.batch[g.batch.rank() - i], at = index % extent;
      index /= extent;
      const int d = v.batch.rank() - i;
      if (d >= 0 && v.batch[d] != 1) at_offset += at * v.batch_strides[d];
    }
    return at_offset;
  }
  /// Number of b's matrix for a batch index, counted in the order of b's own batch.
  int64_t b_index(int64_t index) const {
    if (batches == 1 || b_matrices == 1) return 0;
    int64_t number = 0, scale = 1;
    for (int i = 1; i <= g.batch.rank(); ++i) {
      const int64_t extent = g.batch[g.batch.rank() - i], at = index % extent;
      index /= extent;
      const int d = g.b.batch.rank() - i;
      if (d < 0) break;
      number += (g.b.batch[d] == 1 ? 0 : at) * scale;
      scale *= g.b.batch[d];
    }
    return number;
  }
  /// Offset of b's matrix of that number.
  int64_t b_offset(int64_t number) const {
    int64_t at_offset = 0;
    for (int d = g.b.batch.rank() - 1; d >= 0; --d) {
      at_offset += number % g.b.batch[d] * g.b.batch_strides[d];
      number /= g.b.batch[d];
    }
    return at_offset;
  }
  /// True if c broadcasts to the result.
  bool broadcasts(const Shape& c) const {
    const Shape& y = g.output;
    if (c.rank() > y.rank()) return false;
    for (int i = 1; i <= c.rank(); ++i)
      if (c[c.rank() - i] != 1 && c[c.rank() - i] != y[y.rank() - i]) return false;
    return true;
  }
  /// True if c is a vector of n entries that is added to every row of the result.
  bool is_row(const Shape& c) const { return c.elements() == n && (c.rank() == 0 || c.back() == n); }
};

/// Splits a rows x panels product into `tasks`; calls body(first row, last row, first panel, last panel).
template <class F>
void split_product(int64_t rows, int64_t mr, int64_t panels, int64_t task, int64_t tasks, F&& body) {
  const int64_t tall = (rows + mr - 1) / mr;
  if (tall >= panels) {
    // As many rows each make no task have more tiles than it would of whole ones.
    const auto first = [&](int64_t t) {
      return tall >= tasks ? rows * t / tasks : std::min(rows, tall * t / tasks * mr);
    };
    if (const int64_t r0 = first(task), r1 = first(task + 1); r0 < r1) body(r0, r1, int64_t{0}, panels);
  } else {
    const int64_t p0 = panels * task / tasks, p1 = panels * (task + 1) / tasks;
    if (p0 < p1) body(int64_t{0}, rows, p0, p1);
  }
}

}  // namespace smelt
