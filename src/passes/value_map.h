#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace smelt {

/// Ids that the values of a graph get where its nodes are put into another one.
class ValueMap {
 public:
  /// The graph must outlive this.
  explicit ValueMap(const Graph& from) : from_(from), ids_(from.values.size(), kNoValue) {}
  /// The values `inner`, where there are any, are `outer` there, which may have none.
  void stands_for(const std::vector<ValueId>& inner, const std::vector<ValueId>& outer) {
    for (size_t i = 0; i < inner.size(); ++i)
      if (inner[i] != kNoValue) ids_[static_cast<size_t>(inner[i])] = outer[i];
  }
  /// Adds all other values to `to`.
  void add_others(Graph& to) {
    for (size_t i = 0; i < ids_.size(); ++i)
      if (ids_[i] == kNoValue) ids_[i] = to.add_value(from_.values[i]);
  }
  /// Gives a node of the graph its operands there.
  void rename(Node& n) const {
    for (auto* list : {&n.inputs, &n.outputs})
      for (ValueId& id : *list)
        if (id != kNoValue) id = ids_[static_cast<size_t>(id)];
  }

 private:
  const Graph& from_;
  std::vector<ValueId> ids_;
};

}  // namespace smelt
