#include "formats/format.h"

#include "base/error.h"
#include "formats/executorch/vulkan/lower.h"

namespace smelt {
namespace executorch {
namespace {

bool recognise(std::span<const std::byte> bytes) { return has_magic(bytes, "VH00") || has_magic(bytes, "VK00"); }

/// What a blob says about itself.
void add_hints(const vkgraph::VkGraph& table, Module& module) {
  if (table.version()) module.metadata.emplace_back("version", table.version()->str());
  if (table.storage_type_override() != vkgraph::VkStorageType::DEFAULT_STORAGE)
    module.metadata.emplace_back("storage_type_override",
                                 vkgraph::EnumNameVkStorageType(table.storage_type_override()));
  if (table.memory_layout_override() != vkgraph::VkMemoryLayout::DEFAULT_LAYOUT)
    module.metadata.emplace_back("memory_layout_override",
                                 vkgraph::EnumNameVkMemoryLayout(table.memory_layout_override()));
  if (table.shaders() && table.shaders()->size() > 0)
    module.metadata.emplace_back("shaders", Cat(table.shaders()->size()));
}

/// A blob in a file of its own: its inputs and outputs are the model's. A SymInt is an int64 scalar.
Result<Module> load(const Source& source) {
  const DelegateBlob blob(source.bytes, source.owner);
  auto graph = read_vk_graph(blob);
  if (!graph.ok()) return graph.error();
  Module module;
  module.format = "vulkan";
  module.graphs.emplace_back();
  module.methods.push_back({"forward", 0});
  add_hints(*graph->table, module);
  SMELT_ASSIGN(module.parts, blob_parts(source.bytes, "VH00"));
  Builder builder(module, 0);
  std::vector<ValueId> inputs;
  if (graph->table->input_ids())
    for (uint32_t v : *graph->table->input_ids()) {
      ValueType type = graph->types[v];
      if (type.dtype == DType::kInvalid)
        type = ValueType::tensor(DType::kI64, Shape{});
      else if (graph->symbolic)
        type.shape = Shape::of_rank(type.shape.rank(), -1);
      inputs.push_back(builder.input(Cat("in", inputs.size()), type));
    }
  VkLowering lowering(builder, *graph);
  SMELT_ASSIGN(const std::vector<ValueId> results, lowering.run(inputs));
  for (ValueId id : results) {
    Value& value = builder.graph().value(id);
    if (value.name.empty()) value.name = Cat("out", builder.graph().outputs.size());
    builder.graph().outputs.push_back(id);
  }
  return module;
}

}  // namespace
}  // namespace executorch

extern const Format vulkan_format;
const Format vulkan_format{"vulkan", executorch::recognise, executorch::load};

}  // namespace smelt
