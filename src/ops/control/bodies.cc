#include "ops/control/bodies.h"

#include "base/error.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {

ValueType common_type(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind) return {};
  if (a.kind != ValueType::Kind::kTensor) return a;
  ValueType t;
  if (a.dtype == b.dtype) {
    t.dtype = a.dtype;
    t.quant = a.quant ? a.quant : b.quant;
  }
  if (a.ranked && b.ranked && a.shape.rank() == b.shape.rank()) {
    t.ranked = true;
    t.shape = a.shape;
    for (int i = 0; i < a.shape.rank(); ++i)
      if (a.shape[i] != b.shape[i]) t.shape[i] = -1;
  }
  return t;
}

ValueType body_output(const Module& module, int graph, int64_t i) {
  const auto n = body_outputs(module, graph);
  if (!n || i < 0 || i >= *n) return {};
  const Graph& g = module.graphs[static_cast<size_t>(graph)];
  const ValueId id = g.outputs[static_cast<size_t>(i)];
  if (id < 0 || static_cast<size_t>(id) >= g.values.size()) return {};
  return g.value(id).type;
}

std::optional<int64_t> body_outputs(const Module& module, int graph) {
  if (graph < 0 || static_cast<size_t>(graph) >= module.graphs.size()) return std::nullopt;
  return static_cast<int64_t>(module.graphs[static_cast<size_t>(graph)].outputs.size());
}

Result<bool> condition_of(const Datum& d) {
  if (!d.is_tensor() || d.tensor.dtype() != DType::kBool || d.tensor.elements() != 1)
    return InvalidInput("a condition has to be one bool",
                        d.is_tensor() ? Cat(", not ", to_string(d.tensor.dtype()), d.tensor.shape().str()) : "");
  return d.tensor.data<uint8_t>()[0] != 0;
}

Datum scalar_argument(const Module& module, int graph, int input, DType dtype, int64_t value) {
  const Graph& g = module.graphs[static_cast<size_t>(graph)];
  Shape shape;
  if (static_cast<size_t>(input) < g.inputs.size()) {
    const ValueType& t = g.value(g.inputs[static_cast<size_t>(input)]).type;
    if (t.ranked && t.shape.rank() == 1) shape = Shape{1};
  }
  Tensor t(dtype, shape);
  set_int(t, 0, value);
  return t;
}

std::vector<int> count_callers(const Module& module) {
  std::vector<int> callers(module.graphs.size(), 0);
  for (const Graph& graph : module.graphs)
    for (const Node& n : graph.nodes) {
      const OpInfo& info = op_info(n.op);
      if (!n.attrs || !(info.flags & kControl)) continue;
      for (const int called : info.graphs(*n.attrs))
        if (called >= 0 && static_cast<size_t>(called) < callers.size()) ++callers[static_cast<size_t>(called)];
    }
  return callers;
}

Status check_results(const Module& module, int graph, size_t given, size_t expected) {
  if (given >= expected) return Ok();
  return InvalidModel("graph '", module.graphs[static_cast<size_t>(graph)].name, "' gives ", given, " results, ",
                      expected, " expected");
}

Result<std::vector<Datum>> run_body(KernelContext& ctx, int graph, std::span<const Datum> arguments, size_t outputs) {
  SMELT_ASSIGN(auto results, ctx.call(graph, arguments));
  SMELT_TRY(check_results(ctx.module(), graph, results.size(), outputs));
  return results;
}

Status Stacked::add(KernelContext& ctx, Datum slice) {
  if (!slice.is_tensor()) return InvalidInput("a stacked output has to be a tensor");
  Tensor& t = slice.tensor;
  if (!slices_.empty() && (t.dtype() != slices_[0].dtype() || !(t.shape() == slices_[0].shape())))
    return InvalidInput("a stacked output changes from ", slices_[0].shape().str(), " to ", t.shape().str());
  // What a loop gathers counts as steps too: one without end is stopped.
  for (size_t n = 0; n < t.bytes() / 128; ++n) SMELT_TRY(ctx.tick());
  kept_ += t.bytes() + sizeof(Tensor);
  slices_.push_back(std::move(t));
  if (kept_ > checked_) {
    // Asking for as much again tells whether the stacked result will fit.
    if (!ctx.scratch(kept_)) return LimitReached("the stacked outputs of a loop need more memory than the limit");
    checked_ = 2 * kept_;
  }
  return Ok();
}

Result<Datum> Stacked::join(int64_t given_axis, bool reversed, const ValueType& declared) const {
  const bool any = !slices_.empty();
  const Shape& one = any ? slices_[0].shape() : declared.shape;
  if (one.rank() == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  SMELT_ASSIGN(const int axis, axis_of(given_axis, one.rank() + 1));
  Shape shape = one;
  for (int i = 0; i < shape.rank(); ++i) shape[i] = std::max<int64_t>(shape[i], 0);
  shape.insert(axis, static_cast<int64_t>(slices_.size()));
  const DType dtype = any ? slices_[0].dtype() : declared.dtype;
  if (dtype == DType::kInvalid) return InvalidModel("the element type of a stacked output is not known");
  SMELT_ASSIGN(Tensor y, Tensor::allocate(dtype, shape));
  y.set_quant(any ? slices_[0].quant() : declared.quant);
  if (y.elements() == 0) return Datum(std::move(y));
  const Around around(shape, axis);
  const auto n = static_cast<int64_t>(slices_.size());
  {
    CopyTarget target(y);
    for (int64_t i = 0; i < n; ++i) {
      const CopySource source(slices_[static_cast<size_t>(reversed ? n - 1 - i : i)]);
      for (int64_t o = 0; o < around.outer; ++o)
        copy_run(source, o * around.inner, target, (o * n + i) * around.inner, around.inner);
    }
  }
  return Datum(std::move(y));
}

Result<Tensor> select_slice(const Tensor& x, int axis, int64_t index) {
  const Around around(x.shape(), axis);
  Shape shape = x.shape();
  shape.erase(axis);
  SMELT_ASSIGN(Tensor y, Tensor::allocate(x.dtype(), shape));
  y.set_quant(x.quant());
  if (y.elements() == 0) return y;
  const CopySource source(x);
  CopyTarget target(y);
  for (int64_t o = 0; o < around.outer; ++o)
    copy_run(source, (o * x.dim(axis) + index) * around.inner, target, o * around.inner, around.inner);
  return y;
}

}  // namespace smelt
