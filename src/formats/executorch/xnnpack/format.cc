#include "formats/format.h"

#include "base/error.h"
#include "formats/executorch/delegate.h"
#include "formats/executorch/xnnpack/lower.h"

namespace smelt {
namespace executorch {
namespace {

bool recognise(std::span<const std::byte> bytes) {
  return has_magic(bytes, "XH00") || has_magic(bytes, "XN00") || has_magic(bytes, "XN01");
}

/// A blob in a file of its own: its externals are the model's inputs and outputs.
Result<Module> load(const Source& source) {
  const DelegateBlob blob(source.bytes, source.owner);
  auto graph = read_xnn_graph(blob);
  if (!graph.ok()) return graph.error();
  Module module;
  module.format = "xnnpack";
  module.graphs.emplace_back();
  module.methods.push_back({"forward", 0});
  if (graph->table->version()) module.metadata.emplace_back("version", graph->table->version()->str());
  Builder builder(module, 0);
  std::vector<ValueId> inputs;
  for (size_t v : graph->inputs) inputs.push_back(builder.input(Cat("in", inputs.size()), graph->values[v].type));
  XnnLowering lowering(builder, *graph);
  SMELT_ASSIGN(builder.graph().outputs, lowering.run(inputs));
  int number = 0;
  SMELT_ASSIGN(module.parts, blob_parts(source.bytes, "XH00"));
  for (ValueId id : builder.graph().outputs) builder.graph().value(id).name = Cat("out", number++);
  return module;
}

}  // namespace
}  // namespace executorch

extern const Format xnnpack_format;
const Format xnnpack_format{"xnnpack", executorch::recognise, executorch::load};

}  // namespace smelt
