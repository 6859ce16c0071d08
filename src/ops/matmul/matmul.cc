#include "ops/common/activated.h"
#include "ops/common/dynamic_quant.h"
#include "ops/common/output_type.h"
#include "ops/common/requantizer.h"
#include "ops/matmul/dynamic_quant.h"
#include "ops/matmul/product.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// The dimension of b that holds output columns.
int column_axis(const MatMulAttrs& a, const Tensor& b) {
  if (b.rank() < 2) return -1;
  if (a.trans_batch_b && b.rank() > 2) return a.transpose_b ? 0 : b.rank() - 1;
  return a.transpose_b ? b.rank() - 2 : b.rank() - 1;
}

template <class T>
T scaled(T value, double factor) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(value)) * factor));
  else if constexpr (std::is_same_v<T, float>)
    return value * static_cast<float>(factor);
  else
    return value * factor;
}

/// y = act(alpha * accumulators + beta * c).
template <class T>
Status finish(KernelContext& ctx, const MatMulAttrs& attrs, T* accumulators, Tensor& y) {
  const int64_t n = y.elements();
  if (attrs.alpha != 1)
    for (int64_t i = 0; i < n; ++i) accumulators[i] = scaled(accumulators[i], attrs.alpha);
  if (ctx.has(2) && attrs.beta != 0) {
    SMELT_ASSIGN(const T* const c, operand<T>(ctx, ctx.input(2)));
    SMELT_ASSIGN(int64_t* const index, scratch_array<int64_t>(ctx, n));
    SMELT_TRY(broadcast_index(ctx.input(2).shape(), y.shape(), index));
    for (int64_t i = 0; i < n; ++i) accumulators[i] += attrs.beta == 1 ? c[index[i]] : scaled(c[index[i]], attrs.beta);
  }
  if constexpr (std::is_floating_point_v<T>) {
    activate_all(attrs.act, n, accumulators);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (attrs.act.kind == ActKind::kRelu)
      for (int64_t i = 0; i < n; ++i) accumulators[i] = static_cast<int64_t>(accumulators[i]) < 0 ? 0 : accumulators[i];
  }
  store(accumulators, y);
  return Ok();
}

/// An operand, or its complex conjugate.
template <class T>
Result<const T*> factor(KernelContext& ctx, const Tensor& t, [[maybe_unused]] bool conjugate) {
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (conjugate) {
      SMELT_ASSIGN(T* const copy, operand_copy<T>(ctx, t));
      for (int64_t i = 0, n = t.elements(); i < n; ++i) copy[i] = std::conj(copy[i]);
      return static_cast<const T*>(copy);
    }
  }
  return operand<T>(ctx, t);
}

template <class T>
Status integer_product(KernelContext& ctx, const MatMulGeometry& g, const Requantizer& r, bool add_c) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(T* const as, operand_copy<T>(ctx, a));
  SMELT_ASSIGN(T* const bs, operand_copy<T>(ctx, b));
  subtract_own_zero_points(a, as);
  subtract_own_zero_points(b, bs);
  SMELT_ASSIGN(T* const accumulators, multiply<T>(ctx, g, as, bs));
  const int64_t n = y.elements(), rows = g.n ? n / g.n : 0;
  if (add_c) {
    SMELT_ASSIGN(const T* const c, operand<T>(ctx, ctx.input(2)));
    SMELT_ASSIGN(int64_t* const index, scratch_array<int64_t>(ctx, n));
    SMELT_TRY(broadcast_index(ctx.input(2).shape(), y.shape(), index));
    for (int64_t i = 0; i < n; ++i) accumulators[i] += c[index[i]];
  }
  if (r.real()) {
    SMELT_ASSIGN(float* const out, scratch_array<float>(ctx, n));
    r.to_real(accumulators, rows, out);
    store(out, y);
  } else {
    SMELT_ASSIGN(uint64_t* const out, scratch_array<uint64_t>(ctx, n));
    r.to_quantized(accumulators, rows, out);
    store(out, y);
  }
  return Ok();
}

/// Both operands are quantized integers.
Status quantized_matmul(KernelContext& ctx, const MatMulGeometry& g, const MatMulAttrs& attrs) {
  const Tensor* c = ctx.has(2) ? &ctx.input(2) : nullptr;
  const bool vector_c = c && (c->elements() == g.n && (c->rank() == 0 || c->shape().back() == g.n));
  const bool matrix_c = c && !vector_c;
  SMELT_ASSIGN(const Requantizer r, Requantizer::make(ctx.input(0), ctx.input(1), vector_c ? c : nullptr, ctx.output(0),
                                                      g.n, attrs.rescale_rule()));
  return r.wide() ? integer_product<uint64_t>(ctx, g, r, matrix_c) : integer_product<uint32_t>(ctx, g, r, matrix_c);
}

