// Group normalization as exporters decompose it.
#include "passes/fuse/group_normalization.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/core/op.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// True if the value is absent, or a constant whose elements are all `wanted`.
bool is_uniform(const Pattern& in, const Node& n, size_t i, double wanted) {
  if (i >= n.inputs.size() || n.inputs[i] == kNoValue) return true;
  const Tensor* c = in.constant(n.inputs[i]);
  if (!c || c->dtype() != DType::kF32 || c->quant()) return false;
  const auto* v = c->data<float>();
  return std::ranges::all_of(v, v + c->elements(), [&](float e) { return static_cast<double>(e) == wanted; });
}

/// True if `n`, which reshapes what has as many elements and batches as x, gives the shape of x.
bool restores_shape(const Pattern& in, const Node& n, ValueId x) {
  if (const Node* shape = in.producer(n.inputs[1], Op::kShapeOf)) {
    const auto& a = static_cast<const ShapeOfAttrs&>(*shape->attrs);
    return shape->inputs[0] == x && a.start == 0 && a.end == INT64_MAX;
  }
  const Tensor* target = in.constant(n.inputs[1]);
  const Shape& shape = in.type(x).shape;
  if (!target || target->elements() != shape.rank()) return false;
  const bool zero_copies = !static_cast<const ReshapeAttrs&>(*n.attrs).allow_zero;
  int open = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t size = get_int(*target, i);
    if (size < 0)
      ++open;
    else if (size != shape[i] && !(i == 0 && size == 0 && zero_copies))
      return false;
  }
  return open < 2;
}

/// The group normalization that normalizes the rows of x [n, groups, rest] without scale and bias; nullopt if `n` is
/// none.
std::optional<GroupNormAttrs> normalized_rows(const Pattern& in, const Node& n) {
  const Shape& rows = in.type(n.inputs[0]).shape;
  GroupNormAttrs a;
  if (n.op == Op::kGroupNorm) {
    a = static_cast<const GroupNormAttrs&>(*n.attrs);
    const bool row_by_row = a.groups == 0 || a.groups == rows[1];
    if (!row_by_row || a.layout != Layout::kChannelsFirst || a.act.kind != ActKind::kNone) return std::nullopt;
  } else {
    const auto& l = static_cast<const LayerNormAttrs&>(*n.attrs);
    if (l.rms || (l.axis != -1 && l.axis != 2)) return std::nullopt;
    a.epsilon = l.epsilon;
  }
  if (!is_uniform(in, n, 1, 1) || !is_uniform(in, n, 2, 0)) return std::nullopt;
  a.groups = rows[1];
  a.per_group_affine = false;
  return a;
}

}  // namespace

std::optional<Node> group_normalization(const Pattern& in, const Node& n) {
  const int k = in.index_of_producer(n.inputs[0]);
  if (k < 0) return std::nullopt;
  const Node& norm = in.node(k);
  if ((norm.op != Op::kGroupNorm && norm.op != Op::kLayerNorm) || norm.outputs.size() != 1) return std::nullopt;
  const Node* split = in.producer(norm.inputs[0], Op::kReshape);
  if (!split || !in.has_one_use(n.inputs[0])) return std::nullopt;
  const ValueId x = split->inputs[0];
  if (!in.is_f32(x) || !in.is_f32(n.outputs[0]) || !in.type(x).ranked || !in.type(norm.inputs[0]).ranked)
    return std::nullopt;
  const Shape &from = in.type(x).shape, &rows = in.type(norm.inputs[0]).shape;
  if (from.rank() < 3 || rows.rank() != 3 || rows[1] < 1 || from[1] < 1 || from[1] % rows[1] != 0) return std::nullopt;
  const auto a = normalized_rows(in, norm);
  if (!a) return std::nullopt;
  const Tensor* shape = in.constant(split->inputs[1]);
  const bool copies_batch =
      shape && get_int(*shape, 0) == 0 && !static_cast<const ReshapeAttrs&>(*split->attrs).allow_zero;
  if (!copies_batch && (from[0] < 1 || from[0] != rows[0])) return std::nullopt;
  if (!restores_shape(in, n, x)) return std::nullopt;
  return remade(n, Op::kGroupNorm, make_attrs<GroupNormAttrs>(*a), {x}, "Reshape+InstanceNormalization");
}

std::optional<Node> scaled_group_norm(Pattern& in, const Node& n) {
  const bool scales = in.binary(n.outputs[0], Binary::kMul) != nullptr;
  if (!scales && !in.binary(n.outputs[0], Binary::kAdd)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* norm = in.producer(n.inputs[i], Op::kGroupNorm);
    const Tensor* c = in.constant(n.inputs[1 - i]);
    if (!norm || norm->outputs.size() != 1 || !in.has_one_use(n.inputs[i]) || !c || !in.type(norm->inputs[0]).ranked)
      continue;
    const auto& a = static_cast<const GroupNormAttrs&>(*norm->attrs);
    const Shape& x = in.type(norm->inputs[0]).shape;
    const size_t at = scales ? 1 : 2;
    if (norm->inputs.size() > at || a.per_group_affine || a.layout != Layout::kChannelsFirst ||
        a.act.kind != ActKind::kNone || c->dtype() != DType::kF32 || c->quant() || x[1] < 2)
      continue;
    const int channels = c->rank() - (x.rank() - 1);  // the dimension of c that is x's channels
    if (channels < 0 || channels > 1 || c->elements() != x[1] || c->dim(channels) != x[1]) continue;
    Node made = remade(n, Op::kGroupNorm, norm->attrs, norm->inputs, "GroupNormalization");
    auto vector = std::make_shared<const Tensor>(c->reshaped({x[1]}));
    made.inputs.resize(at, kNoValue);
    made.inputs.push_back(in.add_value(ValueType::tensor(DType::kF32, vector->shape())));
    in.graph().value(made.inputs.back()).constant = std::move(vector);
    return made;
  }
  return std::nullopt;
}

}  // namespace smelt
