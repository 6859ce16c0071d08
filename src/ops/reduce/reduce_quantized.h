#pragma once

#include "ops/reduce/plan.h"
#include "ops/reduce/reduce.h"

namespace smelt {

/// Reductions where x or y is quantized: TFLite's integer kernels as attrs.rounding says, else through float.
Status reduce_quantized(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y);

/// The reduction of real numbers in double; one value an output.
std::vector<double> reduce_doubles(const ReduceAttrs& attrs, const ReducePlan& plan, const double* x);

}  // namespace smelt
