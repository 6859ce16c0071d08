#pragma once

#include <span>
#include <vector>

#include "formats/executorch/aten/aten.h"
#include "formats/executorch/vulkan/graph.h"
#include "ops/core/builder.h"

namespace smelt::executorch {

/// Turns the operator calls of a Vulkan graph into nodes of the builder's graph. What the blob says
/// about storage on a GPU goes with the values as hints.
class VkLowering {
 public:
  VkLowering(Builder& builder, const VkGraphView& graph)
      : b_(builder), g_(graph), ids_(graph.types.size(), kNoValue), states_(graph.types.size(), -1) {}

  /// Makes constant `value` a variable that lives across runs, of the given element type.
  Status make_variable(uint32_t value, DType dtype);
  /// Writes the contents of a variable at the end of the run. Call it after run().
  Status write_variable(uint32_t value, ValueId contents);

  /// `inputs` are the values of input_ids: tensors of their types, or int64 scalars for SymInts. Returns those of
  /// output_ids.
  Result<std::vector<ValueId>> run(std::span<const ValueId> inputs);

 private:
  /// The graph's value for a tensor or SymInt; constants appear on first use.
  Result<ValueId> read(uint32_t value);
  Result<aten::Arg> argument(uint32_t value);
  Result<aten::Arg> list_argument(const vkgraph::ValueList& list);
  Status lower_call(const vkgraph::OperatorCall& call, uint32_t index);
  Status bind_outputs(uint32_t value, std::span<const ValueId> results);
  /// Gives the graph's value what the blob says about its storage.
  void hint(uint32_t value);
  /// An operator changed `value` in place.
  Status mutate(uint32_t value, ValueId contents);

  Builder& b_;
  const VkGraphView& g_;
  std::vector<ValueId> ids_;
  std::vector<int> states_;  ///< variable that holds a constant, by value; -1: none
};

}  // namespace smelt::executorch
