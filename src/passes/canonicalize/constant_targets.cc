#include <algorithm>
#include <optional>
#include <vector>

#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// A number that is known (`of` is kNoValue), or dimension `number` of value `of`.
struct Extent {
  ValueId of = kNoValue;
  int64_t number = 0;
  bool is_literal() const { return of == kNoValue; }
  bool operator==(const Extent&) const = default;
};
using Extents = std::vector<Extent>;

/// The most entries of an integer list that is followed: those of a shape.
constexpr size_t kMostEntries = Shape::kMaxRank;

std::optional<Extents> literals(const Tensor* t) {
  if (!t || t->rank() > 1 || t->quant() || (t->dtype() != DType::kI64 && t->dtype() != DType::kI32) ||
      t->elements() > static_cast<int64_t>(kMostEntries))
    return std::nullopt;
  Extents list;
  for (int64_t i = 0; i < t->elements(); ++i) list.push_back({kNoValue, get_int(*t, i)});
  return list;
}

/// Follows dimensions, and lists that are put together from dimensions, from node to node in their order.
class ExtentFlow {
 public:
  explicit ExtentFlow(const Graph& graph) : graph_(graph), dims_(graph.values.size()), lists_(graph.values.size()) {}

  /// Dimensions of a ranked value.
  Extents dims(ValueId id) const {
    const ValueType& t = graph_.value(id).type;
    if (const auto i = static_cast<size_t>(id); i < dims_.size() && !dims_[i].empty()) return dims_[i];
    Extents own;
    for (int d = 0; d < t.shape.rank(); ++d) own.push_back(dimension_of(t, id, d));
    return own;
  }
  /// Elements of an integer list of rank 0 or 1; nullopt where they are not told.
  std::optional<Extents> list(ValueId id) const {
    if (const Tensor* t = constant(id)) return literals(t);
    const auto i = static_cast<size_t>(id);
    return i < lists_.size() ? lists_[i] : std::nullopt;
  }
  /// Notes what a node makes of its operands. Types of its outputs are up to date.
  void add(const Node& n) {
    if (n.outputs.empty() || n.outputs[0] == kNoValue || n.inputs.empty() || n.inputs[0] == kNoValue) return;
    const auto out = static_cast<size_t>(n.outputs[0]);
    if (out >= dims_.size()) return;
    lists_[out] = list_of(n);
    const ValueType& y = graph_.value(n.outputs[0]).type;
    if (!y.ranked || y.is_static() || !graph_.value(n.inputs[0]).type.ranked) return;
    Extents made = dims_of(n);
    if (static_cast<int>(made.size()) != y.shape.rank()) return;
    for (int d = 0; d < y.shape.rank(); ++d)
      if (y.shape[d] >= 0) made[static_cast<size_t>(d)] = {kNoValue, y.shape[d]};
    dims_[out] = std::move(made);
  }

 private:
  static Extent dimension_of(const ValueType& t, ValueId id, int d) {
    return t.shape[d] >= 0 ? Extent{kNoValue, t.shape[d]} : Extent{id, d};
  }
  const Tensor* constant(ValueId id) const { return id == kNoValue ? nullptr : graph_.value(id).constant.get(); }
  bool ranked(const Node& n, size_t i) const {
    return i < n.inputs.size() && n.inputs[i] != kNoValue && graph_.value(n.inputs[i]).type.ranked;
  }
  /// Element i of constant input `input`, of at most `most` elements; nullopt without such.
  std::optional<int64_t> number(const Node& n, size_t input, int64_t i = 0, int64_t most = 1) const {
    const Tensor* t = input < n.inputs.size() ? constant(n.inputs[input]) : nullptr;
    if (!t || !is_integer(t->dtype()) || t->elements() > most || i >= t->elements()) return std::nullopt;
    return get_int(*t, i);
  }

  /// One dimension of a broadcast; `own` where it is not told which of the two it is.
  static Extent broadcast(const Extent& a, const Extent& b, const Extent& own) {
    const Extent one{kNoValue, 1};
    if (a == b || b == one) return a;
    return a == one ? b : own;
  }
  /// Sets dimensions of a broadcast of two operands, all but the last `skip`.
  void broadcast_into(Extents& made, const Extents& a, const Extents& b, size_t skip) const {
    for (size_t i = skip + 1; i <= made.size(); ++i) {
      const Extent one{kNoValue, 1};
      Extent& own = made[made.size() - i];
      own = broadcast(i <= a.size() ? a[a.size() - i] : one, i <= b.size() ? b[b.size() - i] : one, own);
    }
  }

