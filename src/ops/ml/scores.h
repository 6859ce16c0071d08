#pragma once

#include <memory_resource>
#include <vector>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/ml/ml.h"

namespace smelt::ml {

/// How the single score of a two-class model is expanded to two.
enum class SecondClass : uint8_t {
  kNone,        ///< the score stays alone
  kComplement,  ///< [1 - s, s]
  kNegative,    ///< [-s, s]; with the logistic transform [logistic(-s), logistic(s)]
};

/// Applies the transform to one row of scores. A single score is transformed by kProbit only; it may gain a second
/// class.
void finish_scores(std::pmr::vector<double>& scores, PostTransform post, SecondClass second);

double logistic(double x);

/// Rows and columns of x [n, features] ([features] is one row).
struct Rows {
  int64_t count = 0, features = 0;
};
Rows rows_of(const Shape& shape);

/// x as doubles. Integers pass through float32, as the models' thresholds and weights do.
std::vector<double> load_rows(const Tensor& x);

/// Shape rule of models: scores [n, width], for classifiers label [n] first.
Status infer_model(InferContext& ctx, const ClassLabels& labels, bool classifier, int64_t width);

/// Writes label `index` of row n.
Status set_label(Tensor& out, int64_t n, const ClassLabels& labels, size_t index);

}  // namespace smelt::ml
