#pragma once

#include "ops/reduce/plan.h"
#include "ops/reduce/reduce.h"

namespace smelt {

/// Reductions where x or y is quantized: TFLite's integer kernels as attrs.rounding says, else through float.
Status reduce_quantized(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y);

/// True if a Reduce to sum or mean of per-tensor quantized values is computed from accumulators of the quantized
/// integers.
bool reduces_in_integers(const ReduceAttrs& attrs, DType x, DType y);
/// Sets y from those accumulators, of `count` elements of type x and quantization p each.
void finish_accumulators(const ReduceAttrs& attrs, DType x, const Quantization& p, int64_t count,
                         std::vector<int64_t> accumulators, Tensor& y);

/// Rounding::kXnnpack: steps of the output for one step of an accumulator of `count` elements (1: a sum), by the scales
/// of x and y.
inline float xnnpack_mean_factor(float x_scale, float y_scale, int64_t count) {
  return x_scale / y_scale * (1.0f / static_cast<float>(count));
}

/// Reduces real numbers in double precision; one value for each output element.
std::vector<double> reduce_doubles(const ReduceAttrs& attrs, const ReducePlan& plan, const double* x,
                                   bool integers = false);

}  // namespace smelt
