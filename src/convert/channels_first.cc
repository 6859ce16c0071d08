// Images with channels last, for a format whose operators take channels first: a value has a source, the value in the
// order that the nodes behind it take, and its own order is made where a node asks for that.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "convert/convert.h"
#include "convert/node_runner.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/channels_perm.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::convert {
namespace {

using Axes = std::vector<int64_t>;

/// The permutation that undoes `perm`.
Axes inverse(const Axes& perm) {
  Axes back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return back;
}
bool is_identity(const Axes& perm) { return std::ranges::is_sorted(perm); }

/// A value as a Transpose of `source` by `perm`.
struct Form {
  ValueId source;
  Axes perm;
};

class ChannelsFirst {
 public:
  ChannelsFirst(Graph& graph, const Evaluate& evaluate) : g_(graph), evaluate_(evaluate) {}

  void run() {
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node& n : nodes) {
      if (moved(n)) continue;
      for (const ValueId id : n.inputs) make(id);
      g_.nodes.push_back(std::move(n));
    }
    for (const ValueId id : g_.outputs) make(id);
    remove_dead_nodes(g_);
  }

 private:
  const ValueType& type(ValueId id) const { return g_.value(id).type; }
  const Form* form(ValueId id) const {
    const auto it = forms_.find(id);
    return it == forms_.end() ? nullptr : &it->second;
  }
  /// True for a static tensor whose quantization, if any, is of the whole.
  bool movable(ValueId id) const {
    return id != kNoValue && type(id).is_static() && (!type(id).quant || is_per_tensor(type(id).quant));
  }
  std::optional<Axes> numbers(const Node& n, size_t i) const {
    const Tensor* t = i < n.inputs.size() && n.inputs[i] != kNoValue ? g_.value(n.inputs[i]).constant.get() : nullptr;
    if (!t || !is_integer(t->dtype())) return std::nullopt;
    return ints_of(*t);
  }
  ValueId numbers(Int64List values) { return g_.add_value(constant_integers(values)); }

  /// A new value with the dimensions of `of` in the order `perm`.
  ValueId like(ValueId of, const Axes& perm) {
    Value v{.name = g_.value(of).name, .type = type(of)};
    for (size_t i = 0; i < perm.size(); ++i)
      v.type.shape[static_cast<int>(i)] = type(of).shape[static_cast<int>(perm[i])];
    return g_.add_value(std::move(v));
  }
  void transpose(ValueId from, ValueId to, const Axes& perm) {
    Axes wide = perm;
    std::erase_if(wide, [&](int64_t d) { return type(from).shape[static_cast<int>(d)] == 1; });
    Node n{.op = Op::kTranspose, .inputs = {from}, .outputs = {to}};
    n.attrs = make_attrs<TransposeAttrs>(TransposeAttrs(perm));
    if (is_identity(wide)) {  // the elements keep their order
      const Shape shape = type(to).shape;
      n.op = Op::kReshape;
      n.inputs.push_back(numbers({shape.begin(), shape.end()}));
      n.attrs = make_attrs<ReshapeAttrs>();
    }
    n.origin = "layout";
    if (!g_.value(from).constant || !fold_node(g_, n, evaluate_)) g_.nodes.push_back(std::move(n));
  }
  /// Makes a value that has a source alone.
  void make(ValueId id) {
    if (!open_.contains(id)) return;
    open_.erase(id);
    const Form f = forms_.at(id);
    transpose(f.source, id, f.perm);
  }
  /// The value in the order `order` of its dimensions.
  ValueId ordered(ValueId id, const Axes& order) {
    const Form* f = form(id);
    if (!f) {
      const ValueId y = like(id, order);
      transpose(id, y, order);
      forms_[id] = {y, inverse(order)};
      return y;
    }
    Axes perm;
    for (const int64_t d : order) perm.push_back(f->perm[static_cast<size_t>(d)]);
    if (is_identity(perm)) return f->source;
    const ValueId source = f->source, y = like(source, perm);
    transpose(source, y, perm);
    return y;
  }
  /// A new source for what a node gives; `perm`: of the value from it.
  ValueId opened(ValueId id, const Axes& perm) {
    const ValueId source = like(id, inverse(perm));
    forms_[id] = {source, perm};
    open_.insert(id);
    return source;
  }
  void emit(Node n) { g_.nodes.push_back(std::move(n)); }

