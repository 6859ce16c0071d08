// Shape inference with the contents of small tensors, and constant folding of what shapes determine.
#include "runtime/constant_propagation.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/node_infer.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Larger ones (weights that a model makes of its constants) are computed for a plan that will run, up to this sum.
constexpr size_t kFoldBytes = size_t{1} << 30;

class PlanInfer final : public NodeInfer {
 public:
  PlanInfer(const Module& module, const Graph& graph, const Node& node, const std::vector<ValueType>& types,
            const std::vector<ContentFacts>& facts, std::vector<ValueType>& out)
      : NodeInfer(module, graph, node, out), types_(types), facts_(facts) {}
  const ValueType& input(int i) const override { return types_[value_of(i)]; }
  const Tensor* constant(int i) const override { return has(i) ? facts_[value_of(i)].content : nullptr; }

 private:
  const std::vector<ValueType>& types_;
  const std::vector<ContentFacts>& facts_;
};

/// Types of computed values start without their dimensions: those follow from the inputs at hand.
ValueType dynamic_type(const ValueType& declared) {
  ValueType t = declared;
  if (t.kind == ValueType::Kind::kTensor) {
    t.ranked = false;
    t.shape = Shape{};
  }
  return t;
}

}  // namespace

bool follows_from_shape(Op op) {
  return op == Op::kShapeOf || op == Op::kSizeOf || op == Op::kRankOf || op == Op::kEye || op == Op::kGridPriors;
}

void complete_types(const Graph& graph, const Node& node, std::vector<ValueType>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const ValueType& declared = graph.value(node.outputs[i]).type;
    ValueType& t = outputs[i];
    if (t.dtype == DType::kInvalid && t.kind == ValueType::Kind::kTensor) t.dtype = declared.dtype;
    if (declared.quant) t.quant = declared.quant;
  }
}

bool same_value_type(const ValueType& a, const ValueType& b) {
  return a.kind == ValueType::Kind::kTensor && b.kind == a.kind && a.dtype == b.dtype && a.ranked == b.ranked &&
         a.shape == b.shape && a.quant == b.quant;
}

ConstantPropagation::ConstantPropagation(PlannedEnvironment& env, const Graph& graph, std::span<const ValueType> inputs,
                                         std::span<const Datum> given, std::vector<Datum>& values, const Plan* before)
    : env_(env),
      graph_(&graph),
      given_(given),
      values_(values),
      types_(graph.values.size()),
      facts_(graph.values.size()),
      users_(count_uses(graph)),
      before_(before) {
  values_.resize(facts_.size());
  for (size_t i = 0; i < facts_.size(); ++i) declare(i);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto id = static_cast<size_t>(graph.inputs[i]);
    types_[id] = inputs[i];
    facts_[id] = {};
    if (!graph.values[id].type.is_static()) kept_bytes_ = kKeptOpenBytes;
  }
  if (!before_) return;
  same_.assign(facts_.size(), false);
  for (size_t i = 0; i < facts_.size(); ++i)
    if (graph.values[i].constant) same_[i] = true;
  for (ValueId id : graph.inputs) compare(id);
}

void ConstantPropagation::set_content(ValueId id, Tensor content) {
  const auto i = static_cast<size_t>(id);
  ContentFacts& facts = facts_[i];
  if (types_[i].quant) content.set_quant(types_[i].quant);
  values_[i] = Datum(std::move(content));
  facts.content = &values_[i].tensor;
  facts.folded = true;
}

void ConstantPropagation::declare(size_t i) {
  const Value& v = graph_->values[i];
  types_[i] =
      v.constant ? ValueType::tensor(v.constant->dtype(), v.constant->shape(), v.type.quant) : dynamic_type(v.type);
  if (v.constant) set_content(static_cast<ValueId>(i), *v.constant);
}

void ConstantPropagation::extend(const Graph& graph, const Node& node, std::span<const Node* const> parts) {
  graph_ = &graph;
  before_ = nullptr;
  complete_ = false;
  const size_t had = facts_.size(), has = graph.values.size();
  values_.resize(has);
  types_.resize(has);
  facts_.resize(has);
  users_.resize(has, 0);
  for (size_t i = 0; i < had; ++i)
    if (facts_[i].content) facts_[i].content = &values_[i].tensor;
  for (size_t i = had; i < has; ++i) declare(i);
  const auto count = [&](const Node& n, int by) {
    for (ValueId id : n.inputs)
      if (id != kNoValue) users_[static_cast<size_t>(id)] += by;
  };
  count(node, -1);
  for (const Node* part : parts) count(*part, 1);
}

void ConstantPropagation::compare(ValueId id) {
  if (!before_ || id == kNoValue) return;
  const auto i = static_cast<size_t>(id);
  const ValueFacts facts = (*this)[i];
  same_[i] = facts.folded == before_->findings().folded[i] && same_value_type(facts.type, before_->findings().types[i]);
  if (!same_[i] || !facts.folded) return;
  same_[i] = same_contents(values_[i].tensor, before_->values()[i].tensor);
  // Kernels of the plan before may point into its contents.
  if (same_[i]) values_[i] = before_->values()[i];
}

bool ConstantPropagation::same_as_before(const Node& node) const {
  return before_ && !ShapeGuard::may_concern(node) &&
         std::ranges::all_of(node.inputs, [&](ValueId id) { return id == kNoValue || same_[static_cast<size_t>(id)]; });
}

