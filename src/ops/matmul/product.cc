#include "ops/matmul/product.h"

#include <algorithm>

#include "ops/common/gemm.h"

namespace smelt {
namespace {

template <class T>
void pack(const T* from, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, T* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * columns + c] = from[r * row_stride + c * column_stride];
}

/// Offset of the matrix at a flattened index of the broadcast batch.
int64_t matrix_offset(const MatrixView& v, const Shape& batch, int64_t index) {
  int64_t offset = 0;
  for (int i = 1; i <= batch.rank(); ++i) {
    const int64_t extent = batch[batch.rank() - i], at = index % extent;
    index /= extent;
    const int d = v.batch.rank() - i;
    if (d >= 0 && v.batch[d] != 1) offset += at * v.batch_strides[d];
  }
  return offset;
}

/// The matrix with contiguous rows: itself, or a copy in `buffer`.
template <class T>
const T* contiguous(const MatrixView& v, const T* base, T* buffer) {
  if (v.column_stride == 1 && v.row_stride == v.columns) return base;
  pack(base, v.rows, v.columns, v.row_stride, v.column_stride, buffer);
  return buffer;
}

}  // namespace

template <class T>
Result<T*> multiply(KernelContext& ctx, const MatMulGeometry& g, const T* a, const T* b) {
  int64_t batches = g.batch.elements(), m = g.m;
  const int64_t n = g.n, k = g.k, total = batches * m * n;
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, total));
  std::fill_n(out, total, T{});
  if (total == 0 || k == 0) return out;
  MatrixView av = g.a;
  const bool one_b = g.b.batch.rank() == 0;
  if (one_b && av.column_stride == 1 && av.row_stride == k &&
      !(av.batch.rank() > 0 && av.batch_strides.back() != m * k)) {
    m *= batches;  // the batches of a are one tall matrix
    av.rows = m;
    batches = 1;
  }
  SMELT_ASSIGN(T* const a_buffer, scratch_array<T>(ctx, m * k));
  SMELT_ASSIGN(T* const b_buffer, scratch_array<T>(ctx, k * n));
  int64_t packed_b = -1;
  const T* bm = nullptr;
  const int64_t tasks = std::max(1, ctx.threads().threads());
  for (int64_t i = 0; i < batches; ++i) {
    SMELT_TRY(ctx.tick());
    const T* am = contiguous(av, batches == 1 ? a : a + matrix_offset(av, g.batch, i), a_buffer);
    const int64_t b_offset = batches == 1 ? 0 : matrix_offset(g.b, g.batch, i);
    if (b_offset != packed_b) {
      bm = contiguous(g.b, b + b_offset, b_buffer);
      packed_b = b_offset;
    }
    T* c = out + i * m * n;
    ctx.threads().parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t blocks = (n + 15) / 16;
        const int64_t j0 = std::min(n, blocks * task / tasks * 16);
        const int64_t j1 = std::min(n, blocks * (task + 1) / tasks * 16);
        gemm_accumulate(m, j1 - j0, k, am, k, bm + j0, n, c + j0, n);
      }
    });
  }
  return out;
}
template Result<float*> multiply<float>(KernelContext&, const MatMulGeometry&, const float*, const float*);
template Result<double*> multiply<double>(KernelContext&, const MatMulGeometry&, const double*, const double*);
template Result<uint32_t*> multiply<uint32_t>(KernelContext&, const MatMulGeometry&, const uint32_t*, const uint32_t*);
template Result<uint64_t*> multiply<uint64_t>(KernelContext&, const MatMulGeometry&, const uint64_t*, const uint64_t*);
template Result<std::complex<double>*> multiply<std::complex<double>>(KernelContext&, const MatMulGeometry&,
                                                                      const std::complex<double>*,
                                                                      const std::complex<double>*);

Status broadcast_index(const Shape& c, const Shape& output, int64_t* index) {
  if (c.rank() > output.rank() && c.elements() != output.elements())
    return InvalidInput("an operand of shape ", c.str(), " does not broadcast to ", output.str());
  const Shape strides = c.strides();
  Shape step = Shape::of_rank(output.rank(), 0);
  for (int i = 1; i <= output.rank() && i <= c.rank(); ++i) {
    const int64_t d = c[c.rank() - i];
    if (d != 1 && d != output[output.rank() - i])
      return InvalidInput("an operand of shape ", c.str(), " does not broadcast to ", output.str());
    step[output.rank() - i] = d == 1 ? 0 : strides[c.rank() - i];
  }
  const int64_t n = output.elements();
  Shape at = Shape::of_rank(output.rank(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < n; ++i) {
    index[i] = offset;
    for (int d = output.rank() - 1; d >= 0; --d) {
      offset += step[d];
      if (++at[d] < output[d]) break;
      offset -= step[d] * output[d];
      at[d] = 0;
    }
  }
  return Ok();
}

}  // namespace smelt