  /// Emits the node, or one that does its work on sources. False: it takes its operands' own order.
  bool moved(const Node& n) {
    if (n.inputs.empty() || n.outputs.empty() || !movable(n.inputs[0]) || !movable(n.outputs[0])) return false;
    for (size_t i = 1; i < n.outputs.size(); ++i)
      if (n.outputs[i] != kNoValue && n.op != Op::kSplit) return false;
    switch (n.op) {
      case Op::kConv:
        return image<ConvAttrs>(n);
      case Op::kConvTranspose:
        return image<ConvTransposeAttrs>(n);
      case Op::kPool:
        return image<PoolAttrs>(n);
      case Op::kDepthSpace:
        return image<BlockAttrs>(n);
      case Op::kResize:
        return resize(n);
      case Op::kTranspose:
        return transposition(n);
      case Op::kBinary:
      case Op::kWhere:
      case Op::kClamp:
        return elementwise(n);
      case Op::kConcat:
        return elementwise(n, static_cast<const AxisAttrs&>(*n.attrs).axis);
      default:
        break;
    }
    const Form* f = form(n.inputs[0]);
    if (!f) return false;
    switch (n.op) {
      case Op::kUnary:
      case Op::kCast:
      case Op::kQuantize:
      case Op::kDequantize:
        return rewrite(n, n.attrs, *f);
      case Op::kQuantizeLinear:
      case Op::kDequantizeLinear:
        return type(n.inputs[1]).is_static() && type(n.inputs[1]).shape.elements() == 1 && rewrite(n, n.attrs, *f);
      case Op::kSoftmax: {
        auto a = static_cast<const SoftmaxAttrs&>(*n.attrs);
        a.axis = source_axis(*f, a.axis);
        return !a.flatten && rewrite(n, make_attrs<SoftmaxAttrs>(a), *f);
      }
      case Op::kSplit:
        return split(n, *f);
      case Op::kPad:
        return !static_cast<const PadAttrs&>(*n.attrs).pairs && by_axes(n, *f, numbers(n, 1), 2);
      case Op::kSlice:
        return by_axes(n, *f, numbers(n, 1), 1);
      case Op::kReduce:
        return reduce(n, *f);
      case Op::kSqueeze:
        return squeeze(n, *f);
      case Op::kUnsqueeze:
        return unsqueeze(n, *f);
      default:
        return false;
    }
  }

