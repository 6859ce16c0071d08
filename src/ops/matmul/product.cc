#include "ops/matmul/product.h"

#include <algorithm>
#include <utility>

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

/// Columns of b that are packed at a time; a multiple of those that gemm_accumulate() takes.
constexpr int64_t kPanel = 64;

bool has_contiguous_rows(const MatrixView& v) { return v.column_stride == 1 && v.row_stride == v.columns; }

/// Columns [begin, end) of c += a b. a has contiguous rows; those of b are packed into `panel`, [k, kPanel], where b's
/// are not.
template <class T>
void multiply_columns(int64_t m, const T* a, const MatrixView& bv, const T* b, int64_t begin, int64_t end, T* panel,
                      T* c) {
  const int64_t k = bv.rows, n = bv.columns;
  if (has_contiguous_rows(bv)) return gemm_accumulate(m, end - begin, k, a, k, b + begin, n, c + begin, n);
  for (int64_t j = begin; j < end; j += kPanel) {
    const int64_t columns = std::min(kPanel, end - j);
    pack(b + j * bv.column_stride, k, columns, bv.row_stride, bv.column_stride, panel);
    gemm_accumulate(m, columns, k, a, k, panel, columns, c + j, n);
  }
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
  const int64_t tasks = std::max(1, ctx.threads().threads());
  const bool packs_a = !has_contiguous_rows(av), packs_b = !has_contiguous_rows(g.b);
  SMELT_ASSIGN(T* const rows, scratch_array<T>(ctx, packs_a ? m * k : 0));
  SMELT_ASSIGN(T* const panels, scratch_array<T>(ctx, packs_b ? tasks * k * kPanel : 0));
  for (int64_t i = 0; i < batches; ++i) {
    SMELT_TRY(ctx.tick());
    const T* am = batches == 1 ? a : a + matrix_offset(av, g.batch, i);
    if (packs_a) pack(std::exchange(am, rows), m, k, av.row_stride, av.column_stride, rows);
    const T* bm = batches == 1 ? b : b + matrix_offset(g.b, g.batch, i);
    T* c = out + i * m * n;
    ctx.threads().parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t blocks = (n + 15) / 16;
        const int64_t j0 = std::min(n, blocks * task / tasks * 16);
        const int64_t j1 = std::min(n, blocks * (task + 1) / tasks * 16);
        multiply_columns(m, am, g.b, bm, j0, j1, packs_b ? panels + task * k * kPanel : nullptr, c);
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
