#include "ops/matmul/dynamic_quant.h"

#include "ops/common/activated.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/requantizer.h"
#include "ops/matmul/product.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Scales and zero points of `rows` rows.
struct RowParams {
  const float* scales;
  const uint32_t* zeros;
  int64_t count;
  int64_t at(int64_t row) const { return count == 1 ? 0 : row; }
};

Status add_and_activate(KernelContext& ctx, const MatMulAttrs& attrs, int64_t columns, float* accumulators) {
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const float* const c, optional_operand<float>(ctx, 2));
  for (int64_t i = 0, n = y.elements(); c && i < n; ++i) accumulators[i] += c[i % columns];
  activate_all(attrs.act, y.elements(), accumulators);
  store(accumulators, y);
  return Ok();
}

/// True if b has one scale, or one for each column.
bool by_column(const Tensor& b, const MatMulAttrs& attrs) {
  return has_integer_quant_params(b, attrs.transpose_b ? 0 : 1);
}

Status integer_rows(KernelContext& ctx, const MatMulGeometry& g, const MatMulAttrs& attrs, const RowParams& rows) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  SMELT_ASSIGN(uint32_t* const as, operand_copy<uint32_t>(ctx, a));
  SMELT_ASSIGN(uint32_t* const bs, operand_copy<uint32_t>(ctx, b));
  subtract_own_zero_points(b, bs);
  for (int64_t i = 0, n = a.elements(); i < n; ++i) as[i] -= rows.zeros[rows.at(i / g.k)];
  SMELT_ASSIGN(const uint32_t* const accumulators, multiply<uint32_t>(ctx, g, as, bs));
  const int64_t n = ctx.output(0).elements(), scales = static_cast<int64_t>(b.quant()->scales.size());
  SMELT_ASSIGN(float* const out, scratch_array<float>(ctx, n));
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(static_cast<int32_t>(accumulators[i])) * rows.scales[rows.at(i / g.n)] *
             b.quant()->scale(scales > 1 ? i % g.n : 0);
  return add_and_activate(ctx, attrs, g.n, out);
}

/// For scales of b that change within a column: dequantizes both operands.
Status real_rows(KernelContext& ctx, const MatMulGeometry& g, const MatMulAttrs& attrs, const RowParams& rows) {
  const Tensor& a = ctx.input(0);
  SMELT_ASSIGN(const uint32_t* const quantized, operand<uint32_t>(ctx, a));
  SMELT_ASSIGN(const float* const bs, operand<float>(ctx, ctx.input(1)));
  SMELT_ASSIGN(float* const as, scratch_array<float>(ctx, a.elements()));
  for (int64_t i = 0, n = a.elements(); i < n; ++i) {
    const int64_t row = rows.at(i / g.k);
    as[i] = rows.scales[row] * static_cast<float>(static_cast<int32_t>(quantized[i] - rows.zeros[row]));
  }
  SMELT_ASSIGN(float* const accumulators, multiply<float>(ctx, g, as, bs));
  return add_and_activate(ctx, attrs, g.n, accumulators);
}

}  // namespace

Status check_dynamic_quant(const MatMulAttrs& attrs, const ValueType& a, const ValueType& b) {
  if (attrs.transpose_a || attrs.flatten_a || attrs.alpha != 1 || attrs.beta != 1)
    return InvalidModel("a transposed, flattened or scaled product, rows times weights expected");
  if (b.ranked && (b.shape.rank() != 2 || !b.quant)) return InvalidModel("weights are no quantized matrix");
  if (a.ranked && a.shape.rank() < 2) return InvalidModel("rows of rank ", a.shape.rank(), ", at least 2 expected");
  return Ok();
}

Status matmul_dynamic_quant(KernelContext& ctx, const MatMulGeometry& g, const MatMulAttrs& attrs) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1), &scale = ctx.input(3);
  if (!ctx.has(4) || !is_8bit(a.dtype())) return InvalidModel("rows with scales are 8-bit integers with zero points");
  const Tensor& zero = ctx.input(4);
  const int64_t rows = g.k ? a.elements() / g.k : 0, given = scale.elements();
  if ((given != rows && given != 1) || zero.elements() != given)
    return InvalidInput(given, " scales and ", zero.elements(), " zero points for ", rows, " rows");
  if (ctx.has(2) && ctx.input(2).elements() != g.n)
    return InvalidInput("an addend of ", ctx.input(2).elements(), " elements for ", g.n, " columns");
  SMELT_ASSIGN(const float* const scales, operand<float>(ctx, scale));
  SMELT_ASSIGN(const uint32_t* const zeros, operand<uint32_t>(ctx, zero));
  const RowParams r{scales, zeros, given};
  return by_column(b, attrs) ? integer_rows(ctx, g, attrs, r) : real_rows(ctx, g, attrs, r);
}

}  // namespace smelt
