#pragma once

#include "ops/core/op.h"

namespace smelt {

/// The element type that output `out` takes when it follows input `in`: the declared one where the model declares
/// quantized integers, or reals for a quantized input; the input's else.
DType result_dtype(const InferContext& ctx, int in = 0, int out = 0);

/// Declares output `out` with the shape and quantization of input `in` and result_dtype().
Status same_as_input(InferContext& ctx, int in = 0, int out = 0);
/// The same with another element type; no quantization.
Status same_shape(InferContext& ctx, DType dtype, int in = 0, int out = 0);

/// Declares output `out` as the broadcast of inputs [first, last), with `dtype` and `quant`.
Status infer_broadcast(InferContext& ctx, int first, int last, DType dtype, QuantPtr quant = nullptr, int out = 0);

/// A shape of the same rank with nothing known.
inline Shape unknown_shape(int rank) { return Shape::of_rank(rank, -1); }

}  // namespace smelt
