#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/conv/geometry.h"
#include "ops/core/op.h"
#include "ops/pool/pool.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// True if a Pad adds zeros (quantized: zero points) and keeps element type and quantization parameters.
bool pads_with_zeros(const Graph& g, const Node& pad) {
  if (static_cast<const PadAttrs&>(*pad.attrs).mode != PadAttrs::Mode::kConstant) return false;
  const ValueType &x = g.value(pad.inputs[0]).type, &y = g.value(pad.outputs[0]).type;
  if (x.dtype != y.dtype || (x.quant || y.quant ? !same_per_tensor(x.quant, y.quant) : x.dtype != DType::kF32)) {
    return false;
  }
  if (pad.inputs.size() < 3 || pad.inputs[2] == kNoValue) return true;
  const Tensor* value = g.value(pad.inputs[2]).constant.get();
  return value && value->dtype() == x.dtype && value->elements() == 1 &&
         get_double(*value, 0) == (x.quant ? x.quant->zero_point() : 0);
}

/// True if a Pad adds what is no greater than any element: the least finite number or less, of integers the least one.
bool pads_with_least(const Graph& g, const Node& pad) {
  if (static_cast<const PadAttrs&>(*pad.attrs).mode != PadAttrs::Mode::kConstant) return false;
  const ValueType &x = g.value(pad.inputs[0]).type, &y = g.value(pad.outputs[0]).type;
  if (x.dtype != y.dtype || pad.inputs.size() < 3 || pad.inputs[2] == kNoValue) return false;
  if (x.quant || y.quant ? !same_per_tensor(x.quant, y.quant) : x.dtype != DType::kF32) return false;
  const Tensor* value = g.value(pad.inputs[2]).constant.get();
  if (!value || value->dtype() != x.dtype || value->elements() != 1) return false;
  const double least = x.quant ? static_cast<double>(int_min(x.dtype)) : std::numeric_limits<float>::lowest();
  return get_double(*value, 0) <= least;
}

/// Elements that a Pad of `rank` dimensions adds: at the begin of each dimension, then at the ends. nullopt if they are
/// not constant or negative.
std::optional<std::vector<int64_t>> border(const Graph& g, const Node& pad, int rank) {
  const auto constant = [&](size_t i) -> const Tensor* {
    return i < pad.inputs.size() && pad.inputs[i] != kNoValue ? g.value(pad.inputs[i]).constant.get() : nullptr;
  };
  const bool has_axes = pad.inputs.size() > 3 && pad.inputs[3] != kNoValue;
  const Tensor *pads = constant(1), *axes = constant(3);
  if (!pads || (has_axes && !axes)) return std::nullopt;
  const int64_t n = axes ? axes->elements() : rank;
  if (pads->elements() != 2 * n) return std::nullopt;
  const bool pairs = static_cast<const PadAttrs&>(*pad.attrs).pairs;
  std::vector<int64_t> all(static_cast<size_t>(2 * rank), 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t axis = axes ? get_int(*axes, i) : i;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    all[static_cast<size_t>(axis)] = get_int(*pads, pairs ? 2 * i : i);
    all[static_cast<size_t>(axis + rank)] = get_int(*pads, pairs ? 2 * i + 1 : n + i);
  }
  if (std::ranges::any_of(all, [](int64_t p) { return p < 0; })) return std::nullopt;
  return all;
}

/// The most padding that is worth it along spatial dimension i: more only gives outputs that see nothing else.
int64_t most_padding(const ConvAttrs& conv, const ValueType& filter, size_t i) {
  constexpr int64_t kAlways = 16;
  if (!filter.ranked || filter.shape.rank() < 3) return kAlways;
  const int axis = filter_dims(conv.filter, filter.shape.rank()).spatial + static_cast<int>(i);
  return std::max(kAlways, (filter.shape[axis] - 1) * (i < conv.dilations.size() ? conv.dilations[i] : 1));
}

/// Elements in front of a dimension and behind it.
struct Sides {
  int64_t before, after;
};

