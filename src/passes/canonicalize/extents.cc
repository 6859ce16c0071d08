#include "passes/canonicalize/extents.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr Extent kOne{kNoValue, 1};

bool is_list_type(DType t) { return t == DType::kI64 || t == DType::kI32 || t == DType::kBool; }

/// One dimension of a broadcast; `own` where it is not told which of the two it is.
Extent broadcast(const Extent& a, const Extent& b, const Extent& own) {
  if (a == b || b == kOne) return a;
  return a == kOne ? b : own;
}

/// Sets dimensions of a broadcast of two operands, all but the last `skip`.
void broadcast_into(Extents& made, const Extents& a, const Extents& b, size_t skip) {
  for (size_t i = skip + 1; i <= made.size(); ++i) {
    Extent& own = made[made.size() - i];
    own = broadcast(i <= a.size() ? a[a.size() - i] : kOne, i <= b.size() ? b[b.size() - i] : kOne, own);
  }
}

/// Entries [begin, end) by the rule of ONNX: negative positions count from the end, all are clamped.
Extents part(const Extents& x, int64_t begin, int64_t end) {
  const auto n = static_cast<int64_t>(x.size());
  begin = std::clamp<int64_t>(begin < 0 ? begin + n : begin, 0, n);
  end = std::clamp<int64_t>(end < 0 ? end + n : end, begin, n);
  return {x.begin() + begin, x.begin() + end};
}

/// The entry at a position, of which negative ones count from the end; nullopt where there is none.
std::optional<Extents> element(const Extents& x, int64_t at) {
  const auto n = static_cast<int64_t>(x.size());
  if (at < 0) at += n;
  if (at < 0 || at >= n) return std::nullopt;
  return Extents{x[static_cast<size_t>(at)]};
}

/// The only number of a list; nullopt for another list.
std::optional<int64_t> number(const std::optional<Extents>& list) {
  return list && list->size() == 1 && (*list)[0].is_literal() ? std::optional((*list)[0].number) : std::nullopt;
}

/// A product with a number; 0 where there is none, or it is large.
int64_t factor(int64_t product, const Extent& e) {
  constexpr int64_t kMost = INT32_MAX;
  return e.is_literal() && e.number > 0 && e.number < kMost && product < kMost ? product * e.number : 0;
}

/// Copies dimensions but for those along an axis, which may be negative.
void copy_but(Extents& made, const Extents& x, int64_t axis) {
  const auto rank = static_cast<int64_t>(made.size());
  for (int64_t d = 0; d < rank && d < static_cast<int64_t>(x.size()); ++d)
    if (d != axis && d != axis + rank) made[static_cast<size_t>(d)] = x[static_cast<size_t>(d)];
}

}  // namespace

std::optional<Extents> literals(const Tensor* t) {
  if (!t || t->rank() > 1 || t->quant() || !is_list_type(t->dtype()) || t->elements() > Shape::kMaxRank)
    return std::nullopt;
  Extents list;
  for (int64_t i = 0; i < t->elements(); ++i) list.push_back({kNoValue, get_int(*t, i)});
  return list;
}

ExtentFlow::ExtentFlow(const Graph& graph, bool exact_inputs)
    : graph_(graph), exact_inputs_(exact_inputs), dims_(graph.values.size()), lists_(graph.values.size()) {}

void ExtentFlow::trust_names() {
  std::unordered_map<std::string_view, Extent> first;
  for (const ValueId id : graph_.inputs) {
    if (id == kNoValue) continue;
    const Value& v = graph_.value(id);
    Extents own = dims(id);
    for (size_t d = 0; d < own.size() && d < v.dim_names.size(); ++d)
      if (!v.dim_names[d].empty() && !own[d].is_literal())
        own[d] = first.try_emplace(v.dim_names[d], own[d]).first->second;
    dims_[static_cast<size_t>(id)] = std::move(own);
  }
}

