#pragma once

#include "ops/reduce/plan.h"
#include "ops/reduce/reduce.h"

namespace smelt {

/// Reductions where x or y is quantized: TFLite's integer kernels as attrs.rounding says, else through float.
Status reduce_quantized(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y);

/// Whether a sum or mean of per-tensor quantized values follows from the sums of its stored integers alone.
bool reduces_by_sums(const ReduceAttrs& attrs, DType x, DType y);
/// The elements of y from those sums of `count` elements of type x and quantization p each.
void finish_sums(const ReduceAttrs& attrs, DType x, const Quantization& p, int64_t count, std::vector<int64_t> sums,
                 Tensor& y);

/// The reduction of real numbers in double; one value an output.
std::vector<double> reduce_doubles(const ReduceAttrs& attrs, const ReducePlan& plan, const double* x,
                                   bool integers = false);

}  // namespace smelt
