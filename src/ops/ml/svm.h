#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/ml/ml.h"

namespace smelt {

/// The support vectors, or a linear model's coefficients: rows of as many features as x has.
const std::vector<float>& svm_vectors(const SvmAttrs& a);

/// Scores one row; the object may be used again for the next one.
struct SvmRow {
  std::span<const double> kernel;  ///< the kernel's value for each of svm_vectors()
  std::vector<double> values;
  std::vector<int64_t> votes;
};

/// Writes the outputs of row n.
Status svm_row(KernelContext& ctx, const SvmAttrs& a, int64_t n, SvmRow& row);

}  // namespace smelt