Extent ExtentFlow::dimension(ValueId id, int d) const {
  const int64_t extent = graph_.value(id).type.shape[d];
  return extent >= 0 && (exact_inputs_ || constant(id)) ? Extent{kNoValue, extent} : Extent{id, d};
}

Extents ExtentFlow::dims(ValueId id) const {
  if (const auto i = static_cast<size_t>(id); i < dims_.size() && !dims_[i].empty()) return dims_[i];
  Extents own;
  for (int d = 0; d < graph_.value(id).type.shape.rank(); ++d) own.push_back(dimension(id, d));
  return own;
}

std::optional<Extents> ExtentFlow::list(ValueId id) const {
  if (id == kNoValue) return std::nullopt;
  if (const Tensor* t = constant(id)) return literals(t);
  const auto i = static_cast<size_t>(id);
  return i < lists_.size() ? lists_[i] : std::nullopt;
}

bool ExtentFlow::equal_lists(ValueId a, ValueId b) const {
  const auto &x = lists_[static_cast<size_t>(a)], &y = lists_[static_cast<size_t>(b)];
  const ValueType &t = graph_.value(a).type, &u = graph_.value(b).type;
  return x && x == y && t.dtype == u.dtype && t.shape.rank() == u.shape.rank();
}

bool ExtentFlow::ranked(const Node& n, size_t input) const {
  return input < n.inputs.size() && n.inputs[input] != kNoValue && graph_.value(n.inputs[input]).type.ranked;
}

void ExtentFlow::add(const Node& n) {
  if (n.outputs.empty() || n.inputs.empty() || n.inputs[0] == kNoValue) return;
  if (n.outputs[0] != kNoValue) lists_[static_cast<size_t>(n.outputs[0])] = list_of(n);
  if (!ranked(n, 0)) return;
  // The parts of a Split are alike but along its axis, where each has its own extent.
  const size_t count = n.op == Op::kSplit ? n.outputs.size() : 1;
  for (size_t k = 0; k < count; ++k) {
    if (n.outputs[k] == kNoValue) continue;
    const ValueType& y = graph_.value(n.outputs[k]).type;
    if (!y.ranked || (exact_inputs_ && y.is_static())) continue;
    Extents made = dims_of(n, n.outputs[k]);
    if (static_cast<int>(made.size()) != y.shape.rank()) continue;
    for (int d = 0; exact_inputs_ && d < y.shape.rank(); ++d)
      if (y.shape[d] >= 0) made[static_cast<size_t>(d)] = {kNoValue, y.shape[d]};
    dims_[static_cast<size_t>(n.outputs[k])] = std::move(made);
  }
}

/// Dimensions of an output; empty: nothing is known.
Extents ExtentFlow::dims_of(const Node& n, ValueId out) const {
  const Extents x = dims(n.inputs[0]);
  Extents made;
  for (int d = 0; d < graph_.value(out).type.shape.rank(); ++d) made.push_back(dimension(out, d));
  switch (n.op) {
    case Op::kUnary:
    case Op::kCast:
    case Op::kSoftmax:
    case Op::kLayerNorm:
    case Op::kGroupNorm:
    case Op::kBatchNorm:
    case Op::kQuantize:
    case Op::kDequantize:
    case Op::kQuantizeLinear:
    case Op::kDequantizeLinear:
    case Op::kDynamicQuantize:
    case Op::kRotary:
      return x;
    case Op::kBinary:
    case Op::kClamp:
    case Op::kWhere: {
      Extents all = x;
      for (size_t i = 1; i < n.inputs.size(); ++i) {
        if (n.inputs[i] == kNoValue) continue;
        if (!ranked(n, i)) return {};
        Extents next = made;
        broadcast_into(next, all, dims(n.inputs[i]), 0);
        all = std::move(next);
      }
      return all;
    }
    case Op::kMatMul:
    case Op::kMatMulInteger:
      return of_product(n, x, std::move(made));
    case Op::kConv:
    case Op::kPool:
      if (!x.empty() && !made.empty()) made[0] = x[0];
      return made;
    case Op::kTranspose:
      return of_transpose(n, x);
    case Op::kReshape:
      return of_reshape(n, x, std::move(made));
    case Op::kGather:
      return of_gather(n, x);
    case Op::kExpand:
      return of_expand(n, x, std::move(made));
    case Op::kUnsqueeze:
      return of_unsqueeze(n, x, made.size());
    case Op::kConcat: {
      // All operands have these extents. Caches come first, what is computed from the inputs last.
      const ValueId last = n.inputs.back();
      if (last == kNoValue || !graph_.value(last).type.ranked) return made;
      copy_but(made, dims(last), static_cast<const AxisAttrs&>(*n.attrs).axis);
      return made;
    }
    case Op::kSplit:
      if (n.inputs.size() < 3) copy_but(made, x, static_cast<const SplitAttrs&>(*n.attrs).axis);
      return made;
    case Op::kReduce:
      return of_reduce(n, x);
    case Op::kSlice:
      if (const auto axis = n.inputs.size() > 3 ? number(list(n.inputs[3])) : std::nullopt) copy_but(made, x, *axis);
      return made;
    default:
      return {};
  }
}