/// The attributes of a convolution or pool with the border added to its padding; nullptr if they can't express it.
/// `fits`(spatial dimension, its padding, what the border adds): false where the two may not be added.
template <class A, class Fits>
AttrsPtr with_border(const A& attrs, const std::vector<int64_t>& border, Fits fits) {
  if (attrs.auto_pad != AutoPad::kExplicit && attrs.auto_pad != AutoPad::kValid) return nullptr;
  const size_t rank = border.size() / 2, first = attrs.layout == Layout::kChannelsLast ? 1 : 2;
  if (rank < 3) return nullptr;
  A fused = attrs;
  if (attrs.auto_pad == AutoPad::kValid || attrs.pads.empty()) fused.pads.assign(2 * (rank - 2), 0);
  if (fused.pads.size() != 2 * (rank - 2)) return nullptr;
  fused.auto_pad = AutoPad::kExplicit;
  for (size_t i = 0; i < rank; ++i) {
    const Sides more{border[i], border[i + rank]};
    const bool spatial = i >= first && i < first + rank - 2;
    if (!spatial && (more.before != 0 || more.after != 0)) return nullptr;
    if (!spatial) continue;
    int64_t &before = fused.pads[i - first], &after = fused.pads[i - first + rank - 2];
    if (!fits(i - first, Sides{before, after}, more)) return nullptr;
    before += more.before;
    after += more.after;
  }
  return make_attrs<A>(fused);
}

AttrsPtr with_border(const ConvAttrs& conv, const ValueType& filter, const std::vector<int64_t>& border) {
  return with_border(conv, border, [&](size_t d, Sides padding, Sides more) {
    return padding.before >= 0 && padding.after >= 0 &&  // negative padding crops
           std::max(more.before, more.after) <= most_padding(conv, filter, d);
  });
}

/// A convolution with the Pad with zeros before it.
AttrsPtr padded_conv(const Graph& g, const Node& pad, const Node& n) {
  const ValueType& y = g.value(n.inputs[0]).type;
  if (!y.ranked || !pads_with_zeros(g, pad)) return nullptr;
  const auto added = border(g, pad, y.shape.rank());
  return added ? with_border(static_cast<const ConvAttrs&>(*n.attrs), g.value(n.inputs[1]).type, *added) : nullptr;
}

/// A pool of maxima with the Pad with the least value before it: each window of the result still sees an element of the
/// image. Averages that count padding are slower than both nodes.
AttrsPtr padded_pool(const Graph& g, const Node& pad, const Node& n) {
  const auto& a = static_cast<const PoolAttrs&>(*n.attrs);
  const ValueType& y = g.value(n.inputs[0]).type;
  const bool indices = n.outputs.size() > 1 && n.outputs[1] != kNoValue;
  if (!y.ranked || indices || a.kind != PoolKind::kMax || !pads_with_least(g, pad)) return nullptr;
  const auto added = border(g, pad, y.shape.rank());
  if (!added || a.global || a.ceil_mode || a.kernel.size() + 2 != added->size() / 2) return nullptr;
  return with_border(a, *added, [&](size_t d, Sides padding, Sides more) {
    if (more.before == 0 && more.after == 0) return true;
    if (padding.before < 0 || padding.after < 0 || (d < a.dilations.size() && a.dilations[d] != 1)) return false;
    const int64_t window = a.kernel[d];
    return more.before < window && padding.before < window - more.before && more.after < window &&
           padding.after < window - more.after;
  });
}

/// The dimension of y for each of x where y has the same ones but for extents of 1, which have none (-1); nullopt where
/// it has others. Both are static.
std::optional<std::vector<int>> without_ones(const Shape& x, const Shape& y) {
  std::vector<int> axes(static_cast<size_t>(x.rank()), -1);
  int at = 0;
  const auto next = [&] {
    while (at < y.rank() && y[at] == 1) ++at;
  };
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] == 1) continue;
    next();
    if (at == y.rank() || y[at] != x[i]) return std::nullopt;
    axes[static_cast<size_t>(i)] = at++;
  }
  next();
  return at == y.rank() ? std::optional(axes) : std::nullopt;
}

