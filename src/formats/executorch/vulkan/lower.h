#pragma once

#include <span>
#include <vector>

#include "formats/executorch/aten/aten.h"
#include "formats/executorch/vulkan/graph.h"
#include "graph/builder.h"

namespace smelt::executorch {

/// Turns the operator calls of a Vulkan graph into nodes of the builder's graph. Storage and layout hints mean nothing
/// here.
class VkLowering {
 public:
  VkLowering(Builder& builder, const VkGraphView& graph)
      : b_(builder), g_(graph), ids_(graph.types.size(), kNone), states_(graph.types.size(), -1) {}

  /// `inputs` are the values of input_ids: tensors of their types, or int64 scalars for SymInts. Returns those of
  /// output_ids.
  Result<std::vector<ValueId>> run(std::span<const ValueId> inputs);

 private:
  /// The graph's value for a tensor or SymInt; constants appear on first use.
  Result<ValueId> read(uint32_t value);
  Result<aten::Arg> argument(uint32_t value);
  Result<aten::Arg> list_argument(const vkgraph::ValueList& list);
  Status lower_call(const vkgraph::OperatorCall& call);
  Status bind_outputs(uint32_t value, std::span<const ValueId> results);
  /// A constant that an operator changes becomes a variable that lives across runs.
  Status mutate(uint32_t value, ValueId contents);

  Builder& b_;
  const VkGraphView& g_;
  std::vector<ValueId> ids_;
  std::vector<int> states_;  ///< variable of a changed constant, by value
};

}  // namespace smelt::executorch