/// op(a) as rows of real numbers in scratch memory; g.a then describes them.
Result<float*> real_rows(KernelContext& ctx, MatMulGeometry& g) {
  const Tensor& a = ctx.input(0);
  if (g.a.column_stride == 1 && g.a.row_stride == g.k) return operand_copy<float>(ctx, a);
  SMELT_ASSIGN(const float* const from, operand<float>(ctx, a));
  SMELT_ASSIGN(float* const rows, scratch_array<float>(ctx, a.elements()));
  const int64_t size = g.m * g.k;
  for (int64_t i = 0; i < a.elements(); ++i)
    rows[i] = from[i / size * size + i % size / g.k * g.a.row_stride + i % g.k * g.a.column_stride];
  g.a.row_stride = g.k;
  g.a.column_stride = 1;
  return rows;
}

/// Rows of a are quantized to int8 at run time; b holds quantized integers.
Status dynamic_quant_matmul(KernelContext& ctx, MatMulGeometry g, const MatMulAttrs& attrs) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  SMELT_ASSIGN(const float* const as, real_rows(ctx, g));
  SMELT_ASSIGN(uint32_t* const bs, operand_copy<uint32_t>(ctx, b));
  subtract_own_zero_points(b, bs);
  const int64_t rows = g.k ? a.elements() / g.k : 0;
  SMELT_ASSIGN(int8_t* const quantized, scratch_array<int8_t>(ctx, g.k));
  SMELT_ASSIGN(uint32_t* const ints, scratch_array<uint32_t>(ctx, a.elements()));
  SMELT_ASSIGN(QuantParams* const params, scratch_array<QuantParams>(ctx, rows));
  for (int64_t r = 0; r < rows; ++r) {
    params[r] = quantize_row(as + r * g.k, g.k, attrs.asymmetric_inputs, quantized);
    for (int64_t i = 0; i < g.k; ++i) ints[r * g.k + i] = static_cast<uint32_t>(quantized[i] - params[r].zero_point);
  }
  SMELT_ASSIGN(const uint32_t* const accumulators, multiply<uint32_t>(ctx, g, ints, bs));
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(float* const out, scratch_array<float>(ctx, y.elements()));
  const Quantization& q = *b.quant();
  const auto scales = static_cast<int64_t>(q.scales.size());
  for (int64_t i = 0, n = y.elements(); i < n; ++i)
    out[i] = static_cast<float>(static_cast<int32_t>(accumulators[i])) * (rows ? params[i / g.n % rows].scale : 1.0f) *
             q.scale(scales > 1 ? i % g.n % scales : 0);
  return finish(ctx, attrs, out, y);
}

/// Quantizes and dequantizes a row block by block.
void round_blocks(float* row, int64_t k, int64_t block, int8_t* quantized) {
  for (int64_t from = 0; from < k; from += block) {
    const int64_t n = std::min(block, k - from);
    const float scale = quantize_block(row + from, n, quantized);
    for (int64_t i = 0; i < n; ++i) row[from + i] = scale * static_cast<float>(quantized[i]);
  }
}

/// dynamic_quant_matmul() where rows of a broadcast, or scales of b change within a column (blocks): the rows are
/// quantized and dequantized, then multiplied in float32.
Status dynamic_quant_real_matmul(KernelContext& ctx, MatMulGeometry g, const MatMulAttrs& attrs) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  SMELT_ASSIGN(float* const as, real_rows(ctx, g));
  SMELT_ASSIGN(const float* const bs, operand<float>(ctx, b));
  SMELT_ASSIGN(int8_t* const quantized, scratch_array<int8_t>(ctx, g.k));
  for (float* row = as; row != as + a.elements(); row += g.k) {
    if (attrs.row_block > 0) {
      round_blocks(row, g.k, attrs.row_block, quantized);
      continue;
    }
    const QuantParams params = quantize_row(row, g.k, attrs.asymmetric_inputs, quantized);
    for (int64_t i = 0; i < g.k; ++i) row[i] = params.scale * static_cast<float>(quantized[i] - params.zero_point);
  }
  SMELT_ASSIGN(float* const accumulators, multiply<float>(ctx, g, as, bs));
  return finish(ctx, attrs, accumulators, ctx.output(0));
}

