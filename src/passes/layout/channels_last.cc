// Convolutions run faster on channels-last images. The pass gives values a second, channels-last form, which the
// rewritten nodes read and write, and puts a Transpose only where a value is needed in the form that it does not have.
#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/channels_perm.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/layout/image_forms.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

class ChannelsLast {
 public:
  explicit ChannelsLast(Graph& graph) : g_(graph) {}

  void run() {
    grow();
    find_constant();
    wanted_ = wanted_channels_last(g_);
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    g_.nodes.reserve(nodes.size());
    reads_.assign(g_.values.size(), 0);
    for (const Node& n : nodes)
      for (ValueId id : n.inputs)
        if (id != kNoValue) ++reads_[static_cast<size_t>(id)];
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (shuffle(nodes, k)) {
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
    constant_.resize(g_.values.size(), 0);
  }
  /// Marks the values that depend on constants alone.
  void find_constant() {
    for (size_t i = 0; i < g_.values.size(); ++i) constant_[i] = g_.values[i].constant != nullptr;
    for (ValueId id : g_.inputs)  // a caller may replace a default
      if (id != kNoValue) constant_[static_cast<size_t>(id)] = 0;
    for (const Node& n : g_.nodes) {
      if (op_info(n.op).flags & (kEffect | kControl | kContainer | kDynamic) || n.inputs.empty()) continue;
      const bool all = std::ranges::all_of(
          n.inputs, [&](ValueId id) { return id == kNoValue || constant_[static_cast<size_t>(id)]; });
      for (ValueId id : n.outputs)
        if (id != kNoValue) constant_[static_cast<size_t>(id)] = all;
    }
  }

  const ValueType& type(ValueId id) const { return g_.value(id).type; }
  int rank(ValueId id) const {
    const ValueType& t = type(id);
    return t.kind == ValueType::Kind::kTensor && t.ranked ? t.shape.rank() : -1;
  }
  bool has_last(ValueId id) const { return id != kNoValue && last_[static_cast<size_t>(id)] != kNoValue; }
  /// True if the value may have a channels-last form.
  bool permutable(ValueId id) const {
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
    Value v = g_.form_of(of);
    if (v.type.ranked)
      for (size_t i = 0; i < perm.size(); ++i)
        v.type.shape[static_cast<int>(i)] = type(of).shape[static_cast<int>(perm[i])];
    return add(std::move(v));
  }
  void transpose(ValueId from, ValueId to, std::vector<int64_t> perm) {
    // Two transpositions in a row become one.
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
  /// Makes the channels-first form of a value that has only the other one so far.
  void need_first(ValueId id) {
    if (id == kNoValue || ready_[static_cast<size_t>(id)]) return;
    ready_[static_cast<size_t>(id)] = 1;
    transpose(last_[static_cast<size_t>(id)], id, channels_first_perm(rank(id)));
  }
  /// The channels-last form of a value, transposed if there is none yet.
  ValueId to_last(ValueId id) {
    if (has_last(id)) return last_[static_cast<size_t>(id)];
    const std::vector<int64_t> perm = channels_last_perm(rank(id));
    const ValueId made = like(id, perm);
    transpose(id, made, perm);
    last_[static_cast<size_t>(id)] = made;
    return made;
  }
  /// A new channels-last form for a node's output, which the caller's node writes.
  ValueId output_last(ValueId id) {
    const ValueId made = like(id, channels_last_perm(rank(id)));
    last_[static_cast<size_t>(id)] = made;
    ready_[static_cast<size_t>(id)] = 0;
    return made;
  }
  ValueId integers(Int64List values) { return add(constant_integers(values)); }
  static std::vector<int64_t> map_axes(std::vector<int64_t> axes, int r) {
    for (int64_t& a : axes) a = channels_last_axis(a, r);
    return axes;
  }

  /// Emits the node with input 0 and its outputs in channels-last form. False if an output can't have one.
  bool rewrite(const Node& n, AttrsPtr attrs) {
    for (ValueId id : n.outputs)
      if (id != kNoValue && (!permutable(id) || rank(id) != rank(n.inputs[0]))) return false;
    Node m = n;
    m.attrs = std::move(attrs);
    m.inputs[0] = to_last(n.inputs[0]);
    for (size_t i = 1; i < m.inputs.size(); ++i) need_first(m.inputs[i]);
    for (ValueId& id : m.outputs)
      if (id != kNoValue) id = output_last(id);
    emit(std::move(m));
    return true;
  }
  /// rewrite() with the attributes' `layout` or `axis` adapted.
  bool relayout(const Node& n) {
    AttrsPtr attrs = op_info(n.op).channels_last(n.attrs, rank(n.inputs[0]));
    return attrs && rewrite(n, std::move(attrs));
  }
  static bool one_output(const Node& n) {
    return std::count_if(n.outputs.begin(), n.outputs.end(), [](ValueId id) { return id != kNoValue; }) == 1 &&
           n.outputs[0] != kNoValue;
  }
  bool one_element(ValueId id) const {
    return id == kNoValue || (type(id).is_static() && type(id).shape.elements() == 1);
  }

  /// True for an image that a node makes larger for the graph's output alone. The smaller image is then transposed.
  bool is_enlarged_output(const Node& n) const {
    const ValueId y = n.outputs[0];
    const ValueType &from = type(n.inputs[0]), &to = type(y);
    if (reads_[static_cast<size_t>(y)] != 0 || to.dtype != DType::kF32 || to.quant || !from.ranked || !to.ranked ||
        from.shape.rank() != to.shape.rank())
      return false;
    double larger = 1;
    for (int i = 0; i < to.shape.rank(); ++i) {
      if (from.shape[i] == to.shape[i]) continue;  // an open batch, too
      if (from.shape[i] < 1 || to.shape[i] < 0) return false;
      larger *= static_cast<double>(to.shape[i]) / static_cast<double>(from.shape[i]);
    }
    return larger > 1;
  }
  /// True if a kAnyLayout node can't be channels-last after all.
  bool needs_channels_first(const Node& n) const {
    if (!one_output(n) && n.op != Op::kSplit) return true;
    if (n.op == Op::kBatchNorm) return static_cast<const BatchNormAttrs&>(*n.attrs).training;
    if (n.op == Op::kSoftmax) return static_cast<const SoftmaxAttrs&>(*n.attrs).flatten;
    return n.op == Op::kSplit && given(n, 2);
  }

  /// Emits the node, or nodes that do its work, on channels-last values. False if it stays channels-first.
  bool convert(const Node& n) {
    if (n.inputs.empty() || n.outputs.empty()) return false;
    if (n.op == Op::kBinary) return binary(n);
    if (n.op == Op::kConcat) return concat(n);
    if (!permutable(n.inputs[0])) return false;
    if (n.op == Op::kConv || n.op == Op::kConvTranspose || n.op == Op::kConvInteger) return conv(n);
    if (n.op == Op::kReshape || n.op == Op::kSqueeze || n.op == Op::kUnsqueeze) return reshape(n);
    if (!has_last(n.inputs[0])) return turned(n);
    if (op_info(n.op).flags & kAnyLayout) return !needs_channels_first(n) && relayout(n);
    const int r = rank(n.inputs[0]);
    switch (n.op) {
      case Op::kClamp:
        for (size_t i = 1; i < n.inputs.size(); ++i)
          if (!one_element(n.inputs[i])) return false;
        return rewrite(n, n.attrs);
      case Op::kQuantizeLinear:
      case Op::kDequantizeLinear:
        if (static_cast<const QuantizeLinearAttrs&>(*n.attrs).block != 0 || !type(n.inputs[1]).is_static())
          return false;
        return one_element(n.inputs[1]) ? rewrite(n, n.attrs) : relayout(n);
      case Op::kDynamicQuantize: {
        if (static_cast<const DynamicQuantizeAttrs&>(*n.attrs).per_row || n.outputs[0] == kNoValue) return false;
        Node m = n;
        m.inputs[0] = to_last(n.inputs[0]);
        m.outputs[0] = output_last(n.outputs[0]);
        emit(std::move(m));
        return true;
      }
      case Op::kResize: {
        auto a = static_cast<const ResizeAttrs&>(*n.attrs);
        if (a.coord == ResizeAttrs::Coord::kTfCropAndResize) return false;  // its roi may list all dimensions
        if (is_enlarged_output(n)) return false;
        if (a.axes.empty())
          for (int i = 0; i < r; ++i) a.axes.push_back(i);
        a.axes = map_axes(std::move(a.axes), r);
        return rewrite(n, make_attrs<ResizeAttrs>(std::move(a)));
      }
      case Op::kPad:
        return constant(n, 1) && !static_cast<const PadAttrs&>(*n.attrs).pairs && map_axes_input(n, r, r);
      case Op::kTableFind:
        return rewrite(n, n.attrs);
      case Op::kSliceSize:
        return slice_size(n, r);
      case Op::kSlice:
        return constant(n, 1) && map_axes_input(n, r, constant(n, 1)->elements());
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

  /// Takes a Transpose of channels-last images to channels-first ones for what it is. False for another node.
  bool turned(const Node& n) {
    const ValueId x = n.inputs[0], y = n.outputs[0];
    if (n.op != Op::kTranspose || n.inputs.size() != 1 || !permutable(y) || !wanted_[static_cast<size_t>(y)] ||
        constant_[static_cast<size_t>(x)] ||
        static_cast<const TransposeAttrs&>(*n.attrs).perm != channels_first_perm(rank(x)))
      return false;
    need_first(x);
    last_[static_cast<size_t>(y)] = x;
    ready_[static_cast<size_t>(y)] = 0;
    return true;
  }

  bool conv(const Node& n) {
    const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
    if (a.layout != Layout::kChannelsFirst || !one_output(n) || !permutable(n.outputs[0])) return false;
    if (!constant_[static_cast<size_t>(n.inputs[1])]) return false;
    if (n.op == Op::kConv && given(n, 2) && !constant_[static_cast<size_t>(n.inputs[2])]) return false;
    if (!has_last(n.inputs[0]) && (constant_[static_cast<size_t>(n.inputs[0])] || !gains_channels_last(g_, n)))
      return false;
    if (n.op == Op::kConvInteger &&
        (!one_element(given(n, 2) ? n.inputs[2] : kNoValue) || (given(n, 3) && !constant(n, 3))))
      return false;
    return (n.op != Op::kConvTranspose || !given(n, 3)) && relayout(n);
  }

  /// The channels-last form that a value has, or that it is a Transpose of; kNoValue if it is neither.
  ValueId existing_last(ValueId id) const {
    if (has_last(id)) return last_[static_cast<size_t>(id)];
    const int p = producer_[static_cast<size_t>(id)];
    if (p < 0) return kNoValue;
    const Node& before = g_.nodes[static_cast<size_t>(p)];
    const bool turns = before.op == Op::kTranspose && before.inputs.size() == 1 &&
                       static_cast<const TransposeAttrs&>(*before.attrs).perm == channels_first_perm(rank(id));
    return turns ? before.inputs[0] : kNoValue;
  }
  bool reshape(const Node& n) {
    const ValueId x = n.inputs[0], y = n.outputs[0];
    if (!permutable(y)) return false;
    const ValueId from = existing_last(x);
    std::vector<int64_t> target = from == kNoValue ? std::vector<int64_t>{} : channels_last_target(g_, n);
    if (target.empty()) return false;
    Node m = n;
    m.op = Op::kReshape;
    m.attrs = make_attrs<ReshapeAttrs>([] {
      ReshapeAttrs attrs;
      attrs.allow_zero = false;
      return attrs;
    }());
    m.inputs = {from, integers(target)};
    m.outputs = {output_last(y)};
    emit(std::move(m));
    return true;
  }

  /// Rewrites a node whose input 3 lists axes; absent, they are 0 to `count` - 1.
  bool map_axes_input(const Node& n, int r, int64_t count) {
    if (given(n, 3) && !constant(n, 3)) return false;
    std::vector<int64_t> axes;
    if (given(n, 3)) axes = ints_of(*constant(n, 3));
    for (int64_t i = 0; !given(n, 3) && i < count; ++i) axes.push_back(i);
    Node m = n;
    m.inputs.resize(std::max<size_t>(m.inputs.size(), 4), kNoValue);
    m.inputs[3] = integers(map_axes(std::move(axes), r));
    return rewrite(m, n.attrs);
  }
  bool slice_size(const Node& n, int r) {
    Node m = n;
    for (const size_t i : {1, 2}) {
      const Tensor* t = constant(n, i);
      if (!t || t->elements() != r) return false;
      const std::vector<int64_t> first = ints_of(*t);
      std::vector<int64_t> last;
      for (const int64_t axis : channels_last_perm(r)) last.push_back(first[static_cast<size_t>(axis)]);
      m.inputs[i] = integers(last);
    }
    return rewrite(m, n.attrs);
  }
  bool reduce(const Node& n, int r) {
    if (!constant(n, 1) || !one_output(n)) return false;
    std::vector<int64_t> axes = ints_of(*constant(n, 1));
    if (axes.empty()) return false;
    Node m = n;
    m.inputs[1] = integers(map_axes(axes, r));
    if (static_cast<const ReduceAttrs&>(*n.attrs).keep_dims) return rewrite(m, n.attrs);
    // The remaining dimensions must have the same order in both forms: all but the channels, or the channels alone.
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

  /// True if operand() can bring an operand of a Binary, whose result has r dimensions, to channels-last.
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
    return rank(id) == r && permutable(id);
  }
  /// The channels-last form of an operand that fits: a value of one element stays, a constant vector is reshaped.
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
      if (t->dim(i) != 1) shape[static_cast<int>(channels_last_axis(i + r - t->rank(), r))] = t->dim(i);
    Value v = g_.value(id);
    v.type.shape = shape;
    v.constant = std::make_shared<const Tensor>(t->reshaped(shape));
    return add(std::move(v));
  }
  bool binary(const Node& n) {
    const int r = permutable(n.outputs[0]) ? rank(n.outputs[0]) : -1;
    if (r < 0 || (!has_last(n.inputs[0]) && !has_last(n.inputs[1]))) return false;
    if (!operand_fits(n.inputs[0], r) || !operand_fits(n.inputs[1], r)) return false;
    Node m = n;
    for (ValueId& id : m.inputs) id = operand(id, r);
    m.outputs[0] = output_last(n.outputs[0]);
    emit(std::move(m));
    return true;
  }
  bool concat(const Node& n) {
    const int r = permutable(n.outputs[0]) ? rank(n.outputs[0]) : -1;
    if (r < 0) return false;
    size_t here = 0;
    for (ValueId id : n.inputs) {
      if (!permutable(id) || rank(id) != r) return false;
      here += has_last(id);
    }
    if (here * 2 < n.inputs.size() || here == 0) return false;
    Node m = n;
    m.attrs = op_info(n.op).channels_last(n.attrs, r);
    for (ValueId& id : m.inputs) id = to_last(id);
    m.outputs[0] = output_last(n.outputs[0]);
    emit(std::move(m));
    return true;
  }

  /// Rewrites a channel shuffle: Reshape to [n, g, c, spatial], Transpose to [n, c, g, spatial], Reshape to
  /// [n, c g, spatial]. `k` is the first node. False if the nodes are none.
  bool shuffle(const std::vector<Node>& nodes, size_t k) {
    const Node& split = nodes[k];
    if (split.op != Op::kReshape || !has_last(split.inputs[0]) || k + 2 >= nodes.size()) return false;
    const Node &swap = nodes[k + 1], &join = nodes[k + 2];
    const ValueId x = split.inputs[0];
    const int r = rank(x);
    if (swap.op != Op::kTranspose || join.op != Op::kReshape || swap.inputs[0] != split.outputs[0] ||
        join.inputs[0] != swap.outputs[0] || reads_[static_cast<size_t>(split.outputs[0])] != 1 ||
        reads_[static_cast<size_t>(swap.outputs[0])] != 1 || swap.inputs.size() > 1)
      return false;
    if (std::ranges::find(g_.outputs, split.outputs[0]) != g_.outputs.end() ||
        std::ranges::find(g_.outputs, swap.outputs[0]) != g_.outputs.end())
      return false;
    const ValueType from = type(x), mid = type(split.outputs[0]), to = type(join.outputs[0]);
    std::vector<int64_t> perm{0, 2, 1};
    for (int i = 3; i <= r; ++i) perm.push_back(i);
    if (static_cast<const TransposeAttrs&>(*swap.attrs).perm != perm || !from.is_static() || !mid.is_static() ||
        !to.is_static() || mid.shape.rank() != r + 1 || !(to.shape == from.shape) || mid.shape[0] != from.shape[0])
      return false;
    for (int i = 2; i < r; ++i)
      if (mid.shape[i + 1] != from.shape[i]) return false;
    // 0 keeps the batch dimension, which a caller may change.
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
  std::vector<int> reads_;      ///< reads of a value of the graph as it was, by nodes
  std::vector<char> wanted_;    ///< wanted_channels_last() of the graph as it was
  std::vector<ValueId> last_;   ///< channels-last form of a value, or kNoValue
  std::vector<char> ready_;     ///< the channels-first form exists
  std::vector<char> constant_;  ///< the value depends on constants alone
  std::vector<int> producer_;   ///< index of the node that writes the value, or -1
};

}  // namespace

void channels_last(Graph& graph) { ChannelsLast(graph).run(); }

}  // namespace smelt
