#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/list_view.h"
#include "graph/graph.h"
#include "ops/core/op.h"

namespace smelt {

/// Adds nodes to a graph; format readers use it. Types of outputs come from shape inference as nodes are added, unless
/// the reader knows better and says so.
class Builder {
 public:
  Builder(Module& module, int graph) : module_(module), graph_(graph) {}
  Graph& graph() { return module_.graphs[static_cast<size_t>(graph_)]; }
  Module& module() { return module_; }
  /// Reserves memory for so many further values and nodes; more, or fewer, may come.
  void expect(size_t values, size_t nodes);

  /// Origin and location for the nodes added from now on.
  void at(std::string origin, std::string name, std::string where);
  /// Adds to Module::warnings what the reader noticed at the current location.
  void warn(const std::string& text);
  /// Index of Module::partitions for the nodes added from now on; -1: none.
  void in_partition(int partition) { partition_ = partition; }

  ValueId input(const std::string& name, const ValueType& type);
  ValueId value(const std::string& name, const ValueType& type) {
    return graph().add_value({.name = name, .type = type});
  }
  ValueId constant(const std::string& name, Tensor tensor);  ///< type from the tensor, its quantization included
  ValueId i64(Int64List values);                             ///< 1-D int64 constant; equal ones are one value
  ValueId i64_scalar(int64_t value);
  ValueId f32_scalar(float value);
  ValueId scalar(DType dtype, double value);

  /// Adds a node whose outputs are new values; their types are inferred. Returns the outputs.
  Result<std::vector<ValueId>> node(Op op, AttrsPtr attrs, IntList inputs, int outputs);
  /// Adds a node with one output, a new value of inferred type.
  Result<ValueId> op(Op op, AttrsPtr attrs, IntList inputs);
  /// Adds a node with one output of the given type (for its quantization, or what inference can't know).
  Result<ValueId> op_as(Op op, AttrsPtr attrs, IntList inputs, const ValueType& type);
  /// Adds a node that writes existing values (as file formats name their outputs up front). Known parts of the declared
  /// types stay; unknown parts are filled in by inference; a contradiction of rank or element type is an error.
  Status node_to(Op op, AttrsPtr attrs, IntList inputs, IntList outputs);

  const ValueType& type(ValueId id) const { return module_.graphs[static_cast<size_t>(graph_)].value(id).type; }
  const Tensor* constant_of(ValueId id) const {
    return id == kNoValue ? nullptr : module_.graphs[static_cast<size_t>(graph_)].value(id).constant.get();
  }

 private:
  Module& module_;
  int graph_;
  int partition_ = -1;
  std::string origin_, name_, where_;
  std::map<std::string, int> lists_;  ///< bytes of those that i64() has made, the value's id + 1
};

}  // namespace smelt
