#pragma once

#include "graph/graph.h"
#include "ops/core/op.h"

namespace smelt {

/// Runs the shape rule of one node at load time: types from the graph's values, contents from its constants.
/// Sets types[i] for each output i; dtype kInvalid where the rule sets none.
Status infer_node(const Module& module, const Graph& graph, const Node& node, std::vector<ValueType>& types);

/// Merges what inference knows into a declared type. Declared dtype and quantization stay; unknown dimensions are
/// filled. An error when ranks or element types contradict.
Status merge_type(ValueType& declared, const ValueType& inferred, const std::string& what);

/// Infers all values of all graphs in order (types of graph inputs given).
Status infer_module(Module& module);

}  // namespace smelt
