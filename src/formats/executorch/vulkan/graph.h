#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/executorch/blob.h"
#include "vulkan_graph_generated.h"

namespace smelt::executorch {

/// A Vulkan graph whose indices, sizes and constants are checked.
struct VkGraphView {
  const vkgraph::VkGraph* table = nullptr;
  /// Of tensors: the element type that the host sees and the declared shape; kInvalid for other values.
  std::vector<ValueType> types;
  std::vector<Tensor> constants;  ///< by value; defined() where the value is constant
  bool widened = false;           ///< the graph computes in fp16 where the host has fp32: here in fp32
  bool symbolic = false;          ///< it has SymInts, so that declared shapes are upper bounds
};
Result<VkGraphView> read_vk_graph(const DelegateBlob& blob);

/// What the blob says about a tensor's storage; the graph's overrides go first.
StorageHint vk_storage(const vkgraph::VkGraph& graph, const vkgraph::VkTensor& tensor);

/// "call 3 aten.add.Tensor"
std::string vk_call_label(const VkGraphView& graph, uint32_t call);

}  // namespace smelt::executorch
