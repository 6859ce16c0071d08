#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"

namespace smelt::formats {

/// Operands of a formula that are made on the spot stand in braces, which C++ evaluates from left to right: the order
/// of a call's arguments is the compiler's, and the order of a file's operators and tensors must not be.
struct Operands2 {
  int a, b;
  Operands2(int first, int second) : a(first), b(second) {}
};
struct Operands3 {
  int a, b, c;
  Operands3(int first, int second, int third) : a(first), b(second), c(third) {}
};

/// A node that a writer puts into a file: its operands and results as the graph has them. The graph outlives it.
class WrittenNode {
 public:
  WrittenNode(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Node& node() const { return node_; }
  template <class A>
  const A& attrs() const {
    return static_cast<const A&>(*node_.attrs);
  }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has(int i) const { return i < inputs() && id(i) != kNoValue; }
  bool wants(int i) const { return i < outputs() && out_id(i) != kNoValue; }
  ValueId id(int i) const { return node_.inputs[static_cast<size_t>(i)]; }
  ValueId out_id(int i = 0) const { return node_.outputs[static_cast<size_t>(i)]; }
  const ValueType& in_type(int i) const { return graph_.value(id(i)).type; }
  const ValueType& out_type(int i = 0) const { return graph_.value(out_id(i)).type; }
  /// Null if the input is absent or computed at run time.
  const Tensor* constant(int i) const { return has(i) ? graph_.value(id(i)).constant.get() : nullptr; }
  /// Contents of a constant integer input of at most `most` elements.
  std::optional<std::vector<int64_t>> ints(int i, int64_t most = 65536) const;
  /// The real number that a constant input of one element holds.
  std::optional<double> number(int i) const;

 private:
  const Graph& graph_;
  const Node& node_;
};

/// Constant parameters of a QuantizeLinear or DequantizeLinear as a tensor has them. Null if they are dynamic or by
/// blocks, if the node has limits of its own unless `limited`, or if they go by an axis of a tensor whose rank is
/// unknown.
QuantPtr linear_quant(const WrittenNode& w, bool limited = false);

/// True if the permutation only moves dimensions of 1: the elements stay where they are.
bool moves_nothing(const Shape& shape, const std::vector<int64_t>& perm);

}  // namespace smelt::formats
