#pragma once

#include <optional>
#include <vector>

#include "formats/executorch/writer/call_writer.h"
#include "ops/ml/ml.h"
#include "ops/ml/scores.h"
#include "tensor/numeric.h"

// What the operators of ai.onnx.ml share as calls.
namespace smelt::executorch {

/// Input 0 as float32 [n, features]; nullopt if it has another rank or wider numbers.
std::optional<int> feature_rows(CallWriter& w);

template <class T>
int table(CallWriter& w, DType dtype, const std::vector<T>& values, const Shape& shape) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) set_double(t, static_cast<int64_t>(i), static_cast<double>(values[i]));
  return w.plan().constant(t);
}

/// x [n, k] times a constant matrix [m, k], plus one number for each m; no bias if `bias` is empty.
int dense(CallWriter& w, int x, const std::vector<float>& matrix, int64_t k, const std::vector<float>& bias);
/// Position of the first largest entry of each row of x [n, k], int64 [n].
int first_largest(CallWriter& w, int x);
/// Binds the output of labels, if it is wanted, to labels[index], index int64 [n]. False if they are strings.
bool bind_labels(CallWriter& w, const ClassLabels& labels, int index);
/// Binds an output to scores [n, columns] behind the transform, with a second class beside a single column. False if
/// the transform has no form, or the result has another width.
bool bind_scores(CallWriter& w, int output, int scores, PostTransform post, ml::SecondClass second);

}  // namespace smelt::executorch
