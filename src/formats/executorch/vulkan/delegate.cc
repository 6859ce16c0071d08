#include "formats/executorch/delegate.h"

#include <algorithm>

#include "base/error.h"
#include "formats/executorch/vulkan/lower.h"
#include "formats/executorch/vulkan/variables.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"

namespace smelt::executorch {
namespace {

Result<ValueId> cast(Builder& b, ValueId id, DType to) {
  if (b.type(id).dtype == to) return id;
  return b.op(Op::kCast, make_attrs<CastAttrs>(to), {id});
}

/// A number of the program, as the int64 scalar that a SymInt is.
Result<ValueId> enter_symbol(Builder& b, const aten::Arg& arg) {
  if (arg.kind == aten::Arg::Kind::kInt) return b.i64_scalar(arg.i);
  if (arg.id == kNoValue) return InvalidModel("is no integer");
  SMELT_ASSIGN(const ValueId id, cast(b, arg.id, DType::kI64));
  return b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {id, b.i64({})});
}

Result<ValueId> enter(Builder& b, const aten::Arg& arg, const ValueType& type) {
  if (type.dtype == DType::kInvalid) return enter_symbol(b, arg);
  if (arg.id == kNoValue) return InvalidModel("is no tensor with a value");
  return cast(b, arg.id, type.dtype);
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
  std::vector<ValueId> inputs;
  for (uint32_t i = 0; i < ins; ++i) {
    auto id = enter(b, call.args[i].value, graph->types[graph->table->input_ids()->Get(i)]);
    if (!id.ok()) return id.error().within(Cat("argument ", i));
    inputs.push_back(*id);
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
    SMELT_ASSIGN(const ValueId id, cast(b, output, declared == DType::kInvalid ? b.type(output).dtype : declared));
    results.emplace_back(ins + i, id);
  }
  return results;
}

}  // namespace smelt::executorch
