#include "formats/executorch/delegate.h"

#include "base/error.h"
#include "formats/executorch/xnnpack/lower.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"

namespace smelt::executorch {
namespace {

/// Whether an argument lies in memory in another order than its shape's.
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

/// A program's integers and the graph's quantized values are the same numbers.
Result<ValueId> with_quantization(Builder& b, ValueId id, const ValueType& type) {
  if (!type.quant || b.type(id).quant) return XnnLowering::convert(b, id, type);
  if (b.type(id).dtype != type.dtype)
    return InvalidModel("an argument of ", to_string(b.type(id).dtype), ", ", to_string(type.dtype), " expected");
  ValueType result = ValueType::tensor(type.dtype);
  result.quant = type.quant;
  return b.op_as(Op::kBitCast, make_attrs<CastAttrs>(type.dtype), {id}, result);
}

Result<ValueId> enter(Builder& b, const DelegateCall::Argument& arg, const XnnValue& v) {
  if (arg.value.kind != aten::Arg::Kind::kTensor || arg.value.id == kNoValue)
    return InvalidModel("argument ", v.external_id, " is no tensor with a value");
  ValueId id = arg.value.id;
  if (is_permuted(arg.dim_order)) {
    std::vector<int64_t> perm(arg.dim_order.begin(), arg.dim_order.end());
    SMELT_ASSIGN(id, b.op(Op::kTranspose, make_attrs<TransposeAttrs>(std::move(perm)), {id}));
  }
  return with_quantization(b, id, v.type);
}

Result<ValueId> leave(Builder& b, const DelegateCall::Argument& arg, ValueId id) {
  if (b.type(id).quant) {
    SMELT_ASSIGN(
        id, b.op_as(Op::kBitCast, make_attrs<CastAttrs>(b.type(id).dtype), {id}, ValueType::tensor(b.type(id).dtype)));
  }
  if (arg.declared.dtype != DType::kInvalid && arg.declared.dtype != b.type(id).dtype) {
    SMELT_ASSIGN(id, b.op(Op::kCast, make_attrs<CastAttrs>(arg.declared.dtype), {id}));
  }
  if (!is_permuted(arg.dim_order)) return id;
  std::vector<int64_t> inverse(arg.dim_order.size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[static_cast<size_t>(arg.dim_order[i])] = static_cast<int64_t>(i);
  return b.op(Op::kTranspose, make_attrs<TransposeAttrs>(std::move(inverse)), {id});
}

}  // namespace

Result<DelegateResults> lower_xnnpack(Builder& b, const DelegateCall& call) {
  const DelegateBlob blob = blob_of(call);
  auto graph = read_xnn_graph(blob);
  if (!graph.ok()) return graph.error();
  std::vector<ValueId> inputs;
  for (size_t i : graph->inputs) {
    const XnnValue& v = graph->values[i];
    SMELT_ASSIGN(const auto* arg, argument_of(call, v));
    SMELT_ASSIGN(const ValueId id, enter(b, *arg, v));
    inputs.push_back(id);
  }
  XnnLowering lowering(b, *graph);
  SMELT_ASSIGN(const std::vector<ValueId> outputs, lowering.run(inputs));
  DelegateResults results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const XnnValue& v = graph->values[graph->outputs[i]];
    SMELT_ASSIGN(const auto* arg, argument_of(call, v));
    SMELT_ASSIGN(const ValueId id, leave(b, *arg, outputs[i]));
    results.emplace_back(v.external_id, id);
  }
  return results;
}

}  // namespace smelt::executorch
