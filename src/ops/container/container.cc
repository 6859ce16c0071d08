#include "ops/container/container.h"

#include <algorithm>

#include "base/error.h"
#include "ops/control/bodies.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

ValueType element_type(const ValueType& t) { return t.element ? *t.element : ValueType{}; }

Status need_sequence(const InferContext& ctx, int i) {
  if (!ctx.has(i)) return InvalidModel("input ", i, " is missing");
  const ValueType& t = ctx.input(i);
  if (t.kind != ValueType::Kind::kSequence && t.dtype != DType::kInvalid)
    return InvalidModel("input ", i, " is not a sequence");
  return Ok();
}

Result<const std::vector<Datum>*> items_of(const KernelContext& ctx, int i) {
  const Datum& d = ctx.datum(i);
  if (d.kind != Datum::Kind::kSequence || !d.items) return InvalidInput("input ", i, " is not a sequence");
  return static_cast<const std::vector<Datum>*>(d.items.get());
}

/// The position in [0, n) that an optional scalar input gives; `fallback` if it is absent.
Result<int64_t> position_of(const KernelContext& ctx, int i, int64_t n, int64_t fallback) {
  if (!ctx.has(i)) return fallback;
  if (!ctx.datum(i).is_tensor() || ctx.input(i).elements() != 1) return InvalidInput("a position has to be one number");
  return index_of(get_int(ctx.input(i), 0), n);
}

}  // namespace

Status infer_SequenceConstruct(InferContext& ctx) {
  const auto& a = ctx.attrs<SequenceAttrs>();
  if (ctx.inputs() == 0) {
    ctx.set(0, ValueType::sequence(ValueType::tensor(a.to)));
    return Ok();
  }
  for (int i = 0; i < ctx.inputs(); ++i)
    if (!ctx.has(i)) return InvalidModel("input ", i, " is missing");
  ValueType element = ctx.input(0);
  for (int i = 1; i < ctx.inputs(); ++i) element = common_type(element, ctx.input(i));
  ctx.set(0, ValueType::sequence(element));
  return Ok();
}

Status reference_SequenceConstruct(KernelContext& ctx) {
  std::vector<Datum> items;
  for (int i = 0; i < ctx.inputs(); ++i) items.push_back(ctx.datum(i));
  ctx.set_output(0, Datum::sequence(std::move(items)));
  return Ok();
}

Status infer_SequenceAt(InferContext& ctx) {
  SMELT_TRY(need_sequence(ctx, 0));
  ValueType t = element_type(ctx.input(0));
  // The elements of a sequence may differ in shape.
  t.ranked = false;
  ctx.set(0, t);
  return Ok();
}

Status reference_SequenceAt(KernelContext& ctx) {
  SMELT_ASSIGN(const auto* items, items_of(ctx, 0));
  SMELT_ASSIGN(const int64_t at, position_of(ctx, 1, static_cast<int64_t>(items->size()), -1));
  if (at < 0) return InvalidInput("the position is missing");
  ctx.set_output(0, (*items)[static_cast<size_t>(at)]);
  return Ok();
}

Status infer_SequenceInsert(InferContext& ctx) {
  SMELT_TRY(need_sequence(ctx, 0));
  if (!ctx.has(1)) return InvalidModel("the value is missing");
  const ValueType& t = ctx.input(0);
  ctx.set(0, t.element && t.element->dtype == DType::kInvalid ? ValueType::sequence(ctx.input(1)) : t);
  return Ok();
}

Status reference_SequenceInsert(KernelContext& ctx) {
  SMELT_ASSIGN(const auto* items, items_of(ctx, 0));
  if (ctx.datum(1).none()) return InvalidInput("the value is absent");
  const auto n = static_cast<int64_t>(items->size());
  int64_t at = n;
  if (ctx.has(2)) {
    if (!ctx.datum(2).is_tensor() || ctx.input(2).elements() != 1)
      return InvalidInput("a position has to be one number");
    const int64_t p = get_int(ctx.input(2), 0);
    if (p < -n || p > n) return InvalidInput("position ", p, " is out of range for a sequence of ", n);
    at = p < 0 ? p + n : p;
  }
  std::vector<Datum> out = *items;
  out.insert(out.begin() + at, ctx.datum(1));
  ctx.set_output(0, Datum::sequence(std::move(out)));
  return Ok();
}

