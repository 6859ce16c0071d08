#include "ops/common/infer.h"

#include "ops/common/broadcast.h"

namespace smelt {

DType result_dtype(const InferContext& ctx, int in, int out) {
  const ValueType& x = ctx.input(in);
  const ValueType& want = ctx.declared(out);
  if (want.dtype == DType::kInvalid) return x.dtype;
  const bool stores = want.quant && is_integer(want.dtype);
  const bool reads = x.quant && is_integer(x.dtype) && is_float(want.dtype);
  return stores || reads || x.dtype == DType::kInvalid ? want.dtype : x.dtype;
}

Status same_as_input(InferContext& ctx, int in, int out) {
  ValueType type = ctx.input(in);
  const DType dtype = result_dtype(ctx, in, out);
  if (dtype != type.dtype) type.quant = nullptr;
  type.dtype = dtype;
  ctx.set(out, std::move(type));
  return Ok();
}

Status same_shape(InferContext& ctx, DType dtype, int in, int out) {
  ValueType type = ctx.input(in);
  type.dtype = dtype;
  type.quant = nullptr;
  ctx.set(out, std::move(type));
  return Ok();
}

Status infer_broadcast(InferContext& ctx, int first, int last, DType dtype, QuantPtr quant, int out) {
  ValueType type = ValueType::tensor(dtype);
  type.quant = std::move(quant);
  type.ranked = true;
  for (int i = first; i < last; ++i) {
    if (!ctx.has(i)) continue;
    const ValueType& x = ctx.input(i);
    if (!x.ranked) {
      type.ranked = false;
      type.shape = Shape{};
      break;
    }
    SMELT_ASSIGN(type.shape, broadcast_shapes(type.shape, x.shape));
  }
  ctx.set(out, std::move(type));
  return Ok();
}

}  // namespace smelt
