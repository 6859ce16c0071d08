#include <algorithm>
#include <charconv>
#include <cmath>

#include "ops/common/operands.h"
#include "ops/matmul/matmul.h"

namespace smelt {
namespace {

Result<int64_t> matrix_size(const Shape& x) {
  if (x.rank() < 2) return InvalidModel("square matrices expected, got rank ", x.rank());
  const int64_t n = x[x.rank() - 1], m = x[x.rank() - 2];
  if (n >= 0 && m >= 0 && n != m) return InvalidInput("square matrices expected, got ", x.str());
  return n;
}

/// Gaussian elimination with partial pivoting on [a | right] (n rows of n + columns). Returns the determinant.
double eliminate(double* a, int64_t n, int64_t columns) {
  const int64_t width = n + columns;
  double det = 1;
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r)
      if (std::fabs(a[r * width + c]) > std::fabs(a[pivot * width + c])) pivot = r;
    if (pivot != c) {
      std::swap_ranges(a + c * width, a + (c + 1) * width, a + pivot * width);
      det = -det;
    }
    const double p = a[c * width + c];
    det *= p;
    if (p == 0 && columns == 0) return 0;
    for (int64_t r = columns ? 0 : c + 1; r < n; ++r) {
      if (r == c) continue;
      const double f = a[r * width + c] / p;
      if (f == 0) continue;
      for (int64_t k = c; k < width; ++k) a[r * width + k] -= f * a[c * width + k];
    }
  }
  return det;
}

}  // namespace

Status infer_Det(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(x.dtype);
  if (x.ranked) {
    SMELT_TRY(matrix_size(x.shape));
    y.ranked = true;
    for (int i = 0; i + 2 < x.shape.rank(); ++i) y.shape.push_back(x.shape[i]);
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_Det(KernelContext& ctx) {
  SMELT_ASSIGN(const int64_t n, matrix_size(ctx.input(0).shape()));
  SMELT_ASSIGN(double* const a, operand_copy<double>(ctx, ctx.input(0)));
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(double* const out, scratch_array<double>(ctx, y.elements()));
  for (int64_t i = 0; i < y.elements(); ++i) {
    SMELT_TRY(ctx.tick());
    out[i] = eliminate(a + i * n * n, n, 0);
  }
  store(out, y);
  return Ok();
}

Status infer_Inverse(InferContext& ctx) {
  if (ctx.input(0).ranked) SMELT_TRY(matrix_size(ctx.input(0).shape));
  ctx.set(0, ctx.input(0));
  return Ok();
}

Status reference_Inverse(KernelContext& ctx) {
  SMELT_ASSIGN(const int64_t n, matrix_size(ctx.input(0).shape()));
  SMELT_ASSIGN(const double* const a, operand<double>(ctx, ctx.input(0)));
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(double* const out, scratch_array<double>(ctx, y.elements()));
  SMELT_ASSIGN(double* const work, scratch_array<double>(ctx, 2 * n * n));
  const int64_t matrices = n ? y.elements() / (n * n) : 0;
  for (int64_t i = 0; i < matrices; ++i) {
    SMELT_TRY(ctx.tick());
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < n; ++c) {
        work[r * 2 * n + c] = a[(i * n + r) * n + c];
        work[r * 2 * n + n + c] = r == c ? 1 : 0;
      }
    eliminate(work, n, n);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < n; ++c) out[(i * n + r) * n + c] = work[r * 2 * n + n + c] / work[r * 2 * n + r];
  }
  store(out, y);
  return Ok();
}

Status infer_PairwiseDistance(InferContext& ctx) {
  const ValueType &a = ctx.input(0), &b = ctx.input(1);
  ValueType y = ValueType::tensor(a.dtype);
  if (a.ranked && b.ranked) {
    const int rank = a.shape.rank();
    if (rank < 2 || b.shape.rank() != rank) return InvalidModel("distances of rows need operands of equal rank >= 2");
    if (a.shape.back() >= 0 && b.shape.back() >= 0 && a.shape.back() != b.shape.back())
      return InvalidInput("rows of ", a.shape.back(), " and ", b.shape.back(), " elements have no distance");
    y.ranked = true;
    y.shape = a.shape;
    for (int i = 0; i + 2 < rank; ++i)
      if (a.shape[i] >= 0 && b.shape[i] >= 0 && a.shape[i] != b.shape[i])
        return InvalidInput("batches ", a.shape.str(), " and ", b.shape.str(), " differ");
    y.shape[rank - 1] = b.shape[rank - 2];
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_PairwiseDistance(KernelContext& ctx) {
  const std::string& metric = ctx.attrs<EinsumAttrs>().equation;
  double p = 2;
  if (metric == "inf") {
    p = INFINITY;
  } else if (metric != "euclidean" && metric != "sqeuclidean") {
    const auto r = std::from_chars(metric.data(), metric.data() + metric.size(), p);
    if (r.ec != std::errc() || r.ptr != metric.data() + metric.size())
      return Unsupported("distance metric '", metric, "'");
  }
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const double* const as, operand<double>(ctx, a));
  SMELT_ASSIGN(const double* const bs, operand<double>(ctx, b));
  SMELT_ASSIGN(double* const out, scratch_array<double>(ctx, y.elements()));
  const int64_t d = a.shape().back(), m = y.dim(y.rank() - 2), n = y.dim(y.rank() - 1);
  for (int64_t i = 0, total = y.elements(); i < total; ++i) {
    const double *x = as + i / n * d, *z = bs + (i / (m * n) * n + i % n) * d;
    double sum = 0;
    for (int64_t k = 0; k < d; ++k) {
      const double diff = std::fabs(x[k] - z[k]);
      if (p == 2)
        sum += diff * diff;
      else if (std::isinf(p))
        sum = std::max(sum, diff);
      else if (p == 0)
        sum += diff != 0;
      else
        sum += std::pow(diff, p);
    }
    if (p == 2)
      out[i] = metric == "sqeuclidean" ? sum : std::sqrt(sum);
    else
      out[i] = std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p);
  }
  store(out, y);
  return Ok();
}

}  // namespace smelt
