#pragma once

#include <span>
#include <vector>

#include "runtime/planned_environment.h"
#include "runtime/shape_guard.h"

namespace smelt {

/// Contents up to this many elements are computed while planning when all inputs are known, also where nothing will
/// run.
inline constexpr int64_t kFoldElements = 4096;
/// Contents up to this many bytes stay for the next plan when all their users are folded: where shapes are open, masks
/// and positions of a long cache, so that the next plan follows from this one.
inline constexpr size_t kKeptBytes = 4096, kKeptOpenBytes = size_t{1} << 17;
/// True if the outputs follow from the input's shape alone.
bool follows_from_shape(Op op);
/// Fills in what the graph declares of a node's outputs and the node's shape rule leaves open.
void complete_types(const Graph& graph, const Node& node, std::vector<ValueType>& outputs);
/// True for tensors of one type, shape and quantization.
bool same_value_type(const ValueType& a, const ValueType& b);

/// What planning knows of the content of one value.
struct ContentFacts {
  const Tensor* content = nullptr;
  bool folded = false;  ///< no step makes it: its content was known once, and may be gone when nothing needs it
};
/// What planning knows of one value.
struct ValueFacts : ContentFacts {
  const ValueType& type;
};

/// Types of a graph's values for inputs of given types, and contents of those that constants and shapes determine.
class ConstantPropagation {
 public:
  /// Contents lie in `values`, which gets one for each value of the graph. `given`: the inputs themselves, or none.
  /// `before`: another plan of the graph, whose findings hold where what they follow from is the same; null: none.
  ConstantPropagation(PlannedEnvironment& env, const Graph& graph, std::span<const ValueType> inputs,
                      std::span<const Datum> given, std::vector<Datum>& values, const Plan* before = nullptr);
  template <class Id>
  ValueFacts operator[](Id id) const {
    return {facts_[static_cast<size_t>(id)], types_[static_cast<size_t>(id)]};
  }
  /// The types of all values, by ValueId. No type may be asked for afterwards.
  std::vector<ValueType> take_types() { return std::move(types_); }

  /// Notes and returns the types of the node's outputs, by its shape rule and what the graph declares.
  Status infer(const Node& node, std::vector<ValueType>& types);
  /// Computes the outputs, of the types that infer() gave, when the inputs' contents (or, for ShapeOf, shapes)
  /// determine them and they are small enough. False: a step has to.
  Result<bool> fold(const Node& node, const std::vector<ValueType>& types);
  /// True if types and contents of the node's inputs are those of the plan before, so that all that follows from them
  /// is, too.
  bool same_as_before(const Node& node) const;
  /// True if all contents are at hand that folded nodes took or gave: what another plan may go on from.
  bool complete() const { return complete_; }
  /// `graph` takes the place of the graph: it has further values, and `parts` in place of one of its nodes. Nothing
  /// more is taken from the plan before.
  void extend(const Graph& graph, const Node& node, std::span<const Node* const> parts);
  /// What infer() took from the contents of inputs.
  const std::vector<ShapeGuard>& guards() const { return guards_; }

 private:
  /// infer() with the contents of the graph's inputs, where shapes follow from those.
  Status infer_by_content(const Node& node, std::vector<ValueType>& types);
  void set_content(ValueId id, Tensor content);
  /// Notes what the graph itself says of a value.
  void declare(size_t i);
  /// Notes whether type and content are those of the plan before. Equal contents become the same ones.
  void compare(ValueId id);
  /// fold() by what the plan before made of the node.
  bool fold_as_before(const Node& node);
  bool all_constant(const Node& node) const;
  /// True if large contents of these types still fit what a plan may compute; they then count.
  Result<bool> reserve(const std::vector<ValueType>& types);
  /// In a plan that only shows what would run: constants whose contents nobody reads. True.
  Result<bool> fold_unread(const Node& node, const std::vector<ValueType>& types);
  /// Frees what only folded nodes needed, if it is large.
  void drop_inputs(const Node& node);

  PlannedEnvironment& env_;
  const Graph* graph_;
  std::span<const Datum> given_;
  std::vector<Datum>& values_;
  std::vector<ShapeGuard> guards_;
  std::vector<ValueType> types_;
  std::vector<ContentFacts> facts_;
  std::vector<int> users_;  ///< that are not folded, graph outputs included
  size_t folded_bytes_ = 0;
  size_t kept_bytes_ = kKeptBytes;
  const Plan* before_;
  std::vector<bool> same_;  ///< by value, as in the plan before; empty without one
  bool complete_ = true;
};

}  // namespace smelt