Status ConstantPropagation::infer(const Node& node, std::vector<ValueType>& types) {
  const OpInfo& info = op_info(node.op);
  // Nobody kept the types of outputs that nobody wants.
  if (same_as_before(node) && std::ranges::find(node.outputs, kNoValue) == node.outputs.end()) {
    types.clear();
    for (ValueId id : node.outputs) {
      const auto i = static_cast<size_t>(id);
      types.push_back(before_->findings().types[i]);
      types_[i] = types.back();
      same_[i] = !before_->findings().folded[i] && types.back().kind == ValueType::Kind::kTensor;
    }
    return Ok();
  }
  if (!info.infer) return Unsupported("operator ", info.name, " has no shape rule");
  types.assign(node.outputs.size(), {});
  PlanInfer ctx(*env_.module, *graph_, node, types_, facts_, types);
  SMELT_TRY(info.infer(ctx));
  SMELT_TRY(infer_by_content(node, types));
  complete_types(*graph_, node, types);
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    types_[static_cast<size_t>(node.outputs[i])] = types[i];
    compare(node.outputs[i]);
  }
  return Ok();
}

Status ConstantPropagation::infer_by_content(const Node& node, std::vector<ValueType>& types) {
  if (std::ranges::all_of(types, [](const ValueType& t) { return t.is_static(); })) return Ok();
  std::vector<ValueType> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? ValueType{} : (*this)[id].type);
  auto guard = ShapeGuard::of(*env_.module, *graph_, node, inputs);
  if (!guard) return Ok();
  if (given_.empty() && env_.mode() == CompileMode::kDry) {
    // What would run: counts that change nothing.
    std::vector<Datum> zeros;
    for (ValueId id : graph_->inputs) {
      const ValueType& t = (*this)[id].type;
      const bool count = is_integer(t.dtype) && t.is_static() && t.shape.rank() <= 1 && t.shape.elements() <= 1;
      zeros.push_back(count ? Datum(Tensor(t.dtype, t.shape)) : Datum{});
    }
    return guard->infer(zeros, types);
  }
  SMELT_TRY(guard->infer(given_, types));
  guard->expect(types);
  guards_.push_back(std::move(*guard));
  return Ok();
}

bool ConstantPropagation::all_constant(const Node& node) const {
  return std::ranges::all_of(node.inputs, [&](ValueId id) { return id == kNoValue || (*this)[id].content; });
}

bool ConstantPropagation::fold_as_before(const Node& node) {
  const auto folded = [&](ValueId id) { return id == kNoValue || before_->findings().folded[static_cast<size_t>(id)]; };
  if (!std::ranges::all_of(node.outputs, folded)) return false;
  for (ValueId id : node.outputs) {
    if (id == kNoValue) continue;
    const auto i = static_cast<size_t>(id);
    types_[i] = before_->findings().types[i];
    set_content(id, before_->values()[i].tensor);
    same_[i] = true;
  }
  drop_inputs(node);
  return true;
}

Result<bool> ConstantPropagation::fold(const Node& node, const std::vector<ValueType>& types) {
  const OpInfo& info = op_info(node.op);
  if (info.flags & (kEffect | kControl | kContainer)) return false;
  if (same_as_before(node)) return fold_as_before(node);
  std::vector<Datum> in, out;
  if (follows_from_shape(node.op)) {
    const ValueType& t = (*this)[node.inputs[0]].type;
    if (!t.is_static()) return false;
    in.emplace_back(Tensor::view(t.dtype, t.shape, nullptr, nullptr));
  } else {
    if (!all_constant(node)) return false;
    int64_t elements = 0;
    for (const ValueType& t : types) {
      if (info.flags & kDynamic) break;
      if (!t.is_static()) return false;
      SMELT_ASSIGN(const int64_t n, t.shape.checked_elements());
      elements = std::max(elements, n);
    }
    for (ValueId id : node.inputs) {
      in.push_back(id == kNoValue ? Datum{} : values_[static_cast<size_t>(id)]);
      if (in.back().is_tensor()) elements = std::max(elements, in.back().tensor.elements());
    }
    if (elements > kFoldElements) {
      SMELT_ASSIGN(const bool fits, reserve(types));
      if (!fits) return false;
      if (env_.mode() == CompileMode::kDry) return fold_unread(node, types);
    }
  }
  SMELT_TRY(env_.fold_node(*graph_, node, std::move(in), types, out));
  for (size_t i = 0; i < out.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    types_[static_cast<size_t>(node.outputs[i])] = type_of(out[i]);
    set_content(node.outputs[i], out[i].tensor);
    compare(node.outputs[i]);
  }
  drop_inputs(node);
  return true;
}

Result<bool> ConstantPropagation::reserve(const std::vector<ValueType>& types) {
  size_t bytes = 0;
  for (const ValueType& t : types) {
    if (!t.is_static()) return false;
    SMELT_ASSIGN(const int64_t n, t.shape.checked_elements());
    if (n > (int64_t{1} << 32)) return false;
    bytes += Tensor::byte_size(t.dtype, n);
  }
  if (folded_bytes_ + bytes > kFoldBytes) return false;
  folded_bytes_ += bytes;
  return true;
}

Result<bool> ConstantPropagation::fold_unread(const Node& node, const std::vector<ValueType>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    SMELT_ASSIGN(Tensor t, Tensor::allocate(types[i].dtype, types[i].shape, false));
    set_content(node.outputs[i], std::move(t));
  }
  return true;
}

void ConstantPropagation::drop_inputs(const Node& node) {
  for (ValueId id : node.inputs) {
    if (id == kNoValue || --users_[static_cast<size_t>(id)] > 0 || graph_->value(id).constant) continue;
    ContentFacts& facts = facts_[static_cast<size_t>(id)];
    if (!facts.folded || (facts.content && facts.content->bytes() <= kept_bytes_)) continue;
    complete_ = false;
    values_[static_cast<size_t>(id)] = Datum{};
    facts.content = nullptr;
  }
}

}  // namespace smelt
