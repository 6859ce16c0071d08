#include "ops/common/output_type.h"

namespace smelt {

DType real_result_type(const InferContext& ctx, int x) {
  const ValueType& declared = ctx.declared(0);
  const ValueType& in = ctx.input(x);
  const bool quantized = in.quant && !is_float(in.dtype);
  if (declared.dtype != DType::kInvalid && (quantized || declared.quant)) return declared.dtype;
  return quantized ? DType::kF32 : in.dtype;
}

}  // namespace smelt
