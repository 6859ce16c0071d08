#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"
#include "smelt/tensor.h"

namespace smelt {

/// A node whose shapes follow from what a graph's inputs hold, small counts: a plan knows them for the contents that it
/// is made with, and fits others that give the same.
class ShapeGuard {
 public:
  /// Whether the node's shapes may follow from what a graph's input holds.
  static bool may_concern(const Node& node);
  /// nullopt: the shapes do not, or the operator is none that plans are made for again and again.
  static std::optional<ShapeGuard> of(const Module& module, const Graph& graph, const Node& node,
                                      std::vector<ValueType> inputs);
  /// The types of the node's outputs with these inputs of the graph, of which contents are read; none: unknown.
  Status infer(std::span<const Datum> given, std::vector<ValueType>& types) const;
  /// What a plan takes them for.
  void expect(std::vector<ValueType> types) { expected_ = std::move(types); }
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
