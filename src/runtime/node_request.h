#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"

namespace smelt {

/// Makes what back-ends are asked for nodes of a plan.
class NodeRequests {
 public:
  /// `model`: the graph as the module has it, whose constants live as long as the model.
  [[gnu::cold]] explicit NodeRequests(const Graph& model, PackTime pack_time = PackTime::kPlan)
      : model_(model), pack_time_(pack_time) {
    for (const ValueId id : model.inputs)
      if (id != kNoValue && !model.value(id).type.is_static()) fixed_shapes_ = false;
  }

  /// type_of(id) and content_of(id): an operand's type and what is known of its contents, nullptr if nothing is. Valid
  /// until the next call.
  template <class TypeOf, class ContentOf>
  NodeRequest make(const Node& node, const TypeOf& type_of, const ContentOf& content_of,
                   std::span<const ValueType> outputs) {
    types_.clear();
    contents_.clear();
    auto lifetime = ConstantLifetime::kModel;
    for (ValueId id : node.inputs) {
      const Tensor* const content = id == kNoValue ? nullptr : content_of(id);
      if (content && !is_of_model(id)) lifetime = ConstantLifetime::kPlan;
      types_.push_back(id == kNoValue ? ValueType{} : type_of(id));
      contents_.push_back(content);
    }
    return {{node, types_, contents_, outputs}, lifetime, ThreadUse::kByWork, fixed_shapes_, pack_time_};
  }
  /// True if the value is a constant of the model.
  bool is_of_model(ValueId id) const {
    return static_cast<size_t>(id) < model_.values.size() && model_.value(id).constant;
  }

 private:
  const Graph& model_;
  PackTime pack_time_;
  bool fixed_shapes_ = true;
  // Of the node asked for last; kept for their memory.
  std::vector<ValueType> types_;
  std::vector<const Tensor*> contents_;
};

}  // namespace smelt
