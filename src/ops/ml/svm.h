#pragma once

#include <memory_resource>
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
  /// `kernel`: the kernel's value for each of svm_vectors(), new for every row.
  SvmRow(const SvmAttrs& a, std::span<const double> kernel,
         std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  /// What an object for `kernel` values takes from its memory.
  static size_t bytes(const SvmAttrs& a, size_t kernel);

  std::span<const double> kernel;
  std::pmr::vector<double> values;
  std::pmr::vector<int64_t> votes;
  std::pmr::vector<double> pairs, products;            ///< matrices over the classes
  std::pmr::vector<double> probabilities, multiplied;  ///< of the classes, and `products` times them
};

/// Writes the outputs of row n.
Status svm_row(KernelContext& ctx, const SvmAttrs& a, int64_t n, SvmRow& row);

}  // namespace smelt
