#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/core/builder.h"
#include "ops/core/node_spec.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {

/// A node said in other operators.
struct DecomposedNode {
  std::shared_ptr<const Graph> graph;  ///< of static types; nodes in topological order, each with one output
  std::vector<ValueId> inputs;         ///< values of `graph` that are the node's inputs; kNoValue: absent
  std::vector<ValueId> outputs;        ///< values of `graph` that become the node's outputs; kNoValue: not wanted
};

/// Builds the small graph of other operators that a node of static types is decomposed into.
class Decomposition {
 public:
  /// A constant that the host computes from constant operand `operand`; `name` identifies the computation.
  struct Derived {
    size_t operand;
    std::string name;
  };
  /// `spec` must outlive the object.
  explicit Decomposition(const NodeSpec& spec);
  /// Input i of the node; kNoValue if absent.
  ValueId input(size_t i) const { return inputs_[i]; }
  ValueId i64(Int64List values) { return builder_.i64(values); }
  ValueId constant(Tensor t) { return builder_.constant("", std::move(t)); }
  ValueId scalar(DType dtype, double value) { return builder_.scalar(dtype, value); }
  DType dtype(ValueId id) const { return builder_.type(id).dtype; }
  const Shape& shape(ValueId id) const { return builder_.type(id).shape; }
  /// Adds a node and returns its output; kNoValue if an input is kNoValue or the types do not fit, so that calls chain
  /// without checks. `absent`: a kNoValue input is an optional one that is left out.
  ValueId add(Op op, AttrsPtr attrs, IntList inputs, bool absent = false);
  /// Adds a node whose output has the given type, quantization included. Input i may be absent if the node's input i
  /// is.
  ValueId add_as(Op op, AttrsPtr attrs, IntList inputs, const ValueType& type);
  /// A constant computed from constant operand i; see Derived. Its packed forms are shared with other plans.
  ValueId derived(size_t i, const Tensor& content, std::string name);
  ValueId unary(Unary fn, ValueId x);
  ValueId binary(Binary fn, ValueId x, ValueId y);
  ValueId where(ValueId condition, ValueId x, ValueId y);
  ValueId cast(ValueId x, DType to);
  /// x broadcast to `shape`.
  ValueId expand(ValueId x, const Shape& shape);
  ValueId reshape(ValueId x, Int64List dims);
  ValueId transpose(ValueId x, Int64List perm);

  const Graph& graph() const { return module_->graphs[0]; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::map<ValueId, Derived>& derived() const { return derived_; }
  /// True if nodes of the graph make `results`, with the types of the node's outputs.
  bool gives(const std::vector<ValueId>& results) const;
  /// The graph with these results; nullopt unless gives(results). The object is of no use afterwards.
  std::optional<DecomposedNode> finish(std::vector<ValueId> results);

 private:
  const NodeSpec& spec_;
  std::shared_ptr<Module> module_;
  Builder builder_;
  std::vector<ValueId> inputs_;
  std::map<ValueId, Derived> derived_;
};

}  // namespace smelt
