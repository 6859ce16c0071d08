#include "formats/executorch/delegate.h"

#include <algorithm>

#include "formats/common/lowering_context.h"
#include "formats/executorch/vulkan/lower.h"
#include "formats/executorch/vulkan/variables.h"

namespace smelt::executorch {
namespace {

/// An argument as the value of the graph's type; a number of the program becomes the int64 scalar that a SymInt is.
ValueId enter(LoweringContext& c, const aten::Arg& arg, const ValueType& type) {
  const bool symbol = type.dtype == DType::kInvalid;
  if (symbol && arg.kind == aten::Arg::Kind::kInt) return c.builder().i64_scalar(arg.i);
  if (arg.id == kNoValue) c.fail(symbol ? "is no integer" : "is no tensor with a value");
  return symbol ? c.reshape(c.cast(arg.id, DType::kI64), {}) : c.cast(arg.id, type.dtype);
}

}  // namespace

/// Arguments are all inputs, then all outputs; leading outputs beyond them are the new contents of mutable buffers. The
/// graph stores 64-bit types in 32 bits; the program's come back.
Result<DelegateResults> lower_vulkan(Builder& b, const DelegateCall& call) {
  const DelegateBlob blob = blob_of(call);
  auto graph = read_vk_graph(blob);
  if (!graph.ok()) return graph.error();
  const size_t ins = graph->table->input_ids() ? graph->table->input_ids()->size() : 0;
  const size_t outs = graph->table->output_ids()->size();
  if (call.args.size() <= ins)
    return InvalidModel("the delegate is called with ", call.args.size(), " arguments, its graph has ", ins,
                        " inputs and ", outs, " outputs");
  const size_t taken = std::min(outs, call.args.size() - ins), buffers = outs - taken;
  LoweringContext c(b);
  std::vector<ValueId> inputs;
  for (uint32_t i = 0; i < ins; ++i) {
    inputs.push_back(enter(c, call.args[i].value, graph->types[graph->table->input_ids()->Get(i)]));
    if (!c.ok()) return c.status().error().within(Cat("argument ", i));
  }
  SMELT_ASSIGN(const std::vector<uint32_t> variables, match_variables(*graph, buffers));
  VkLowering lowering(b, *graph);
  for (size_t i = 0; i < buffers; ++i) {
    const uint32_t output = graph->table->output_ids()->Get(static_cast<uint32_t>(i));
    SMELT_TRY(lowering.make_variable(variables[i], graph->types[output].dtype));
  }
  SMELT_ASSIGN(const std::vector<ValueId> outputs, lowering.run(inputs));
  for (size_t i = 0; i < buffers; ++i) SMELT_TRY(lowering.write_variable(variables[i], outputs[i]));
  DelegateResults results;
  for (size_t i = 0; i < taken; ++i) {
    const ValueId output = outputs[buffers + i];
    const DType declared = call.args[ins + i].declared.dtype;
    results.emplace_back(ins + i, declared == DType::kInvalid ? output : c.cast(output, declared));
    SMELT_TRY(c.status());
  }
  return results;
}

}  // namespace smelt::executorch
