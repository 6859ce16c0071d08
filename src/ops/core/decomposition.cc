#include "ops/core/decomposition.h"

#include <algorithm>

#include "base/cat.h"
#include "ops/shape/shape.h"

namespace smelt {

Decomposition::Decomposition(const NodeSpec& spec)
    : spec_(spec), module_(std::make_shared<Module>()), builder_(*module_, 0) {
  module_->graphs.resize(1);
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.has(i))
      inputs_.push_back(kNoValue);
    else
      inputs_.push_back(spec.constant(i) ? builder_.constant("", *spec.constant(i))
                                         : builder_.input("", spec.inputs[i]));
  }
}

ValueId Decomposition::add(Op op, AttrsPtr attrs, IntList inputs, bool absent) {
  if (!absent && std::ranges::find(inputs, kNoValue) != inputs.end()) return kNoValue;
  auto made = builder_.op(op, std::move(attrs), inputs);
  return made.ok() && builder_.type(*made).is_static() ? *made : kNoValue;
}

ValueId Decomposition::add_as(Op op, AttrsPtr attrs, IntList inputs, const ValueType& type) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == kNoValue && (i >= spec_.inputs.size() || spec_.has(i))) return kNoValue;
  auto made = builder_.op_as(op, std::move(attrs), inputs, type);
  return made.ok() && builder_.type(*made).is_static() ? *made : kNoValue;
}

ValueId Decomposition::derived(size_t i, const Tensor& content, std::string name) {
  const ValueId id = builder_.constant("", content);
  derived_[id] = {i, std::move(name)};
  return id;
}

ValueId Decomposition::unary(Unary fn, ValueId x) { return add(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}); }

ValueId Decomposition::binary(Binary fn, ValueId x, ValueId y) {
  return add(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y});
}

ValueId Decomposition::where(ValueId condition, ValueId x, ValueId y) {
  return add(Op::kWhere, make_attrs<NoAttrs>(), {condition, x, y});
}

ValueId Decomposition::cast(ValueId x, DType to) {
  return x == kNoValue || dtype(x) == to ? x : add(Op::kCast, make_attrs<CastAttrs>(to), {x});
}

ValueId Decomposition::expand(ValueId x, const Shape& to) {
  if (x == kNoValue || shape(x) == to) return x;
  return add(Op::kExpand, make_attrs<NoAttrs>(), {x, i64(std::vector<int64_t>(to.begin(), to.end()))});
}

ValueId Decomposition::reshape(ValueId x, Int64List dims) {
  if (x == kNoValue || shape(x) == Shape(dims)) return x;
  if (const Tensor* t = builder_.constant_of(x); t && Shape(dims).checked_elements().ok()) {
    if (Shape(dims).elements() != t->elements()) return kNoValue;
    const auto operand = std::ranges::find(inputs_, x);
    if (operand == inputs_.end()) return constant(t->reshaped(Shape(dims)));
    return derived(static_cast<size_t>(operand - inputs_.begin()), t->reshaped(Shape(dims)),
                   Cat("reshaped to ", Shape(dims).str(), ", "));
  }
  return add(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, i64(dims)});
}

ValueId Decomposition::transpose(ValueId x, Int64List perm) {
  TransposeAttrs a;
  a.perm = perm.copy();
  return add(Op::kTranspose, make_attrs<TransposeAttrs>(a), {x});
}

bool Decomposition::gives(const std::vector<ValueId>& results) const {
  for (size_t i = 0; i < spec_.node.outputs.size(); ++i) {
    if (spec_.node.outputs[i] == kNoValue) continue;
    const ValueId id = i < results.size() ? results[i] : kNoValue;
    if (id == kNoValue || std::count(results.begin(), results.end(), id) > 1) return false;
    const ValueType &made = builder_.type(id), &want = spec_.outputs[i];
    if (made.dtype != want.dtype || made.shape != want.shape || made.quant != want.quant) return false;
    if (std::ranges::none_of(graph().nodes, [&](const Node& n) { return n.outputs[0] == id; })) return false;
  }
  return true;
}

std::optional<DecomposedNode> Decomposition::finish(std::vector<ValueId> results) {
  if (!gives(results)) return std::nullopt;
  results.resize(spec_.node.outputs.size(), kNoValue);
  for (size_t i = 0; i < results.size(); ++i)
    if (spec_.node.outputs[i] == kNoValue) results[i] = kNoValue;
  return DecomposedNode{{module_, &module_->graphs[0]}, inputs_, std::move(results)};
}

}  // namespace smelt