Status infer_SequenceErase(InferContext& ctx) {
  SMELT_TRY(need_sequence(ctx, 0));
  ctx.set(0, ctx.input(0));
  return Ok();
}

Status reference_SequenceErase(KernelContext& ctx) {
  SMELT_ASSIGN(const auto* items, items_of(ctx, 0));
  const auto n = static_cast<int64_t>(items->size());
  if (n == 0) return InvalidInput("the sequence is empty");
  SMELT_ASSIGN(const int64_t at, position_of(ctx, 1, n, n - 1));
  std::vector<Datum> out = *items;
  out.erase(out.begin() + at);
  ctx.set_output(0, Datum::sequence(std::move(out)));
  return Ok();
}

Status infer_SequenceLength(InferContext& ctx) {
  SMELT_TRY(need_sequence(ctx, 0));
  ctx.set(0, ValueType::tensor(DType::kI64, Shape{}));
  return Ok();
}

Status reference_SequenceLength(KernelContext& ctx) {
  SMELT_ASSIGN(const auto* items, items_of(ctx, 0));
  Tensor t(DType::kI64, Shape{});
  t.data<int64_t>()[0] = static_cast<int64_t>(items->size());
  ctx.set_output(0, std::move(t));
  return Ok();
}

Status infer_SequenceMap(InferContext& ctx) {
  SMELT_TRY(need_sequence(ctx, 0));
  const int graph = ctx.attrs<SequenceAttrs>().graph;
  for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, ValueType::sequence(body_output(ctx.module(), graph, i)));
  return Ok();
}

Status reference_SequenceMap(KernelContext& ctx) {
  const int graph = ctx.attrs<SequenceAttrs>().graph;
  SMELT_ASSIGN(const auto* first, items_of(ctx, 0));
  const size_t n = first->size();
  for (int i = 1; i < ctx.inputs(); ++i)
    if (ctx.datum(i).kind == Datum::Kind::kSequence && ctx.datum(i).items && ctx.datum(i).items->size() != n)
      return InvalidInput("sequences of ", n, " and ", ctx.datum(i).items->size(), " elements");
  std::vector<std::vector<Datum>> results(static_cast<size_t>(ctx.outputs()));
  for (size_t k = 0; k < n; ++k) {
    SMELT_TRY(ctx.tick());
    std::vector<Datum> arguments;
    for (int i = 0; i < ctx.inputs(); ++i) {
      const Datum& d = ctx.datum(i);
      arguments.push_back(d.kind == Datum::Kind::kSequence && d.items ? (*d.items)[k] : d);
    }
    SMELT_ASSIGN(auto out, run_body(ctx, graph, arguments, results.size()));
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(std::move(out[i]));
  }
  for (int i = 0; i < ctx.outputs(); ++i)
    ctx.set_output(i, Datum::sequence(std::move(results[static_cast<size_t>(i)])));
  return Ok();
}

Status infer_OptionalMake(InferContext& ctx) {
  ctx.set(0, ValueType::optional(ctx.has(0) ? ctx.input(0) : ValueType::tensor(ctx.attrs<SequenceAttrs>().to)));
  return Ok();
}

Status reference_OptionalMake(KernelContext& ctx) {
  ctx.set_output(0, ctx.has(0) ? ctx.datum(0) : Datum{});
  return Ok();
}

Status infer_OptionalGet(InferContext& ctx) {
  if (!ctx.has(0)) return InvalidModel("the optional is missing");
  const ValueType& t = ctx.input(0);
  ctx.set(0, t.kind == ValueType::Kind::kOptional ? element_type(t) : t);
  return Ok();
}

Status reference_OptionalGet(KernelContext& ctx) {
  if (!ctx.has(0)) return InvalidInput("the optional is empty");
  ctx.set_output(0, ctx.datum(0));
  return Ok();
}

Status infer_OptionalHas(InferContext& ctx) {
  ctx.set(0, ValueType::tensor(DType::kBool, Shape{}));
  return Ok();
}

Status reference_OptionalHas(KernelContext& ctx) {
  Tensor t(DType::kBool, Shape{});
  t.data<uint8_t>()[0] = ctx.has(0);
  ctx.set_output(0, std::move(t));
  return Ok();
}

}  // namespace smelt
