#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"

namespace smelt {

/// Shape inference of a node of a graph: writes output types to `types` and reads declared types from the graph.
/// Derived classes provide the inputs.
class NodeInfer : public InferContext {
 public:
  const Module& module() const override { return module_; }
  void set(int i, ValueType type) override {
    if (i < outputs()) types_[static_cast<size_t>(i)] = std::move(type);
  }
  const ValueType& declared(int i) const override {
    static const ValueType none;
    return wants(i) ? graph_.value(node_->outputs[static_cast<size_t>(i)]).type : none;
  }

 protected:
  /// Precondition: `types` has an entry for each output.
  NodeInfer(const Module& module, const Graph& graph, const Node& node, std::vector<ValueType>& types)
      : module_(module), graph_(graph), types_(types) {
    node_ = &node;
  }
  /// The value behind input i. Precondition: has(i).
  size_t value_of(int i) const { return static_cast<size_t>(node_->inputs[static_cast<size_t>(i)]); }

  const Module& module_;
  const Graph& graph_;

 private:
  std::vector<ValueType>& types_;
};

}  // namespace smelt