  /// Dimensions of output 0; empty: nothing is known.
  Extents dims_of(const Node& n) const {
    const ValueType& y = graph_.value(n.outputs[0]).type;
    const Extents x = dims(n.inputs[0]);
    Extents made;
    for (int d = 0; d < y.shape.rank(); ++d) made.push_back(dimension_of(y, n.outputs[0], d));
    switch (n.op) {
      case Op::kUnary:
      case Op::kCast:
      case Op::kClamp:
      case Op::kSoftmax:
      case Op::kLayerNorm:
      case Op::kGroupNorm:
      case Op::kBatchNorm:
      case Op::kQuantize:
      case Op::kDequantize:
      case Op::kQuantizeLinear:
      case Op::kDequantizeLinear:
        return x;
      case Op::kBinary:
        if (!ranked(n, 1)) return {};
        broadcast_into(made, x, dims(n.inputs[1]), 0);
        return made;
      case Op::kMatMul:
        return product(n, x, std::move(made));
      case Op::kConv:
      case Op::kPool:
        if (!x.empty() && !made.empty()) made[0] = x[0];
        return made;
      case Op::kTranspose:
        return transposed(n, x);
      case Op::kReshape:
        return reshaped(n, x, std::move(made));
      case Op::kGather:
        return gathered(n, x);
      case Op::kConcat: {
        const int64_t axis = static_cast<const AxisAttrs&>(*n.attrs).axis;
        for (size_t d = 0; d < made.size() && d < x.size(); ++d)
          if (static_cast<int64_t>(d) != axis && static_cast<int64_t>(d) != axis + y.shape.rank()) made[d] = x[d];
        return made;
      }
      default:
        return {};
    }
  }
  Extents product(const Node& n, const Extents& a, Extents made) const {
    const auto& attrs = static_cast<const MatMulAttrs&>(*n.attrs);
    if (!ranked(n, 1) || attrs.flatten_a || attrs.trans_batch_a || attrs.trans_batch_b) return {};
    const Extents b = dims(n.inputs[1]);
    if (a.size() < 2 || b.size() < 2 || made.size() < 2) return {};
    broadcast_into(made, a, b, 2);
    made[made.size() - 2] = a[a.size() - (attrs.transpose_a ? 1 : 2)];
    made[made.size() - 1] = b[b.size() - (attrs.transpose_b ? 2 : 1)];
    return made;
  }
  Extents transposed(const Node& n, const Extents& x) const {
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
  Extents reshaped(const Node& n, const Extents& x, Extents made) const {
    const auto target = literals(constant(n.inputs[1]));
    if (!target || static_cast<const ReshapeAttrs&>(*n.attrs).allow_zero) return {};
    for (size_t d = 0; d < made.size() && d < x.size() && d < target->size(); ++d)
      if ((*target)[d].number == 0) made[d] = x[d];
    return made;
  }
  Extents gathered(const Node& n, const Extents& x) const {
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

  /// Elements of output 0, where they are put together from dimensions.
  std::optional<Extents> list_of(const Node& n) const {
    const ValueType& y = graph_.value(n.outputs[0]).type;
    if (y.kind != ValueType::Kind::kTensor || y.quant || (y.dtype != DType::kI64 && y.dtype != DType::kI32))
      return std::nullopt;
    switch (n.op) {
      case Op::kShapeOf: {
        if (!graph_.value(n.inputs[0]).type.ranked) return std::nullopt;
        const auto& a = static_cast<const ShapeOfAttrs&>(*n.attrs);
        return part(dims(n.inputs[0]), a.start, a.end);
      }
      case Op::kCast:
        return y.ranked && y.shape.rank() <= 1 ? list(n.inputs[0]) : std::nullopt;
      case Op::kSqueeze:
      case Op::kUnsqueeze:
      case Op::kReshape:
        return y.ranked && y.shape.rank() <= 1 ? list(n.inputs[0]) : std::nullopt;
      case Op::kGather:
        return picked(n);
      case Op::kSlice: {
        const auto begin = number(n, 1), end = number(n, 2), axis = number(n, 3), step = number(n, 4);
        const bool forward = (n.inputs.size() < 5 || n.inputs[4] == kNoValue || step == 1) &&
                             (n.inputs.size() < 4 || n.inputs[3] == kNoValue || axis == 0 || axis == -1);
        const auto x = list(n.inputs[0]);
        return x && begin && end && forward ? part(*x, *begin, *end) : std::nullopt;
      }
      case Op::kStridedSlice:
        return strided(n);
      case Op::kConcat:
      case Op::kStack:
        return joined(n);
      default:
        return std::nullopt;
    }
  }
  /// Entries [begin, end) by the rule of ONNX: negative positions count from the end, all are clamped.
  static std::optional<Extents> part(const Extents& x, int64_t begin, int64_t end) {
    const auto n = static_cast<int64_t>(x.size());
    begin = std::clamp<int64_t>(begin < 0 ? begin + n : begin, 0, n);
    end = std::clamp<int64_t>(end < 0 ? end + n : end, begin, n);
    return Extents(x.begin() + begin, x.begin() + end);
  }
  std::optional<Extents> strided(const Node& n) const {
    const auto& a = static_cast<const StridedSliceAttrs&>(*n.attrs);
    const auto x = list(n.inputs[0]);
    const auto begin = number(n, 1), end = number(n, 2), step = number(n, 3);
    if (!x || !begin || !end || step != 1 || a.ellipsis_mask || a.new_axis_mask || a.offset) return std::nullopt;
    if (a.shrink_axis_mask & 1) return part(*x, *begin, *begin == -1 ? INT64_MAX : *begin + 1);
    return part(*x, a.begin_mask & 1 ? 0 : *begin, a.end_mask & 1 ? INT64_MAX : *end);
  }
  std::optional<Extents> picked(const Node& n) const {
    const auto& a = static_cast<const GatherAttrs&>(*n.attrs);
    const auto x = list(n.inputs[0]), indices = n.inputs.size() > 1 ? literals(constant(n.inputs[1])) : std::nullopt;
    if (!x || !indices || a.batch_dims != 0 || graph_.value(n.inputs[0]).type.shape.rank() != 1) return std::nullopt;
    const auto count = static_cast<int64_t>(x->size());
    Extents made;
    for (const Extent& index : *indices) {
      const int64_t i = index.number < 0 && a.negative ? index.number + count : index.number;
      if (i < 0 || i >= count) return std::nullopt;
      made.push_back((*x)[static_cast<size_t>(i)]);
    }
    return made;
  }
  std::optional<Extents> joined(const Node& n) const {
    const int rank = n.op == Op::kStack ? 0 : 1;
    Extents made;
    for (const ValueId id : n.inputs) {
      const auto part = id == kNoValue ? std::nullopt : list(id);
      if (!part || !graph_.value(id).type.ranked || graph_.value(id).type.shape.rank() != rank ||
          made.size() + part->size() > kMostEntries)
        return std::nullopt;
      made.insert(made.end(), part->begin(), part->end());
    }
    return made;
  }

  const Graph& graph_;
  std::vector<Extents> dims_;  ///< by ValueId; empty: those of the type
  std::vector<std::optional<Extents>> lists_;
};

/// Gives a Reshape a constant target if each entry of its list is a number or the dimension of x in its place. False if
/// it stays.
bool make_constant(Graph& graph, Node& n, const ExtentFlow& flow) {
  if (n.op != Op::kReshape || n.inputs.size() != 2 || graph.value(n.inputs[1]).constant) return false;
  const auto target = flow.list(n.inputs[1]);
  if (!target || !graph.value(n.inputs[0]).type.ranked) return false;
  const bool allow_zero = static_cast<const ReshapeAttrs&>(*n.attrs).allow_zero;
  const Extents x = flow.dims(n.inputs[0]);
  Tensor numbers(DType::kI64, Shape{static_cast<int64_t>(target->size())});
  for (size_t i = 0; i < target->size(); ++i) {
    const Extent& e = (*target)[i];
    if (e.is_literal() ? allow_zero && e.number == 0 : i >= x.size() || x[i] != e) return false;
    set_int(numbers, static_cast<int64_t>(i), e.is_literal() ? e.number : 0);
  }
  Value v{.type = ValueType::tensor(DType::kI64, numbers.shape())};
  v.constant = std::make_shared<const Tensor>(std::move(numbers));
  n.inputs[1] = graph.add_value(std::move(v));
  ReshapeAttrs attrs;
  attrs.allow_zero = false;
  n.attrs = make_attrs<ReshapeAttrs>(attrs);
  return true;
}

/// Fills in what the shape rule of a node tells beyond the types of its outputs. True if there was something.
bool refine(const Module& module, Graph& graph, const Node& n) {
  std::vector<ValueType> types;
  if (!infer_node(module, graph, n, types).ok()) return false;
  bool refined = false;
  for (size_t i = 0; i < n.outputs.size() && i < types.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    ValueType merged = graph.value(n.outputs[i]).type;
    if (types[i].kind != ValueType::Kind::kTensor || !merge_type(merged, types[i], "output").ok()) continue;
    ValueType& now = graph.value(n.outputs[i]).type;
    if (merged.ranked == now.ranked && merged.shape == now.shape) continue;
    now = std::move(merged);
    refined = true;
  }
  return refined;
}

}  // namespace

void constant_targets(Module& module, Graph& graph) {
  const auto computed = [&](const Node& n) {
    return n.op == Op::kReshape && n.inputs.size() == 2 && n.inputs[1] != kNoValue &&
           !graph.value(n.inputs[1]).constant;
  };
  if (std::ranges::none_of(graph.nodes, computed)) return;
  ExtentFlow flow(graph);
  std::vector<bool> refined(graph.values.size(), false);
  bool changed = false;
  for (Node& n : graph.nodes) {
    const bool constant = make_constant(graph, n, flow);
    changed |= constant;
    const bool reads = std::ranges::any_of(n.inputs, [&](ValueId id) {
      return id != kNoValue && static_cast<size_t>(id) < refined.size() && refined[static_cast<size_t>(id)];
    });
    if ((constant || reads) && refine(module, graph, n))
      for (const ValueId id : n.outputs)
        if (id != kNoValue) refined[static_cast<size_t>(id)] = true;
    flow.add(n);
  }
  if (changed) remove_dead_nodes(graph);
}

}  // namespace smelt