Extents ExtentFlow::of_product(const Node& n, const Extents& a, Extents made) const {
  const auto& attrs = static_cast<const MatMulAttrs&>(*n.attrs);
  if (!ranked(n, 1) || attrs.flatten_a || attrs.trans_batch_a || attrs.trans_batch_b) return {};
  const Extents b = dims(n.inputs[1]);
  if (a.size() < 2 || b.size() < 2 || made.size() < 2) return {};
  broadcast_into(made, a, b, 2);
  made[made.size() - 2] = a[a.size() - (attrs.transpose_a ? 1 : 2)];
  made[made.size() - 1] = b[b.size() - (attrs.transpose_b ? 2 : 1)];
  return made;
}

Extents ExtentFlow::of_transpose(const Node& n, const Extents& x) const {
  std::vector<int64_t> perm = static_cast<const TransposeAttrs&>(*n.attrs).perm;
  if (n.inputs.size() > 1) {
    const auto given = literals(constant(n.inputs[1]));
    if (!given) return {};
    perm.clear();
    for (const Extent& e : *given) perm.push_back(e.number);
  }
  Extents made;
  for (const int64_t d : perm) {
    if (d < 0 || d >= static_cast<int64_t>(x.size())) return {};
    made.push_back(x[static_cast<size_t>(d)]);
  }
  return made;
}

Extents ExtentFlow::of_reshape(const Node& n, const Extents& x, Extents made) const {
  const auto target = n.inputs.size() > 1 ? list(n.inputs[1]) : std::nullopt;
  if (!target || target->size() != made.size()) return {};
  const bool copies = !static_cast<const ReshapeAttrs&>(*n.attrs).allow_zero;
  Extents left = x;   // that no other dimension is
  int64_t times = 1;  // product of the numbers among the other dimensions; 0: there are more than numbers
  std::optional<size_t> rest;
  for (size_t d = 0; d < made.size(); ++d) {
    const Extent& e = (*target)[d];
    if (e == Extent{kNoValue, -1}) {
      rest = d;
      continue;
    }
    const bool copied = e.is_literal() && e.number == 0 && copies;
    if (!copied || d < x.size()) made[d] = copied ? x[d] : e;
    if (const auto same = std::ranges::find(left, made[d]); same != left.end())
      left.erase(same);
    else
      times = factor(times, made[d]);
  }
  if (!rest) return made;
  if (left.size() == 1 && made.size() == x.size()) made[*rest] = left[0];
  // Numbers that are joined or split: one dimension is left beside them.
  const auto open = std::ranges::find_if_not(left, &Extent::is_literal);
  if (open == left.end()) return made;
  int64_t parts = 1;
  for (const Extent& e : left)
    if (!(e == *open)) parts = factor(parts, e);
  if (times > 0 && parts == times && std::ranges::count(left, *open) == 1) made[*rest] = *open;
  return made;
}

