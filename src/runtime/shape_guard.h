#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"
#include "smelt/tensor.h"

namespace smelt {

/// A node whose shapes follow from the contents of a graph's inputs, such as the length of a cache. A plan knows the
/// shapes for the contents that it was made with, and fits other contents that give the same shapes.
class ShapeGuard {
 public:
  /// True if the node's shapes may follow from the contents of a graph's input.
  static bool may_concern(const Node& node);
  /// A guard of the node, whose inputs have these types; nullopt where no shape follows from contents, or where a plan
  /// for each content would be made again and again.
  static std::optional<ShapeGuard> of(const Module& module, const Graph& graph, const Node& node,
                                      std::vector<ValueType> inputs);
  /// The types of the node's outputs for these inputs of the graph, whose contents are read. `given` may be empty: the
  /// contents are unknown.
  Status infer(std::span<const Datum> given, std::vector<ValueType>& types) const;
  /// Notes the types that the plan was made for.
  void expect(std::vector<ValueType> types) { expected_ = std::move(types); }
  /// True if these inputs give the expected types.
  bool holds(std::span<const Datum> given) const;

 private:
  ShapeGuard(const Module& module, const Graph& graph, const Node& node, std::vector<ValueType> inputs)
      : module_(&module), graph_(&graph), node_(&node), inputs_(std::move(inputs)) {}

  const Module* module_;
  const Graph* graph_;
  const Node* node_;
  std::vector<ValueType> inputs_, expected_;
};

}  // namespace smelt
