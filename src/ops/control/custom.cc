// Operators that the caller registered.
#include "ops/control/control.h"
#include "ops/core/op.h"
#include "smelt/custom_operator.h"

namespace smelt {
namespace {

CustomOperator::TensorType public_type(const ValueType& t) { return {t.dtype, t.ranked, t.shape, t.quant}; }

Result<std::vector<CustomOperator::TensorType>> ask(const CustomAttrs& a,
                                                    const std::vector<CustomOperator::TensorType>& inputs,
                                                    const std::vector<CustomOperator::TensorType>& declared) {
  if (!a.op) return declared;
  auto types = a.op->infer(a.prepared.get(), inputs, declared);
  if (!types.ok()) return types.error().within(a.name);
  if (types->size() != declared.size())
    return Internal(a.name, ": infer() gave ", types->size(), " types for ", declared.size(), " outputs");
  return types;
}

}  // namespace

Status infer_Custom(InferContext& ctx) {
  const auto& a = ctx.attrs<CustomAttrs>();
  std::vector<CustomOperator::TensorType> in, declared;
  for (int i = 0; i < ctx.inputs(); ++i)
    in.push_back(ctx.has(i) ? public_type(ctx.input(i)) : CustomOperator::TensorType{});
  for (int i = 0; i < ctx.outputs(); ++i) declared.push_back(public_type(ctx.declared(i)));
  SMELT_ASSIGN(const auto types, ask(a, in, declared));
  for (size_t i = 0; i < types.size(); ++i)
    ctx.set(static_cast<int>(i),
            {.dtype = types[i].dtype, .ranked = types[i].ranked, .shape = types[i].shape, .quant = types[i].quant});
  return Ok();
}

Status reference_Custom(KernelContext& ctx) {
  const auto& a = ctx.attrs<CustomAttrs>();
  if (!a.op) return Unsupported("operator ", a.name, " is not known");
  std::vector<CustomOperator::TensorType> in, declared;
  std::vector<Tensor> inputs, outputs(static_cast<size_t>(ctx.outputs()));
  for (int i = 0; i < ctx.inputs(); ++i) {
    if (!ctx.has(i)) {
      in.emplace_back();
      inputs.emplace_back();
      continue;
    }
    if (!ctx.datum(i).is_tensor()) return Unsupported("operand ", i, " of ", a.name, " is not a tensor");
    const Tensor& t = ctx.input(i);
    in.push_back({t.dtype(), true, t.shape(), t.quant()});
    inputs.push_back(t);
  }
  for (int i = 0; i < ctx.outputs(); ++i) declared.push_back({DType::kInvalid, false, Shape(), ctx.output_quant(i)});
  SMELT_ASSIGN(const auto types, ask(a, in, declared));
  for (int i = 0; i < ctx.outputs(); ++i) {
    const auto& t = types[static_cast<size_t>(i)];
    if (t.dtype == DType::kInvalid || !t.ranked || !t.shape.is_static()) continue;
    SMELT_ASSIGN(Tensor * out, ctx.allocate(i, t.dtype, t.shape));
    outputs[static_cast<size_t>(i)] = *out;
  }
  if (auto s = a.op->run(a.prepared.get(), inputs, outputs); !s.ok()) return s.error().within(a.name);
  for (int i = 0; i < ctx.outputs(); ++i) {
    Tensor& t = outputs[static_cast<size_t>(i)];
    if (!t.defined()) return Internal(a.name, ": run() left output ", i, " undefined");
    if (!t.quant() && ctx.output_quant(i)) t.set_quant(ctx.output_quant(i));
    ctx.set_output(i, std::move(t));
  }
  return Ok();
}

}  // namespace smelt
