#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "formats/tflite/writer/op_writer.h"
#include "ops/ml/scores.h"

namespace smelt::tflite {

/// Input 0 of a model of ai.onnx.ml as float32 [n, features]; nothing if it has another rank or wider numbers.
std::optional<int> feature_rows(OpWriter& w);

/// A table of `values` of the shape, as a constant.
int f32_table(SubgraphWriter& s, const std::vector<float>& values, const Shape& shape);
int i32_table(SubgraphWriter& s, const std::vector<int32_t>& values, const Shape& shape);
int bool_table(SubgraphWriter& s, const std::vector<bool>& values, const Shape& shape);

OperatorOptions gather_options(int64_t axis, int64_t batch_dims = 0);
OperatorOptions select_options();
/// x [n, k] times a constant matrix [m, k], plus one number for each m; no bias if `bias` is empty.
int dense(SubgraphWriter& s, int x, const std::vector<float>& matrix, int64_t k, const std::vector<float>& bias);
/// Position of the first largest entry of each row of x [n, k], int32 [n].
int first_largest(SubgraphWriter& s, int x);
/// 1 where the single column of x [n, 1] is above `bound`, else 0, int32 [n].
int above(OpWriter& w, int x, double bound);

/// Binds the output of labels, if it is wanted, to labels[index], index int32 [n].
void bind_labels(OpWriter& w, const ClassLabels& labels, int index);
/// Binds an output to scores [n, columns] behind the transform, with a second class beside a single column. False if
/// the format has no form for the transform, or the result has another width.
bool bind_scores(OpWriter& w, int output, int scores, int64_t columns, PostTransform post, ml::SecondClass second);

}  // namespace smelt::tflite
