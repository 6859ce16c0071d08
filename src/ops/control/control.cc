#include "ops/control/control.h"

#include "base/error.h"
#include "ops/control/bodies.h"
#include "ops/core/op.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Inputs from `first` on, as arguments.
std::vector<Datum> arguments_from(const KernelContext& ctx, int first) {
  std::vector<Datum> out;
  for (int i = first; i < ctx.inputs(); ++i) out.push_back(ctx.datum(i));
  return out;
}

void hand_over(KernelContext& ctx, std::vector<Datum>& results) {
  for (int i = 0; i < ctx.outputs(); ++i) ctx.set_output(i, std::move(results[static_cast<size_t>(i)]));
}

Status check_outputs(const InferContext& ctx, int graph) {
  const auto n = body_outputs(ctx.module(), graph);
  // A graph under construction has no outputs yet.
  if (n && *n > 0 && *n < ctx.outputs())
    return InvalidModel("graph ", graph, " gives ", *n, " results for ", ctx.outputs(), " outputs");
  return Ok();
}

}  // namespace

Status infer_If(InferContext& ctx) {
  const auto& a = ctx.attrs<IfAttrs>();
  if (!ctx.has(0)) return InvalidModel("the condition is missing");
  const ValueType& c = ctx.input(0);
  if (c.kind != ValueType::Kind::kTensor || (c.dtype != DType::kBool && c.dtype != DType::kInvalid))
    return InvalidModel("the condition is ", to_string(c.dtype), ", one bool expected");
  if (c.is_static() && c.shape.elements() != 1)
    return InvalidModel("the condition is ", to_string(c.dtype), c.shape.str(), ", one bool expected");
  SMELT_TRY(check_outputs(ctx, a.then_graph));
  SMELT_TRY(check_outputs(ctx, a.else_graph));
  for (int i = 0; i < ctx.outputs(); ++i)
    ctx.set(i, common_type(body_output(ctx.module(), a.then_graph, i), body_output(ctx.module(), a.else_graph, i)));
  return Ok();
}

Status reference_If(KernelContext& ctx) {
  const auto& a = ctx.attrs<IfAttrs>();
  SMELT_ASSIGN(const bool condition, condition_of(ctx.datum(0)));
  const auto arguments = arguments_from(ctx, 1);
  SMELT_ASSIGN(auto results,
               run_body(ctx, condition ? a.then_graph : a.else_graph, arguments, static_cast<size_t>(ctx.outputs())));
  hand_over(ctx, results);
  return Ok();
}

Status infer_While(InferContext& ctx) {
  const auto& a = ctx.attrs<WhileAttrs>();
  if (ctx.outputs() > ctx.inputs()) return InvalidModel(ctx.outputs(), " outputs for ", ctx.inputs(), " arguments");
  for (int i = 0; i < ctx.outputs(); ++i)
    ctx.set(i, ctx.has(i) ? common_type(ctx.input(i), body_output(ctx.module(), a.body_graph, i)) : ValueType{});
  return Ok();
}

Status reference_While(KernelContext& ctx) {
  const auto& a = ctx.attrs<WhileAttrs>();
  auto carried = arguments_from(ctx, 0);
  while (true) {
    SMELT_TRY(ctx.tick());
    SMELT_ASSIGN(const auto condition, run_body(ctx, a.cond_graph, carried, 1));
    SMELT_ASSIGN(const bool go_on, condition_of(condition[0]));
    if (!go_on) break;
    SMELT_ASSIGN(auto results, run_body(ctx, a.body_graph, carried, carried.size()));
    results.resize(carried.size());
    carried = std::move(results);
  }
  hand_over(ctx, carried);
  return Ok();
}

Status infer_Call(InferContext& ctx) {
  const int graph = ctx.attrs<CallAttrs>().graph;
  SMELT_TRY(check_outputs(ctx, graph));
  for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, body_output(ctx.module(), graph, i));
  return Ok();
}

Status reference_Call(KernelContext& ctx) {
  const auto arguments = arguments_from(ctx, 0);
  SMELT_ASSIGN(auto results,
               run_body(ctx, ctx.attrs<CallAttrs>().graph, arguments, static_cast<size_t>(ctx.outputs())));
  hand_over(ctx, results);
  return Ok();
}

Status infer_StateRead(InferContext& ctx) {
  const int state = ctx.attrs<StateAttrs>().state;
  if (state < 0 || static_cast<size_t>(state) >= ctx.module().states.size())
    return InvalidModel("variable ", state, " does not exist");
  ValueType type = ctx.module().states[static_cast<size_t>(state)].type;
  // A variable that is unset at first has no shape. A read may declare that of all its assignments.
  const ValueType& declared = ctx.declared(0);
  if (!type.ranked && declared.is_static()) {
    type.ranked = true;
    type.shape = declared.shape;
  }
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_StateRead(KernelContext& ctx) {
  const Datum& value = ctx.state(ctx.attrs<StateAttrs>().state);
  if (value.none()) return InvalidInput("the variable is read before it was assigned");
  ctx.set_output(0, value);
  return Ok();
}

Status infer_StateWrite(InferContext& ctx) {
  const int state = ctx.attrs<StateAttrs>().state;
  if (state < 0 || static_cast<size_t>(state) >= ctx.module().states.size())
    return InvalidModel("variable ", state, " does not exist");
  if (!ctx.has(0)) return InvalidModel("the value is missing");
  const ValueType &var = ctx.module().states[static_cast<size_t>(state)].type, &value = ctx.input(0);
  if (var.kind == ValueType::Kind::kTensor && var.dtype != DType::kInvalid && value.dtype != DType::kInvalid &&
      var.dtype != value.dtype)
    return InvalidModel("a variable of ", to_string(var.dtype), " is assigned ", to_string(value.dtype));
  return Ok();
}

Status reference_StateWrite(KernelContext& ctx) {
  // A copy: the value may lie in memory that the run takes back.
  const Datum& value = ctx.datum(0);
  ctx.state(ctx.attrs<StateAttrs>().state) = value.is_tensor() ? Datum(value.tensor.clone()) : value;
  return Ok();
}

Status infer_Assert(InferContext& ctx) {
  if (!ctx.has(0)) return InvalidModel("the condition is missing");
  return Ok();
}

Status reference_Assert(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  for (int64_t i = 0; i < x.elements(); ++i)
    if (is_float(x.dtype()) ? get_double(x, i) == 0 : get_int(x, i) == 0)
      return InvalidInput("the model's assertion failed: ", ctx.attrs<CustomAttrs>().name);
  return Ok();
}

}  // namespace smelt
