#pragma once

#include "ops/core/op.h"

namespace smelt {

/// Element type of output `out` of an operator whose result has the type of input `in`: the declared type where the
/// model declares quantized integers, or a float for a quantized input; the input's otherwise.
DType result_dtype(const InferContext& ctx, int in = 0, int out = 0);

/// Declares output `out` with the shape and quantization of input `in` and result_dtype().
Status same_as_input(InferContext& ctx, int in = 0, int out = 0);
/// Declares output `out` with the shape of input `in` and `dtype`, not quantized.
Status same_shape(InferContext& ctx, DType dtype, int in = 0, int out = 0);

/// Declares output `out` as the broadcast of inputs [first, last), with `dtype` and `quant`.
Status infer_broadcast(InferContext& ctx, int first, int last, DType dtype, QuantPtr quant = nullptr, int out = 0);

/// A shape of the same rank with nothing known.
inline Shape unknown_shape(int rank) { return Shape::of_rank(rank, -1); }

}  // namespace smelt
