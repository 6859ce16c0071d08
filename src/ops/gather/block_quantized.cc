#include "base/checked.h"
#include "base/error.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Number of values in one element: a byte may pack several, along the last dimension.
int64_t values_per_element(DType dtype, const GatherBlockQuantizedAttrs& a) {
  return dtype == DType::kU8 && a.bits < 8 ? 8 / a.bits : 1;
}

/// Value i of row `row` of a tensor whose rows hold `per` values an element.
int64_t packed_value(const Tensor& t, int64_t row, int64_t row_elements, int64_t i, int64_t per, int64_t bits) {
  if (per == 1) return get_int(t, row * row_elements + i);
  return get_int(t, row * row_elements + i / per) >> (i % per * bits) & ((int64_t{1} << bits) - 1);
}

struct Axes {
  int gather, quantize;
};

Result<Axes> block_axes(const GatherBlockQuantizedAttrs& a, DType dtype, int rank) {
  Axes axes;
  if (a.bits != 2 && a.bits != 4 && a.bits != 8) return InvalidModel("values of ", a.bits, " bits");
  if (a.block < 1) return InvalidModel("blocks of ", a.block);
  SMELT_ASSIGN(axes.gather, axis_of(a.gather_axis, rank));
  SMELT_ASSIGN(axes.quantize, axis_of(a.quantize_axis, rank));
  if (axes.gather == axes.quantize) return InvalidModel("gather and quantize axis are the same");
  if (values_per_element(dtype, a) > 1 && axes.quantize != rank - 1)
    return InvalidModel("packed values are quantized along the last axis only");
  return axes;
}

}  // namespace

Status infer_GatherBlockQuantized(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const auto& a = ctx.attrs<GatherBlockQuantizedAttrs>();
  const ValueType &x = ctx.input(0), &indices = ctx.input(1), &scales = ctx.input(2);
  if (!x.ranked || !indices.ranked || x.dtype == DType::kInvalid) {
    ctx.set(0, ValueType::tensor(scales.dtype));
    return Ok();
  }
  if (!is_integer(x.dtype)) return InvalidModel("data of ", to_string(x.dtype));
  const int rank = x.shape.rank();
  SMELT_ASSIGN(const Axes axes, block_axes(a, x.dtype, rank));
  Shape logical = x.shape;
  if (logical.back() >= 0 && __builtin_mul_overflow(logical.back(), values_per_element(x.dtype, a), &logical[rank - 1]))
    return InvalidModel("the data is too large");
  if (scales.ranked) {
    if (scales.shape.rank() != rank)
      return InvalidModel("scales have rank ", scales.shape.rank(), ", ", rank, " expected");
    for (int i = 0; i < rank; ++i) {
      if (logical[i] < 0 || scales.shape[i] < 0) continue;
      const int64_t want = i == axes.quantize ? ceil_div(logical[i], a.block) : logical[i];
      if (scales.shape[i] != want)
        return InvalidModel("scales of shape ", scales.shape.str(), " for data of shape ", logical.str());
    }
  }
  if (rank - 1 + indices.shape.rank() > Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  Shape out(logical.dims().first(static_cast<size_t>(axes.gather)));
  for (int64_t d : indices.shape) out.push_back(d);
  for (int i = axes.gather + 1; i < rank; ++i) out.push_back(logical[i]);
  ctx.set(0, ValueType::tensor(scales.dtype, out));
  return Ok();
}

Status reference_GatherBlockQuantized(KernelContext& ctx) {
  const auto& a = ctx.attrs<GatherBlockQuantizedAttrs>();
  const Tensor &x = ctx.input(0), &scales = ctx.input(2);
  const Tensor* zero_points = ctx.has(3) ? &ctx.input(3) : nullptr;
  Tensor& y = ctx.output(0);
  if (y.elements() == 0) return Ok();
  SMELT_ASSIGN(const Axes axes, block_axes(a, x.dtype(), x.rank()));
  const int rank = x.rank();
  const int64_t per = values_per_element(x.dtype(), a);
  const int64_t row = x.dim(rank - 1) * per, scale_row = scales.dim(rank - 1);
  const int64_t zero_row = ceil_div(scale_row, per);
  if (zero_points && zero_points->elements() * scale_row < scales.elements() * zero_row)
    return InvalidInput("zero points of shape ", zero_points->shape().str(), " for scales of shape ",
                        scales.shape().str());
  const int64_t fallback = x.dtype() == DType::kU8 ? int64_t{1} << (a.bits - 1) : 0;
  const auto indices = ints_of(ctx.input(1));
  // Rows are runs along the last dimension; the gathered dimension may be the last one too.
  Shape logical = x.shape();
  logical[rank - 1] = row;
  const Around around(logical, axes.gather);
  const int64_t extent = logical[axes.gather];
  const int64_t q_inner = Around(logical, axes.quantize).inner, q_extent = logical[axes.quantize];
  const int64_t q_blocks = scales.dim(axes.quantize);
  int64_t to = 0;
  for (int64_t o = 0; o < around.outer; ++o)
    for (int64_t given : indices) {
      SMELT_ASSIGN(const int64_t index, index_of(given, extent));
      for (int64_t i = 0; i < around.inner; ++i) {
        const int64_t at = (o * extent + index) * around.inner + i;
        const int64_t block =
            (at / q_inner / q_extent * q_blocks + at / q_inner % q_extent / a.block) * q_inner + at % q_inner;
        const int64_t q = packed_value(x, at / row, x.dim(rank - 1), at % row, per, a.bits);
        const int64_t zero =
            zero_points ? packed_value(*zero_points, block / scale_row, zero_row, block % scale_row, per, a.bits)
                        : fallback;
        set_double(y, to++, static_cast<double>(q - zero) * get_double(scales, block));
      }
    }
  return Ok();
}

}  // namespace smelt
