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

/// Rounding::kXnnpack: float32 maps the accumulators of quantized integers, zero points included, to the output.
struct XnnpackReduceRescale {
  /// `count` elements go into an accumulator.
  XnnpackReduceRescale(const Quantization& x, const Quantization& y, int64_t count, bool mean)
      : factor(x.scale() / y.scale() * (mean ? 1.0f / static_cast<float>(count) : 1.0f)),
        zero(static_cast<float>(y.zero_point()) -
             static_cast<float>(count) * static_cast<float>(x.zero_point()) * factor) {}
  /// The output of one accumulator, not yet rounded to even or clamped.
  float operator()(int64_t accumulator) const { return static_cast<float>(accumulator) * factor + zero; }
  float factor, zero;
};

/// Reduces real numbers in double precision; one value for each output element.
std::vector<double> reduce_doubles(const ReduceAttrs& attrs, const ReducePlan& plan, const double* x,
                                   bool integers = false);

}  // namespace smelt
