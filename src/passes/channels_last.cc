// Convolutions run faster on images whose channels lie side by side. The pass gives values a second, channels-last
// form, made by the nodes that understand it; transpositions stand only where the two worlds meet.
#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Convolutions of fewer output channels fill no vector.
constexpr int64_t kNarrow = 8;

std::vector<int64_t> to_last_perm(int rank) {
  std::vector<int64_t> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}
std::vector<int64_t> to_first_perm(int rank) {
  std::vector<int64_t> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}
/// Where dimension `axis` of the channels-first form lies in the channels-last form.
int64_t last_axis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

class ChannelsLast {
 public:
  explicit ChannelsLast(Graph& graph) : g_(graph) {}

  void run() {
    grow();
    find_fixed();
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    std::vector<int> uses(g_.values.size(), 0);
    for (const Node& n : nodes)
      for (ValueId id : n.inputs)
        if (id != kNoValue) ++uses[static_cast<size_t>(id)];
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (shuffle(nodes, k, uses)) {
        k += 2;
        continue;
      }
      if (convert(nodes[k])) continue;
      for (ValueId id : nodes[k].inputs) need_first(id);
      emit(std::move(nodes[k]));
    }
    for (ValueId id : g_.outputs) need_first(id);
    remove_dead_nodes(g_);
  }

 private:
  void grow() {
    last_.resize(g_.values.size(), kNoValue);
    ready_.resize(g_.values.size(), 1);
    producer_.resize(g_.values.size(), -1);
    fixed_.resize(g_.values.size(), 0);
  }
  /// What follows from constants alone.
  void find_fixed() {
    for (size_t i = 0; i < g_.values.size(); ++i) fixed_[i] = g_.values[i].constant != nullptr;
    for (ValueId id : g_.inputs)  // a default may be replaced
      if (id != kNoValue) fixed_[static_cast<size_t>(id)] = 0;
    for (const Node& n : g_.nodes) {
      if (op_info(n.op).flags & (kEffect | kControl | kContainer | kDynamic) || n.inputs.empty()) continue;
      const bool all = std::all_of(n.inputs.begin(), n.inputs.end(),
                                   [&](ValueId id) { return id == kNoValue || fixed_[static_cast<size_t>(id)]; });
      for (ValueId id : n.outputs)
        if (id != kNoValue) fixed_[static_cast<size_t>(id)] = all;
    }
  }

  const ValueType& type(ValueId id) const { return g_.value(id).type; }
  int rank(ValueId id) const {
    const ValueType& t = type(id);
    return t.kind == ValueType::Kind::kTensor && t.ranked ? t.shape.rank() : -1;
  }
  bool has_last(ValueId id) const { return id != kNoValue && last_[static_cast<size_t>(id)] != kNoValue; }
  bool movable(ValueId id) const {
    if (id == kNoValue || rank(id) < 3) return false;
    const QuantPtr& q = type(id).quant;
    return !q || q->kind == Quantization::Kind::kPerTensor;
  }
  const Tensor* constant(const Node& n, size_t i) const {
    return i < n.inputs.size() && n.inputs[i] != kNoValue ? g_.value(n.inputs[i]).constant.get() : nullptr;
  }
  static bool given(const Node& n, size_t i) { return i < n.inputs.size() && n.inputs[i] != kNoValue; }

  void emit(Node n) {
    for (ValueId id : n.outputs)
      if (id != kNoValue) producer_[static_cast<size_t>(id)] = static_cast<int>(g_.nodes.size());
    g_.nodes.push_back(std::move(n));
  }
  ValueId add(Value v) {
    const ValueId id = g_.add_value(std::move(v));
    grow();
    return id;
  }
  /// A value like `of`, its dimensions permuted.
  ValueId like(ValueId of, const std::vector<int64_t>& perm) {
    Value v;
    v.name = g_.value(of).name;
    v.type = type(of);
    if (v.type.ranked)
      for (size_t i = 0; i < perm.size(); ++i)
        v.type.shape[static_cast<int>(i)] = type(of).shape[static_cast<int>(perm[i])];
    return add(std::move(v));
  }
  void transpose(ValueId from, ValueId to, std::vector<int64_t> perm) {
    // Of two transpositions in a row, one is enough.
    const int p = producer_[static_cast<size_t>(from)];
    if (p >= 0 && g_.nodes[static_cast<size_t>(p)].op == Op::kTranspose) {
      const Node& before = g_.nodes[static_cast<size_t>(p)];
      const auto& first = static_cast<const TransposeAttrs&>(*before.attrs).perm;
      if (first.size() == perm.size() && before.inputs.size() == 1) {
        for (int64_t& axis : perm) axis = first[static_cast<size_t>(axis)];
        from = before.inputs[0];
      }
    }
    Node n;
    n.op = Op::kTranspose;
    n.inputs = {from};
    n.outputs = {to};
    n.attrs = make_attrs<TransposeAttrs>(TransposeAttrs(std::move(perm)));
    n.origin = "layout";
    emit(std::move(n));
  }
  void need_first(ValueId id) {
    if (id == kNoValue || ready_[static_cast<size_t>(id)]) return;
    ready_[static_cast<size_t>(id)] = 1;
    transpose(last_[static_cast<size_t>(id)], id, to_first_perm(rank(id)));
  }
  ValueId to_last(ValueId id) {
    if (has_last(id)) return last_[static_cast<size_t>(id)];
    const std::vector<int64_t> perm = to_last_perm(rank(id));
    const ValueId made = like(id, perm);
    transpose(id, made, perm);
    last_[static_cast<size_t>(id)] = made;
    return made;
  }
  /// The channels-last form of a node's output, which the caller's node will write.
  ValueId output_last(ValueId id) {
    const ValueId made = like(id, to_last_perm(rank(id)));
    last_[static_cast<size_t>(id)] = made;
    ready_[static_cast<size_t>(id)] = 0;
    return made;
  }
  ValueId integers(const std::vector<int64_t>& values) {
    Tensor t(DType::kI64, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data<int64_t>());
    Value v;
    v.type = ValueType::tensor(DType::kI64, t.shape());
    v.constant = std::make_shared<const Tensor>(std::move(t));
    return add(std::move(v));
  }
  static std::vector<int64_t> list(const Tensor& t) {
    std::vector<int64_t> v;
    for (int64_t i = 0; i < t.elements(); ++i) v.push_back(get_int(t, i));
    return v;
  }
  static std::vector<int64_t> map_axes(std::vector<int64_t> axes, int r) {
    for (int64_t& a : axes) a = last_axis(a, r);
    return axes;
  }

  /// Emits the node with its image input and its outputs in channels-last form.
  bool rewrite(const Node& n, AttrsPtr attrs) {
    for (ValueId id : n.outputs)
      if (id != kNoValue && (!movable(id) || rank(id) != rank(n.inputs[0]))) return false;
    Node m = n;
    m.attrs = std::move(attrs);
    m.inputs[0] = to_last(n.inputs[0]);
    for (size_t i = 1; i < m.inputs.size(); ++i) need_first(m.inputs[i]);
    for (ValueId& id : m.outputs)
      if (id != kNoValue) id = output_last(id);
    emit(std::move(m));
    return true;
  }
  template <class A>
  bool relayout(const Node& n) {
    A attrs = static_cast<const A&>(*n.attrs);
    if (attrs.layout != Layout::kChannelsFirst) return false;
    attrs.layout = Layout::kChannelsLast;
    return rewrite(n, make_attrs<A>(std::move(attrs)));
  }
  template <class A>
  bool move_axis(const Node& n) {
    A attrs = static_cast<const A&>(*n.attrs);
    attrs.axis = last_axis(attrs.axis, rank(n.inputs[0]));
    return rewrite(n, make_attrs<A>(std::move(attrs)));
  }
  static bool one_output(const Node& n) {
    return std::count_if(n.outputs.begin(), n.outputs.end(), [](ValueId id) { return id != kNoValue; }) == 1 &&
           n.outputs[0] != kNoValue;
  }
  bool one_element(ValueId id) const {
    return id == kNoValue || (type(id).is_static() && type(id).shape.elements() == 1);
  }

  bool convert(const Node& n) {
    if (n.inputs.empty() || n.outputs.empty()) return false;
    if (n.op == Op::kBinary) return binary(n);
    if (n.op == Op::kConcat) return concat(n);
    if (!movable(n.inputs[0])) return false;
    if (n.op == Op::kConv || n.op == Op::kConvTranspose || n.op == Op::kConvInteger) return conv(n);
    if (!has_last(n.inputs[0])) return false;
    const int r = rank(n.inputs[0]);
    switch (n.op) {
      case Op::kUnary:
      case Op::kCast:
      case Op::kQuantize:
      case Op::kDequantize:
      case Op::kBitCast:
        return rewrite(n, n.attrs);
      case Op::kClamp:
        for (size_t i = 1; i < n.inputs.size(); ++i)
          if (!one_element(n.inputs[i])) return false;
        return rewrite(n, n.attrs);
      case Op::kQuantizeLinear:
      case Op::kDequantizeLinear: {
        const auto& a = static_cast<const QuantizeLinearAttrs&>(*n.attrs);
        if (a.block != 0 || !type(n.inputs[1]).is_static()) return false;
        return one_element(n.inputs[1]) ? rewrite(n, n.attrs) : move_axis<QuantizeLinearAttrs>(n);
      }
      case Op::kDynamicQuantize: {
        if (static_cast<const DynamicQuantizeAttrs&>(*n.attrs).per_row || n.outputs[0] == kNoValue) return false;
        Node m = n;
        m.inputs[0] = to_last(n.inputs[0]);
        m.outputs[0] = output_last(n.outputs[0]);
        emit(std::move(m));
        return true;
      }
      case Op::kPool:
        return one_output(n) && relayout<PoolAttrs>(n);
      case Op::kBatchNorm:
        return one_output(n) && !static_cast<const BatchNormAttrs&>(*n.attrs).training && relayout<BatchNormAttrs>(n);
      case Op::kGroupNorm:
        return one_output(n) && relayout<GroupNormAttrs>(n);
      case Op::kLRN:
        return relayout<LrnAttrs>(n);
      case Op::kDepthSpace:
        return relayout<BlockAttrs>(n);
      case Op::kSoftmax:
        return !static_cast<const SoftmaxAttrs&>(*n.attrs).flatten && move_axis<SoftmaxAttrs>(n);
      case Op::kSplit:
        return !given(n, 2) && move_axis<SplitAttrs>(n);
      case Op::kResize: {
        auto a = static_cast<const ResizeAttrs&>(*n.attrs);
        if (a.coord == ResizeAttrs::Coord::kTfCropAndResize) return false;  // its roi may list all dimensions
        if (a.axes.empty())
          for (int i = 0; i < r; ++i) a.axes.push_back(i);
        a.axes = map_axes(std::move(a.axes), r);
        return rewrite(n, make_attrs<ResizeAttrs>(std::move(a)));
      }
      case Op::kPad:
        return pad(n, r);
      case Op::kSlice:
        return slice(n, r);
      case Op::kReduce:
        return reduce(n, r);
      case Op::kTranspose: {
        const auto& perm = static_cast<const TransposeAttrs&>(*n.attrs).perm;
        if (perm.empty() || given(n, 1)) return false;
        transpose(last_[static_cast<size_t>(n.inputs[0])], n.outputs[0], map_axes(perm, r));
        return true;
      }
      default:
        return false;
    }
  }

  bool conv(const Node& n) {
    const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
    if (a.layout != Layout::kChannelsFirst || !one_output(n) || !movable(n.outputs[0])) return false;
    if (!fixed_[static_cast<size_t>(n.inputs[1])]) return false;
    if (n.op == Op::kConv && given(n, 2) && !fixed_[static_cast<size_t>(n.inputs[2])]) return false;
    if (!has_last(n.inputs[0])) {
      const ValueType& y = type(n.outputs[0]);
      if (fixed_[static_cast<size_t>(n.inputs[0])] || (y.ranked && y.shape[1] >= 0 && y.shape[1] < kNarrow))
        return false;
    }
    if (n.op == Op::kConvInteger &&
        (!one_element(given(n, 2) ? n.inputs[2] : kNoValue) || (given(n, 3) && !constant(n, 3))))
      return false;
    if (n.op != Op::kConvTranspose) return relayout<ConvAttrs>(n);
    return !given(n, 3) && relayout<ConvTransposeAttrs>(n);
  }

  bool pad(const Node& n, int r) {
    const Tensor* pads = constant(n, 1);
    if (!pads || static_cast<const PadAttrs&>(*n.attrs).pairs || (given(n, 3) && !constant(n, 3))) return false;
    std::vector<int64_t> axes;
    if (given(n, 3))
      axes = list(*constant(n, 3));
    else
      for (int i = 0; i < r; ++i) axes.push_back(i);
    Node m = n;
    m.inputs.resize(4, kNoValue);
    m.inputs[3] = integers(map_axes(std::move(axes), r));
    return rewrite(m, n.attrs);
  }
  bool slice(const Node& n, int r) {
    const Tensor* starts = constant(n, 1);
    if (!starts || (given(n, 3) && !constant(n, 3))) return false;
    std::vector<int64_t> axes;
    if (given(n, 3))
      axes = list(*constant(n, 3));
    else
      for (int64_t i = 0; i < starts->elements(); ++i) axes.push_back(i);
    Node m = n;
    m.inputs.resize(std::max<size_t>(m.inputs.size(), 4), kNoValue);
    m.inputs[3] = integers(map_axes(std::move(axes), r));
    return rewrite(m, n.attrs);
  }
  bool reduce(const Node& n, int r) {
    if (!constant(n, 1) || !one_output(n)) return false;
    std::vector<int64_t> axes = list(*constant(n, 1));
    if (axes.empty()) return false;
    Node m = n;
    m.inputs[1] = integers(map_axes(axes, r));
    if (static_cast<const ReduceAttrs&>(*n.attrs).keep_dims) return rewrite(m, n.attrs);
    // The dimensions that stay must come in the same order in both forms: without the channels, or only they.
    int64_t spatial = 0;
    bool channels = false;
    for (int64_t a : axes) {
      if (a < 0) a += r;
      channels = channels || a == 1;
      spatial += a > 1;
    }
    if (!channels && spatial != r - 2) return false;
    m.inputs[0] = last_[static_cast<size_t>(n.inputs[0])];
    emit(std::move(m));
    return true;
  }

  /// An operand of a Binary whose result has r dimensions, as channels-last; kNoValue when it can't be.
  bool operand_fits(ValueId id, int r) const {
    if (has_last(id)) return rank(id) == r;
    if (rank(id) < 0) return false;
    if (one_element(id)) return rank(id) <= r;
    if (const Tensor* t = g_.value(id).constant.get()) {
      if (t->rank() > r || t->quant()) return false;
      int wide = 0;
      for (int i = 0; i < t->rank(); ++i) wide += t->dim(i) != 1;
      return wide == 1;
    }
    return rank(id) == r && movable(id);
  }
  ValueId operand(ValueId id, int r) {
    if (has_last(id)) return to_last(id);
    if (one_element(id)) {
      need_first(id);
      return id;
    }
    const Tensor* t = g_.value(id).constant.get();
    if (!t) return to_last(id);
    Shape shape;
    for (int i = 0; i < r; ++i) shape.push_back(1);
    for (int i = 0; i < t->rank(); ++i)
      if (t->dim(i) != 1) shape[static_cast<int>(last_axis(i + r - t->rank(), r))] = t->dim(i);
    Value v = g_.value(id);
    v.type.shape = shape;
    v.constant = std::make_shared<const Tensor>(t->reshaped(shape));
    return add(std::move(v));
  }
  bool binary(const Node& n) {
    const int r = movable(n.outputs[0]) ? rank(n.outputs[0]) : -1;
    if (r < 0 || (!has_last(n.inputs[0]) && !has_last(n.inputs[1]))) return false;
    if (!operand_fits(n.inputs[0], r) || !operand_fits(n.inputs[1], r)) return false;
    Node m = n;
    for (ValueId& id : m.inputs) id = operand(id, r);
    m.outputs[0] = output_last(n.outputs[0]);
    emit(std::move(m));
    return true;
  }
  bool concat(const Node& n) {
    const int r = movable(n.outputs[0]) ? rank(n.outputs[0]) : -1;
    if (r < 0) return false;
    size_t here = 0;
    for (ValueId id : n.inputs) {
      if (!movable(id) || rank(id) != r) return false;
      here += has_last(id);
    }
    if (here * 2 < n.inputs.size() || here == 0) return false;
    Node m = n;
    m.attrs = make_attrs<AxisAttrs>(AxisAttrs(last_axis(static_cast<const AxisAttrs&>(*n.attrs).axis, r)));
    for (ValueId& id : m.inputs) id = to_last(id);
    m.outputs[0] = output_last(n.outputs[0]);
    emit(std::move(m));
    return true;
  }

  /// Reshape [n, g, c, spatial] - Transpose [n, c, g, spatial] - Reshape [n, c g, spatial]: a channel shuffle.
  bool shuffle(const std::vector<Node>& nodes, size_t k, const std::vector<int>& uses) {
    const Node& split = nodes[k];
    if (split.op != Op::kReshape || !has_last(split.inputs[0]) || k + 2 >= nodes.size()) return false;
    const Node &swap = nodes[k + 1], &join = nodes[k + 2];
    const ValueId x = split.inputs[0];
    const int r = rank(x);
    if (swap.op != Op::kTranspose || join.op != Op::kReshape || swap.inputs[0] != split.outputs[0] ||
        join.inputs[0] != swap.outputs[0] || uses[static_cast<size_t>(split.outputs[0])] != 1 ||
        uses[static_cast<size_t>(swap.outputs[0])] != 1 || swap.inputs.size() > 1)
      return false;
    if (std::find(g_.outputs.begin(), g_.outputs.end(), split.outputs[0]) != g_.outputs.end() ||
        std::find(g_.outputs.begin(), g_.outputs.end(), swap.outputs[0]) != g_.outputs.end())
      return false;
    const ValueType from = type(x), mid = type(split.outputs[0]), to = type(join.outputs[0]);
    std::vector<int64_t> perm{0, 2, 1};
    for (int i = 3; i <= r; ++i) perm.push_back(i);
    if (static_cast<const TransposeAttrs&>(*swap.attrs).perm != perm || !from.is_static() || !mid.is_static() ||
        !to.is_static() || mid.shape.rank() != r + 1 || !(to.shape == from.shape) || mid.shape[0] != from.shape[0])
      return false;
    for (int i = 2; i < r; ++i)
      if (mid.shape[i + 1] != from.shape[i]) return false;
    // The batch stays open: a caller may give another one.
    std::vector<int64_t> open(static_cast<size_t>(r) - 1, 0), closed(static_cast<size_t>(r) - 1, 0), last_two;
    open.push_back(mid.shape[1]);
    open.push_back(mid.shape[2]);
    closed.push_back(from.shape[1]);
    for (int i = 0; i < r - 1; ++i) last_two.push_back(i);
    last_two.push_back(r);
    last_two.push_back(r - 1);
    const ValueId parts = add(g_.value(split.outputs[0])), swapped = add(g_.value(swap.outputs[0]));
    for (const ValueId id : {parts, swapped}) {
      Shape& shape = g_.value(id).type.shape;
      for (int i = 0; i < r - 1; ++i) shape[i] = i == 0 ? from.shape[0] : from.shape[i + 1];
      shape[r - 1] = mid.shape[id == parts ? 1 : 2];
      shape[r] = mid.shape[id == parts ? 2 : 1];
    }
    Node a = split, b = swap, c = join;
    a.attrs = c.attrs = make_attrs<ReshapeAttrs>([] {
      ReshapeAttrs attrs;
      attrs.allow_zero = false;
      return attrs;
    }());
    a.inputs = {to_last(x), integers(open)};
    a.outputs = {parts};
    b.attrs = make_attrs<TransposeAttrs>(TransposeAttrs(last_two));
    b.inputs = {parts};
    b.outputs = {swapped};
    c.inputs = {swapped, integers(closed)};
    c.outputs = {output_last(join.outputs[0])};
    emit(std::move(a));
    emit(std::move(b));
    emit(std::move(c));
    return true;
  }

  Graph& g_;
  std::vector<ValueId> last_;  ///< channels-last form of a value, or kNoValue
  std::vector<char> ready_;    ///< the value itself has been made
  std::vector<char> fixed_;
  std::vector<int> producer_;
};

}  // namespace

void channels_last(Graph& graph) { ChannelsLast(graph).run(); }

}  // namespace smelt
