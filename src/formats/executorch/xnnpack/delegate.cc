#include "formats/executorch/delegate.h"

#include "formats/executorch/xnnpack/lower.h"

namespace smelt::executorch {
namespace {

/// True if an argument lies in memory in another order than its shape's.
bool is_permuted(const std::vector<int>& order) {
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<int>(i)) return true;
  return false;
}

Result<const DelegateCall::Argument*> argument_of(const DelegateCall& call, const XnnValue& v) {
  if (v.external_id >= call.args.size())
    return InvalidModel("value ", v.id, ": external id ", v.external_id, ", the delegate is called with ",
                        call.args.size(), " arguments");
  return &call.args[v.external_id];
}

/// Integers of the program become quantized values of the graph without a change of their numbers.
ValueId with_quantization(LoweringContext& c, ValueId id, const ValueType& type) {
  if (!type.quant || c.type(id).quant) return convert(c, id, type);
  if (c.dtype(id) != type.dtype)
    c.fail("an argument of ", to_string(c.dtype(id)), ", ", to_string(type.dtype), " expected");
  ValueType result = ValueType::tensor(type.dtype);
  result.quant = type.quant;
  return c.add_as(Op::kBitCast, CastAttrs(type.dtype), {id}, result);
}

/// The exporter writes a scalar of the program as a value of one dimension of 1.
ValueId enter(LoweringContext& c, const DelegateCall::Argument& arg, const XnnValue& v) {
  ValueId id = arg.value.id;
  if (arg.value.kind != aten::Arg::Kind::kTensor || id == kNoValue)
    c.fail("argument ", v.external_id, " is no tensor with a value");
  if (is_permuted(arg.dim_order))
    id = c.transpose(id, std::vector<int64_t>(arg.dim_order.begin(), arg.dim_order.end()));
  const int rank = v.type.shape.rank();
  if (c.rank(id) == 0 && rank > 0) id = c.reshape(id, std::vector<int64_t>(static_cast<size_t>(rank), 1));
  return with_quantization(c, id, v.type);
}

ValueId leave(LoweringContext& c, const DelegateCall::Argument& arg, ValueId id) {
  const DType dtype = c.dtype(id);
  if (c.type(id).quant) id = c.add_as(Op::kBitCast, CastAttrs(dtype), {id}, ValueType::tensor(dtype));
  if (arg.declared.dtype != DType::kInvalid) id = c.cast(id, arg.declared.dtype);
  if (arg.declared.ranked && arg.declared.shape.rank() == 0 && c.rank(id) > 0) id = c.reshape(id, {});
  if (!is_permuted(arg.dim_order)) return id;
  std::vector<int64_t> inverse(arg.dim_order.size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[static_cast<size_t>(arg.dim_order[i])] = static_cast<int64_t>(i);
  return c.transpose(id, inverse);
}

}  // namespace

Result<DelegateResults> lower_xnnpack(Builder& b, const DelegateCall& call) {
  const DelegateBlob blob = blob_of(call);
  auto graph = read_xnn_graph(blob);
  if (!graph.ok()) return graph.error();
  LoweringContext c(b);
  std::vector<ValueId> inputs;
  for (size_t i : graph->inputs) {
    const XnnValue& v = graph->values[i];
    SMELT_ASSIGN(const auto* arg, argument_of(call, v));
    inputs.push_back(enter(c, *arg, v));
    SMELT_TRY(c.status());
  }
  XnnLowering lowering(b, *graph);
  SMELT_ASSIGN(const std::vector<ValueId> outputs, lowering.run(inputs));
  DelegateResults results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const XnnValue& v = graph->values[graph->outputs[i]];
    SMELT_ASSIGN(const auto* arg, argument_of(call, v));
    results.emplace_back(v.external_id, leave(c, *arg, outputs[i]));
    SMELT_TRY(c.status());
  }
  return results;
}

}  // namespace smelt::executorch