Extents ExtentFlow::of_gather(const Node& n, const Extents& x) const {
  const auto& attrs = static_cast<const GatherAttrs&>(*n.attrs);
  if (!ranked(n, 1) || attrs.batch_dims != 0 || attrs.axis < 0 || attrs.axis >= static_cast<int64_t>(x.size()))
    return {};
  const auto axis = static_cast<ptrdiff_t>(attrs.axis);
  const Extents indices = dims(n.inputs[1]);
  Extents made(x.begin(), x.begin() + axis);
  made.insert(made.end(), indices.begin(), indices.end());
  made.insert(made.end(), x.begin() + axis + 1, x.end());
  return made;
}

Extents ExtentFlow::of_expand(const Node& n, const Extents& x, Extents made) const {
  const auto target = n.inputs.size() > 1 ? list(n.inputs[1]) : std::nullopt;
  if (!target || std::max(target->size(), x.size()) != made.size()) return {};
  broadcast_into(made, x, *target, 0);
  return made;
}

Extents ExtentFlow::of_reduce(const Node& n, Extents x) const {
  const auto axes = n.inputs.size() > 1 ? literals(constant(n.inputs[1])) : std::nullopt;
  if (!axes || axes->empty() || !static_cast<const ReduceAttrs&>(*n.attrs).keep_dims) return {};
  const auto rank = static_cast<int64_t>(x.size());
  for (const Extent& axis : *axes) {
    const int64_t at = axis.number < 0 ? axis.number + rank : axis.number;
    if (at < 0 || at >= rank) return {};
    x[static_cast<size_t>(at)] = kOne;
  }
  return x;
}

Extents ExtentFlow::of_unsqueeze(const Node& n, const Extents& x, size_t rank) const {
  const auto axes = n.inputs.size() > 1 ? literals(constant(n.inputs[1])) : std::nullopt;
  if (!axes || x.size() + axes->size() != rank) return {};
  std::vector<bool> added(rank, false);
  for (const Extent& axis : *axes) {
    const int64_t at = axis.number < 0 ? axis.number + static_cast<int64_t>(rank) : axis.number;
    if (at < 0 || at >= static_cast<int64_t>(rank) || added[static_cast<size_t>(at)]) return {};
    added[static_cast<size_t>(at)] = true;
  }
  Extents made;
  auto next = x.begin();
  for (size_t d = 0; d < rank; ++d) made.push_back(added[d] ? kOne : *next++);
  return made;
}

/// Elements of output 0, where they are put together from dimensions.
std::optional<Extents> ExtentFlow::list_of(const Node& n) const {
  const ValueType& y = graph_.value(n.outputs[0]).type;
  if (y.kind != ValueType::Kind::kTensor || y.quant || !y.ranked || y.shape.rank() > 1 || !is_list_type(y.dtype))
    return std::nullopt;
  switch (n.op) {
    case Op::kShapeOf: {
      if (!ranked(n, 0)) return std::nullopt;
      const auto& a = static_cast<const ShapeOfAttrs&>(*n.attrs);
      return part(dims(n.inputs[0]), a.start, a.end);
    }
    case Op::kCast:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kReshape:
      return list(n.inputs[0]);
    case Op::kGather:
      return list_of_gather(n);
    case Op::kSlice:
      return list_of_slice(n);
    case Op::kStridedSlice:
      return list_of_strided_slice(n);
    case Op::kConcat:
    case Op::kStack:
      return list_of_join(n);
    case Op::kBinary:
      return list_of_equal(n);
    case Op::kWhere:
      return list_of_where(n);
    default:
      return std::nullopt;
  }
}