  static int64_t source_axis(const Form& f, int64_t axis) {
    const auto rank = static_cast<int64_t>(f.perm.size());
    return f.perm[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  }
  /// Emits the node on the source of input 0; its outputs have the same order.
  bool rewrite(Node n, AttrsPtr attrs, Form f) {
    for (const ValueId id : n.outputs)
      if (id != kNoValue && (!movable(id) || type(id).shape.rank() != static_cast<int>(f.perm.size()))) return false;
    n.attrs = std::move(attrs);
    n.inputs[0] = f.source;
    for (size_t i = 1; i < n.inputs.size(); ++i) make(n.inputs[i]);
    for (ValueId& id : n.outputs)
      if (id != kNoValue) id = opened(id, f.perm);
    emit(std::move(n));
    return true;
  }

  template <class A>
  bool image(Node n) {
    A a = static_cast<const A&>(*n.attrs);
    if (a.layout != Layout::kChannelsLast) return false;
    for (const ValueId id : n.outputs)
      if (id != kNoValue && (!movable(id) || type(id).shape.rank() < 3)) return false;
    a.layout = Layout::kChannelsFirst;
    n.attrs = make_attrs<A>(a);
    n.inputs[0] = ordered(n.inputs[0], channels_first_perm(type(n.inputs[0]).shape.rank()));
    for (size_t i = 1; i < n.inputs.size(); ++i) make(n.inputs[i]);
    for (ValueId& id : n.outputs)
      if (id != kNoValue) id = opened(id, channels_last_perm(type(id).shape.rank()));
    emit(std::move(n));
    return true;
  }
  bool resize(Node n) {
    auto a = static_cast<const ResizeAttrs&>(*n.attrs);
    const int rank = type(n.inputs[0]).shape.rank();
    if (rank < 3 || a.axes.empty()) return false;
    const Axes back = channels_last_perm(rank);
    for (int64_t& axis : a.axes) {
      if (axis < 0) axis += rank;
      if (axis == 0 || axis == rank - 1) return false;  // not of the image
      axis = back[static_cast<size_t>(axis)];
    }
    n.attrs = make_attrs<ResizeAttrs>(std::move(a));
    n.inputs[0] = ordered(n.inputs[0], channels_first_perm(rank));
    for (size_t i = 1; i < n.inputs.size(); ++i) make(n.inputs[i]);
    n.outputs[0] = opened(n.outputs[0], back);
    emit(std::move(n));
    return true;
  }

  bool transposition(const Node& n) {
    std::optional<Axes> perm = static_cast<const TransposeAttrs&>(*n.attrs).perm;
    if (n.inputs.size() > 1) perm = numbers(n, 1);
    if (!perm || perm->size() != static_cast<size_t>(type(n.inputs[0]).shape.rank()) || g_.value(n.inputs[0]).constant)
      return false;
    Form made{n.inputs[0], *perm};
    for (int64_t& d : made.perm)
      if (d < 0) d += static_cast<int64_t>(perm->size());
    if (const Form* f = form(n.inputs[0])) {
      for (int64_t& d : made.perm) d = f->perm[static_cast<size_t>(d)];
      made.source = f->source;
    }
    forms_[n.outputs[0]] = std::move(made);
    open_.insert(n.outputs[0]);
    return true;
  }

  /// A node whose operands are alike, or broadcast: `axis` is where it joins them.
  bool elementwise(Node n, std::optional<int64_t> axis = {}) {
    const int rank = type(n.outputs[0]).shape.rank();
    const Form* first = nullptr;
    for (const ValueId id : n.inputs)
      if (const Form* f = id == kNoValue ? nullptr : form(id);
          f && !first && f->perm.size() == static_cast<size_t>(rank))
        first = f;
    if (!first) return false;
    const Form f = *first;
    for (const ValueId id : n.inputs) {
      if (id == kNoValue) continue;
      if (!movable(id) || type(id).shape.rank() > rank) return false;
      const Form* other = form(id);
      const bool fixed = g_.value(id).constant || type(id).shape.elements() == 1;
      if (!fixed && !(other && other->perm == f.perm)) return false;
    }
    for (ValueId& id : n.inputs) {
      if (id == kNoValue) continue;
      if (const Form* other = form(id); other && other->perm == f.perm)
        id = other->source;
      else if (!axis && type(id).shape.elements() == 1)
        make(id);
      else
        id = constant_in_order(id, inverse(f.perm));
    }
    if (axis) n.attrs = make_attrs<AxisAttrs>(source_axis(f, *axis));
    n.outputs[0] = opened(n.outputs[0], f.perm);
    emit(std::move(n));
    return true;
  }
  /// A constant with the rank of the order, transposed.
  ValueId constant_in_order(ValueId id, const Axes& order) {
    Value v = g_.value(id);
    Shape shape = v.type.shape;
    while (shape.rank() < static_cast<int>(order.size())) shape.insert(0, 1);
    if (v.constant) v.constant = std::make_shared<const Tensor>(v.constant->reshaped(shape));
    v.type.shape = shape;
    const ValueId whole = g_.add_value(std::move(v)), y = like(whole, order);
    transpose(whole, y, order);
    return y;
  }

  bool split(const Node& n, const Form& f) {
    if (n.inputs.size() > 2 && n.inputs[2] != kNoValue) return false;
    auto a = static_cast<const SplitAttrs&>(*n.attrs);
    a.axis = source_axis(f, a.axis);
    return rewrite(n, make_attrs<SplitAttrs>(a), f);
  }
  /// A node whose input 3 lists axes, all from 0 on where it is absent: input 1 has `each` numbers for one.
  bool by_axes(Node n, const Form& f, const std::optional<Axes>& list, size_t each) {
    if (!list) return false;
    std::optional<Axes> axes;
    if (n.inputs.size() > 3 && n.inputs[3] != kNoValue) {
      axes = numbers(n, 3);
    } else {
      axes = Axes(list->size() / each);
      std::iota(axes->begin(), axes->end(), 0);
    }
    if (!axes) return false;
    for (int64_t& axis : *axes) axis = source_axis(f, axis);
    if (type(n.outputs[0]).shape.rank() != static_cast<int>(f.perm.size())) return false;
    n.inputs.resize(std::max<size_t>(n.inputs.size(), 4), kNoValue);
    n.inputs[3] = numbers(*axes);
    return rewrite(n, n.attrs, f);
  }

  /// The permutation of what is left of a value where the source lacks the dimensions `gone`.
  static Axes left_of(const Form& f, const Axes& gone) {
    Axes perm;
    for (const int64_t d : f.perm)
      if (std::ranges::count(gone, d) == 0)
        perm.push_back(d - std::ranges::count_if(gone, [&](int64_t other) { return other < d; }));
    return perm;
  }
  /// Emits the node, whose result lacks dimensions of the source.
  void emit_left(Node n, const Form& f, const Axes& gone) {
    n.inputs[0] = f.source;
    n.inputs[1] = numbers(gone);
    if (const Axes perm = left_of(f, gone); !is_identity(perm)) n.outputs[0] = opened(n.outputs[0], perm);
    emit(std::move(n));
  }
  std::optional<Axes> source_axes(const Node& n, const Form& f) const {
    auto axes = numbers(n, 1);
    if (!axes || axes->empty()) return std::nullopt;
    for (int64_t& axis : *axes) axis = source_axis(f, axis);
    std::ranges::sort(*axes);
    return axes;
  }
  bool reduce(Node n, const Form& f) {
    const auto axes = source_axes(n, f);
    if (!axes) return false;
    if (!static_cast<const ReduceAttrs&>(*n.attrs).keep_dims) return emit_left(std::move(n), Form(f), *axes), true;
    n.inputs[1] = numbers(*axes);
    return rewrite(n, n.attrs, f);
  }
  bool squeeze(const Node& n, const Form& f) {
    const auto axes = source_axes(n, f);
    if (axes) emit_left(n, Form(f), *axes);
    return axes.has_value();
  }
  /// A new dimension stands before the same one in the source as in the value.
  bool unsqueeze(Node n, Form f) {
    auto axes = numbers(n, 1);
    const int rank = type(n.outputs[0]).shape.rank();
    if (!axes || axes->size() + f.perm.size() != static_cast<size_t>(rank)) return false;
    for (int64_t& axis : *axes)
      if (axis < 0) axis += rank;
    std::ranges::sort(*axes);
    // The dimensions of the result as those of the source; the new ones are -1 - k.
    Axes value = f.perm, source(f.perm.size());
    std::iota(source.begin(), source.end(), 0);
    for (size_t k = 0; k < axes->size(); ++k) {
      const auto at = value.begin() + (*axes)[k];
      const auto before = at == value.end() ? source.end() : std::ranges::find(source, *at);
      const int64_t made = -1 - static_cast<int64_t>(k);
      source.insert(before, made);
      value.insert(at, made);
    }
    Axes perm, places;
    for (const int64_t d : value) perm.push_back(std::ranges::find(source, d) - source.begin());
    for (size_t i = 0; i < source.size(); ++i)
      if (source[i] < 0) places.push_back(static_cast<int64_t>(i));
    n.inputs[0] = f.source;
    n.inputs[1] = numbers(places);
    n.outputs[0] = opened(n.outputs[0], perm);
    emit(std::move(n));
    return true;
  }

  Graph& g_;
  const Evaluate& evaluate_;
  std::map<ValueId, Form> forms_;
  std::set<ValueId> open_;  ///< that no node gives yet
};

}  // namespace

void channels_first(Module& module) {
  const NodeRunner runner(module);
  for (Graph& graph : module.graphs) ChannelsFirst(graph, runner.evaluate()).run();
}

}  // namespace smelt::convert
