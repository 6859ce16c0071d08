#pragma once

#include "formats/onnx/lower.h"
#include "ops/ml/ml.h"

namespace smelt::onnx {

PostTransform post_transform(NodeContext& n);
/// The strings where both lists are given.
ClassLabels class_labels(NodeContext& n, const char* ints, const char* strings);

void lower_tree_ensemble(NodeContext& n);
void lower_tree_classifier(NodeContext& n);
void lower_tree_regressor(NodeContext& n);

}  // namespace smelt::onnx