/// Zero points of one matrix operand, broadcast to it; a vector goes along `axis`.
Status subtract_operand_zero(KernelContext& ctx, int input, const Tensor& t, int axis, uint32_t* values) {
  const Tensor& zero = ctx.input(input);
  if (zero.rank() <= 1) return subtract_zero_points(zero, values, t.shape(), axis);
  SMELT_ASSIGN(int64_t* const index, scratch_array<int64_t>(ctx, t.elements()));
  SMELT_TRY(broadcast_index(zero.shape(), t.shape(), index));
  for (int64_t i = 0, n = t.elements(); i < n; ++i) values[i] -= static_cast<uint32_t>(get_int(zero, index[i]));
  return Ok();
}

Status infer_product(InferContext& ctx, DType dtype) {
  const ValueType &a = ctx.input(0), &b = ctx.input(1);
  ValueType y = ValueType::tensor(dtype);
  if (a.ranked && b.ranked) {
    SMELT_ASSIGN(const MatMulGeometry g, matmul_geometry(ctx.attrs<MatMulAttrs>(), a.shape, b.shape));
    y.ranked = true;
    y.shape = g.output;
  }
  ctx.set(0, std::move(y));
  return Ok();
}

}  // namespace

Status infer_MatMul(InferContext& ctx) {
  if (!ctx.has(3)) return infer_product(ctx, real_result_type(ctx));
  SMELT_TRY(check_dynamic_quant(ctx.attrs<MatMulAttrs>(), ctx.input(0), ctx.input(1)));
  return infer_product(ctx, DType::kF32);
}

Status reference_MatMul(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<MatMulAttrs>();
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  SMELT_ASSIGN(const MatMulGeometry g, matmul_geometry(attrs, a.shape(), b.shape()));
  const bool integer_b = has_integer_quant_params(b, column_axis(attrs, b));
  if (ctx.has(3)) return matmul_dynamic_quant(ctx, g, attrs);
  const bool real_c = ctx.has(2) && !is_integer(ctx.input(2).dtype());
  const bool one_c = !ctx.has(2) || ctx.input(2).elements() == g.n;
  if (has_integer_quant_params(a, -1) && integer_b && (one_c || !real_c)) return quantized_matmul(ctx, g, attrs);
  if ((attrs.dynamic_quant || attrs.row_block > 0) && is_float(a.dtype()) && b.quant() && !attrs.trans_batch_a &&
      g.k > 0) {
    const bool one_row_each = a.elements() / g.k * g.n == ctx.output(0).elements();  // a does not broadcast
    return attrs.row_block <= 0 && integer_b && one_row_each ? dynamic_quant_matmul(ctx, g, attrs)
                                                             : dynamic_quant_real_matmul(ctx, g, attrs);
  }
  return with_compute(compute_of(a, b), [&]<class T>() -> Status {
    SMELT_ASSIGN(const T* const as, factor<T>(ctx, a, attrs.conjugate_a));
    SMELT_ASSIGN(const T* const bs, factor<T>(ctx, b, attrs.conjugate_b));
    SMELT_ASSIGN(T* const accumulators, multiply<T>(ctx, g, as, bs));
    return finish(ctx, attrs, accumulators, ctx.output(0));
  });
}

Status infer_MatMulInteger(InferContext& ctx) { return infer_product(ctx, DType::kI32); }

Status reference_MatMulInteger(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<MatMulAttrs>();
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  SMELT_ASSIGN(const MatMulGeometry g, matmul_geometry(attrs, a.shape(), b.shape()));
  SMELT_ASSIGN(uint32_t* const as, operand_copy<uint32_t>(ctx, a));
  SMELT_ASSIGN(uint32_t* const bs, operand_copy<uint32_t>(ctx, b));
  const int row_axis = a.rank() < 2 ? -1 : (attrs.transpose_a ? a.rank() - 1 : a.rank() - 2);
  if (ctx.has(2)) SMELT_TRY(subtract_operand_zero(ctx, 2, a, row_axis, as));
  if (ctx.has(3)) SMELT_TRY(subtract_operand_zero(ctx, 3, b, column_axis(attrs, b), bs));
  SMELT_ASSIGN(const uint32_t* const accumulators, multiply<uint32_t>(ctx, g, as, bs));
  std::copy_n(accumulators, ctx.output(0).elements(), ctx.output(0).data<uint32_t>());
  return Ok();
}

}  // namespace smelt
