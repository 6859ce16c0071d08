#include "ops/core/infer.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/node_infer.h"
#include "tensor/numeric.h"

namespace smelt {

std::optional<std::vector<int64_t>> InferContext::ints(int i) const {
  if (!has(i)) return std::nullopt;
  const Tensor* t = constant(i);
  if (!t && is_integer(input(i).dtype) && input(i).ranked && std::ranges::count(input(i).shape, 0) > 0)
    return std::vector<int64_t>();  // whatever a run gives, there are none
  if (!t || (!is_integer(t->dtype()) && t->dtype() != DType::kBool)) return std::nullopt;
  std::vector<int64_t> out(static_cast<size_t>(t->elements()));
  to_ints(*t, out.data());
  return out;
}

namespace {

class StaticContext final : public NodeInfer {
 public:
  StaticContext(const Module& module, const Graph& graph, const Node& node, std::vector<ValueType>& types)
      : NodeInfer(module, graph, node, types) {}
  const ValueType& input(int i) const override {
    static const ValueType none;
    return has(i) ? graph_.values[value_of(i)].type : none;
  }
  const Tensor* constant(int i) const override { return has(i) ? graph_.values[value_of(i)].constant.get() : nullptr; }
};

}  // namespace

Status infer_node(const Module& module, const Graph& graph, const Node& node, std::vector<ValueType>& types) {
  const OpInfo& info = op_info(node.op);
  types.assign(node.outputs.size(), {});
  const int ins = static_cast<int>(node.inputs.size()), outs = static_cast<int>(node.outputs.size());
  if (ins < info.min_inputs || ins > info.max_inputs)
    return InvalidModel(info.name, " has ", ins, " inputs, ", info.min_inputs, " to ", info.max_inputs, " expected");
  if (outs < info.min_outputs || outs > info.max_outputs)
    return InvalidModel(info.name, " has ", outs, " outputs, ", info.min_outputs, " to ", info.max_outputs,
                        " expected");
  if (!node.attrs || !info.attrs_fit(node.attrs.get()))
    return Internal(info.name, " carries attributes of another operator");
  if (!info.infer) return Unsupported("operator ", info.name, " has no shape rule");
  StaticContext ctx(module, graph, node, types);
  return info.infer(ctx);
}

Status merge_type(ValueType& declared, const ValueType& inferred, const std::string& what) {
  if (inferred.kind != ValueType::Kind::kTensor || declared.kind != ValueType::Kind::kTensor) {
    if (declared.kind == ValueType::Kind::kTensor && declared.dtype == DType::kInvalid) declared = inferred;
    return Ok();
  }
  if (declared.dtype == DType::kInvalid)
    declared.dtype = inferred.dtype;
  else if (inferred.dtype != DType::kInvalid && inferred.dtype != declared.dtype)
    return InvalidModel(what, " is declared ", to_string(declared.dtype), " but the operator gives ",
                        to_string(inferred.dtype));
  if (!declared.quant) declared.quant = inferred.quant;
  if (inferred.ranked) {
    // The inferred shape replaces the declared one, which is a bound or a hint in several formats.
    declared.ranked = true;
    declared.shape = inferred.shape;
  }
  return Ok();
}

Status infer_module(Module& module) {
  std::vector<ValueType> types;
  for (Graph& graph : module.graphs) {
    for (const Node& node : graph.nodes) {
      if (auto s = infer_node(module, graph, node, types); !s.ok())
        return s.error().within(Cat(node.where, " ", node.origin));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] == kNoValue) continue;
        Value& v = graph.value(node.outputs[i]);
        if (auto s = merge_type(v.type, types[i], Cat("output ", i)); !s.ok())
          return s.error().within(Cat(node.where, " ", node.origin));
      }
    }
  }
  return Ok();
}

}  // namespace smelt