std::optional<Extents> ExtentFlow::list_of_slice(const Node& n) const {
  const auto x = list(n.inputs[0]);
  const auto begin = number(list(n.inputs[1])), end = number(list(n.inputs[2]));
  const auto is = [&](size_t input, std::initializer_list<int64_t> allowed) {
    if (n.inputs.size() <= input || n.inputs[input] == kNoValue) return true;
    const auto value = number(list(n.inputs[input]));
    return value && std::ranges::find(allowed, *value) != allowed.end();
  };
  return x && begin && end && is(3, {0, -1}) && is(4, {1}) ? std::optional(part(*x, *begin, *end)) : std::nullopt;
}

std::optional<Extents> ExtentFlow::list_of_strided_slice(const Node& n) const {
  const auto& a = static_cast<const StridedSliceAttrs&>(*n.attrs);
  const auto x = list(n.inputs[0]);
  const auto begin = number(list(n.inputs[1])), end = number(list(n.inputs[2]));
  if (!x || !begin || !end || number(list(n.inputs[3])) != 1 || a.ellipsis_mask || a.new_axis_mask || a.offset)
    return std::nullopt;
  if (a.shrink_axis_mask & 1) return element(*x, *begin);
  return part(*x, a.begin_mask & 1 ? 0 : *begin, a.end_mask & 1 ? INT64_MAX : *end);
}

std::optional<Extents> ExtentFlow::list_of_gather(const Node& n) const {
  const auto& a = static_cast<const GatherAttrs&>(*n.attrs);
  const auto x = list(n.inputs[0]), indices = n.inputs.size() > 1 ? literals(constant(n.inputs[1])) : std::nullopt;
  if (!x || !indices || a.batch_dims != 0 || graph_.value(n.inputs[0]).type.shape.rank() != 1) return std::nullopt;
  Extents made;
  for (const Extent& index : *indices) {
    const auto one = index.number < 0 && !a.negative ? std::nullopt : element(*x, index.number);
    if (!one) return std::nullopt;
    made.push_back(one->front());
  }
  return made;
}

/// Of a list of dimensions and numbers, whether each equals a number: a dimension is none below 0.
std::optional<Extents> ExtentFlow::list_of_equal(const Node& n) const {
  const auto a = list(n.inputs[0]), b = n.inputs.size() > 1 ? list(n.inputs[1]) : std::nullopt;
  if (static_cast<const BinaryAttrs&>(*n.attrs).fn != Binary::kEqual || !a || !b || a->size() != b->size())
    return std::nullopt;
  Extents made;
  for (size_t i = 0; i < a->size(); ++i) {
    const Extent &left = (*a)[i], &right = (*b)[i];
    const bool never = (left.is_literal() && left.number < 0) || (right.is_literal() && right.number < 0);
    if (left != right && !never && !(left.is_literal() && right.is_literal())) return std::nullopt;
    made.push_back({kNoValue, left == right});
  }
  return made;
}

std::optional<Extents> ExtentFlow::list_of_where(const Node& n) const {
  if (n.inputs.size() != 3) return std::nullopt;
  const auto condition = list(n.inputs[0]), a = list(n.inputs[1]), b = list(n.inputs[2]);
  if (!condition || !a || !b || a->size() != condition->size() || b->size() != condition->size()) return std::nullopt;
  Extents made;
  for (size_t i = 0; i < condition->size(); ++i) {
    const Extent& c = (*condition)[i];
    if (!c.is_literal()) return std::nullopt;
    made.push_back(c.number != 0 ? (*a)[i] : (*b)[i]);
  }
  return made;
}

std::optional<Extents> ExtentFlow::list_of_join(const Node& n) const {
  const int rank = n.op == Op::kStack ? 0 : 1;
  Extents made;
  for (const ValueId id : n.inputs) {
    const auto more = list(id);
    if (!more || !graph_.value(id).type.ranked || graph_.value(id).type.shape.rank() != rank ||
        made.size() + more->size() > static_cast<size_t>(Shape::kMaxRank))
      return std::nullopt;
    made.insert(made.end(), more->begin(), more->end());
  }
  return made;
}

}  // namespace smelt