/// Folds a Pad with zeros before a Reshape, Unsqueeze or Squeeze that adds or drops dimensions of 1 into the
/// convolution behind it, as Conv1D of TFLite has it: the Reshape comes first. Each is the only user of the one before.
class ReshapedPads {
 public:
  explicit ReshapedPads(Graph& graph) : g_(graph), uses_(count_uses(graph)), producer_(graph.values.size(), -1) {
    for (size_t k = 0; k < g_.nodes.size(); ++k)
      for (const ValueId id : g_.nodes[k].outputs)
        if (id != kNoValue) producer_[static_cast<size_t>(id)] = static_cast<int>(k);
  }
  void fold(Node& conv) {
    Node* reshape = nullptr;
    for (const Op op : {Op::kReshape, Op::kUnsqueeze, Op::kSqueeze})
      if (!reshape) reshape = producer(conv, op);
    const Node* pad = reshape ? producer(*reshape, Op::kPad) : nullptr;
    if (!pad || !pads_with_zeros(g_, *pad) || reshape->inputs.size() < 2) return;
    const ValueType &x = g_.value(pad->inputs[0]).type, &y = g_.value(pad->outputs[0]).type;
    const ValueType& to = g_.value(reshape->outputs[0]).type;
    if (!x.is_static() || !y.is_static() || !to.is_static()) return;
    const auto added = border(g_, *pad, y.shape.rank());
    const auto axes = added ? without_ones(y.shape, to.shape) : std::nullopt;
    if (!axes) return;
    const auto rank = static_cast<size_t>(to.shape.rank());
    std::vector<int64_t> moved(2 * rank, 0);
    Shape shape = to.shape;
    for (size_t i = 0; i < axes->size(); ++i) {
      const int axis = (*axes)[i];
      if (axis < 0 && (*added)[i] + (*added)[i + axes->size()] > 0) return;
      if (axis < 0) continue;
      shape[axis] = x.shape[static_cast<int>(i)];
      moved[static_cast<size_t>(axis)] = (*added)[i];
      moved[static_cast<size_t>(axis) + rank] = (*added)[i + axes->size()];
    }
    AttrsPtr attrs = with_border(static_cast<const ConvAttrs&>(*conv.attrs), g_.value(conv.inputs[1]).type, moved);
    if (!attrs) return;
    const ValueType type = ValueType::tensor(to.dtype, shape, to.quant);  // values move as some are added
    conv.attrs = std::move(attrs);
    conv.origin = pad->origin + "+" + conv.origin;
    reshape->inputs[0] = pad->inputs[0];
    if (reshape->op == Op::kReshape) reshape->inputs[1] = add_value(constant_integers({shape.begin(), shape.end()}));
    reshape->outputs[0] = conv.inputs[0] = add_value({.type = type});
  }

 private:
  /// The node of that operator that makes input 0 of `n` and is read by nothing else.
  Node* producer(const Node& n, Op op) {
    const ValueId x = n.inputs[0];
    const int k = x == kNoValue || uses_[static_cast<size_t>(x)] != 1 ? -1 : producer_[static_cast<size_t>(x)];
    return k >= 0 && g_.nodes[static_cast<size_t>(k)].op == op ? &g_.nodes[static_cast<size_t>(k)] : nullptr;
  }
  ValueId add_value(Value value) {
    uses_.push_back(1);
    producer_.push_back(-1);
    return g_.add_value(std::move(value));
  }

  Graph& g_;
  std::vector<int> uses_, producer_;
};

}  // namespace

void fuse_pads(Graph& graph) {
  ReshapedPads reshaped(graph);
  for (Node& n : graph.nodes)
    if (n.op == Op::kConv) reshaped.fold(n);
  fuse_into_producers(graph, [&](const Node& before, const Node& n) -> std::optional<Node> {
    if (before.op != Op::kPad) return std::nullopt;
    AttrsPtr attrs = n.op == Op::kConv   ? padded_conv(graph, before, n)
                     : n.op == Op::kPool ? padded_pool(graph, before, n)
                                         : nullptr;
    if (!attrs) return std::nullopt;
    Node fused = n;
    fused.attrs = std::move(attrs);
    fused.inputs[0] = before.inputs[0];
    return fused;
  });
}

}  // namespace smelt
