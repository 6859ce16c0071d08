// Folds what scales and shifts the channels of a product into its weights: batch normalization, layer scale, branches.
#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/common/real.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"
#include "passes/fuse/weighted.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/pages.h"

namespace smelt {

bool is_real(const Tensor& t) { return t.dtype() == DType::kF32 || t.dtype() == DType::kF16; }

ValueId add_constant(Pattern& in, DType dtype, const Shape& shape, std::span<const float> values) {
  Tensor t(dtype, shape);
  from_floats(values.data(), t);
  return add_constant(in, std::move(t));
}

ValueId add_constant(Pattern& in, Tensor t) {
  const ValueId id = in.add_value(ValueType::tensor(t.dtype(), t.shape()));
  in.graph().value(id).constant = std::make_shared<const Tensor>(std::move(t));
  return id;
}

std::optional<Affine> constant_batch_norm(const Pattern& in, const Node& n, int64_t channels) {
  if (n.op != Op::kBatchNorm || n.outputs.size() > 1) return std::nullopt;
  const auto& a = static_cast<const BatchNormAttrs&>(*n.attrs);
  if (a.training) return std::nullopt;
  std::vector<float> parts[4];
  for (int i = 1; i < 5; ++i) {
    const ValueId id = n.inputs[static_cast<size_t>(i)];
    auto& part = parts[i - 1];
    if (id == kNoValue) {
      part.assign(static_cast<size_t>(channels), i == 1 || i == 4 ? 1.0f : 0.0f);
      continue;
    }
    const Tensor* t = in.constant(id);
    if (!t || t->elements() != channels || !is_real(*t)) return std::nullopt;
    part = to_real_vector(*t);
  }
  Affine affine;
  for (int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const double s = parts[0][i] / std::sqrt(static_cast<double>(parts[3][i]) + a.epsilon);
    if (!std::isfinite(static_cast<float>(s))) return std::nullopt;
    affine.scale.push_back(static_cast<float>(s));
    affine.offset.push_back(static_cast<float>(parts[1][i] - parts[2][i] * s));
  }
  return affine;
}

namespace {

/// The order of weights, [outer, channels, inner]: output channels of one of `groups` blocks of the outermost
/// dimension.
struct WeightOrder {
  int64_t channels = 0, inner = 1, outer = 1, groups = 1;
};

/// Multiplies `count` weights, those from `first` on, by the factors of their output channels.
void scale_weights(const WeightOrder& order, const float* scale, int64_t first, int64_t count, float* values) {
  const int64_t block = order.outer / order.groups;
  int64_t o = first / order.inner / order.channels, c = first / order.inner % order.channels, i = first % order.inner;
  for (const float* const end = values + count; values < end; i = 0) {
    const float factor = scale[o / block * order.channels + c];
    const float* const stop = std::min<const float*>(end, values + (order.inner - i));
    while (values < stop) *values++ *= factor;
    if (++c == order.channels) c = 0, ++o;
  }
}
/// Weights times the factor of their output channel. Large ones are made when they are packed, and do not stay.
Tensor scaled_weights(const Tensor& w, const WeightOrder& order, std::span<const float> scale) {
  if (w.dtype() == DType::kF32 && w.bytes() > kWorthDeferring)
    return Tensor::deferred(DType::kF32, w.shape(), w,
                            [order, factors = std::vector(scale.begin(), scale.end())](
                                const Tensor& from, int64_t first, int64_t count, void* to) {
                              from.copy_elements(first, count, to);
                              scale_weights(order, factors.data(), first, count, static_cast<float*>(to));
                            });
  std::vector<float> values = to_real_vector(w);
  scale_weights(order, scale.data(), 0, w.elements(), values.data());
  Tensor t(w.dtype(), w.shape());
  from_floats(values.data(), t);
  return t;
}

/// The order of the weights of a node whose output channels are those that a BatchNorm of layout `layout` scales;
/// nullopt for another node.
std::optional<WeightOrder> weight_order(const Graph& g, const Node& n, const Tensor& w, Layout layout) {
  if (w.rank() == 0 || w.elements() == 0) return std::nullopt;
  WeightOrder order{.channels = w.dim(0), .inner = w.elements() / w.dim(0)};
  if (n.op == Op::kMatMul) {
    const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
    const ValueType& y = g.value(n.outputs[0]).type;
    const bool last = y.ranked && (y.shape.rank() == 2 || (y.shape.rank() > 2 && layout == Layout::kChannelsLast));
    if (w.rank() != 2 || !last || a.act.kind != ActKind::kNone || a.beta != 1 || a.dynamic_quant || a.row_block != 0 ||
        a.trans_batch_b)
      return std::nullopt;
    if (!a.transpose_b) order = {.channels = w.dim(1), .outer = w.dim(0)};
    return order;
  }
  if (n.op != Op::kConv && n.op != Op::kConvTranspose) return std::nullopt;
  const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
  if (a.act.kind != ActKind::kNone || a.layout != layout || a.dynamic_quant) return std::nullopt;
  const bool first = a.filter == FilterLayout::kOIS || a.filter == FilterLayout::kOSI;
  if (first && (n.op == Op::kConv || a.groups == 1)) return order;
  if (n.op == Op::kConv || a.filter != FilterLayout::kIOS || w.rank() < 2 || a.groups < 1 || w.dim(0) % a.groups != 0)
    return std::nullopt;
  return WeightOrder{w.dim(1), w.elements() / (w.dim(0) * w.dim(1)), w.dim(0), a.groups};
}

class ChannelFolder {
 public:
  explicit ChannelFolder(Graph& graph) : in_(graph), graph_(graph), first_made_(graph.values.size()) {}
  void run() {
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      const Node& n = graph_.nodes[k];
      if (n.outputs.empty() || n.outputs[0] == kNoValue || n.inputs.empty()) continue;
      if (n.op == Op::kBatchNorm && n.inputs[0] != kNoValue) {
        const Layout layout = static_cast<const BatchNormAttrs&>(*n.attrs).layout;
        fold(k, n.inputs[0], layout, [&](int64_t channels) { return constant_batch_norm(in_, n, channels); });
      } else if (n.op == Op::kBinary && in_.is_f32(n.outputs[0])) {
        if (auto made = parallel_convolutions(in_, n))
          in_.replace(k, std::move(*made));
        else
          fold_constant(k);
      } else if (auto made = added_to_input(in_, n)) {
        in_.replace(k, std::move(*made));
      }
    }
    drop_passing_constants();
  }

 private:
  /// Constant factors of more weights than these stay: each would be copied.
  static constexpr int64_t kMostScaled = 1 << 22;

  /// A node with weights and what it does to them, once it is folded.
  struct Target {
    size_t index = 0;
    WeightOrder order;
    int64_t first = 0;  ///< of the channels that the affine function is of
    int64_t channels() const { return order.channels * order.groups; }
  };

  std::optional<Target> target(ValueId id, Layout layout) const {
    const int k = in_.index_of_producer(id);
    if (k < 0 || !in_.has_one_use(id)) return std::nullopt;
    const Node& n = in_.node(k);
    if (n.inputs.size() < 2 || n.inputs[1] == kNoValue || n.outputs.size() != 1) return std::nullopt;
    const Tensor* w = in_.constant(n.inputs[1]);
    const bool has_bias = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
    const Tensor* b = has_bias ? in_.constant(n.inputs[2]) : nullptr;
    if (!w || !is_real(*w) || w->quant() || (has_bias && !(b && is_real(*b)))) return std::nullopt;
    const auto order = weight_order(graph_, n, *w, layout);
    if (!order) return std::nullopt;
    const int64_t channels = order->channels * order->groups;
    if (b && (b->rank() == 0 || b->elements() != channels || b->shape().back() != channels)) return std::nullopt;
    return Target{static_cast<size_t>(k), *order};
  }

  /// The nodes with weights that make the channels of a value, joined by a Concat or under another shape. `last`: the
  /// node between these and the value, or -1.
  std::vector<Target> targets(ValueId id, Layout layout, int& between) const {
    between = -1;
    if (auto one = target(id, layout)) return {*one};
    const int k = in_.index_of_producer(id);
    if (k < 0 || !in_.has_one_use(id)) return {};
    const Node& n = in_.node(k);
    if (n.outputs.size() != 1) return {};
    between = k;
    const Shape& y = in_.type(id).shape;
    if (n.op == Op::kReshape || n.op == Op::kFlatten) {
      if (!in_.is_f32(n.inputs[0]) || y.rank() < 2 || !(y.rank() == 2 || layout == Layout::kChannelsLast)) return {};
      const Shape& x = in_.type(n.inputs[0]).shape;
      auto one = x.rank() > 1 && x.back() > 0 && x.back() == y.back() ? target(n.inputs[0], Layout::kChannelsLast)
                                                                      : std::nullopt;
      return one && in_.node(static_cast<int>(one->index)).op == Op::kMatMul ? std::vector{*one}
                                                                             : std::vector<Target>{};
    }
    if (n.op != Op::kConcat || !in_.is_f32(id)) return {};
    const int64_t axis = static_cast<const AxisAttrs&>(*n.attrs).axis,
                  channels = layout == Layout::kChannelsFirst ? 1 : -1;
    if (axis != channels && axis != channels + (channels < 0 ? y.rank() : -y.rank())) return {};
    std::vector<Target> all;
    int64_t first = 0;
    for (const ValueId part : n.inputs) {
      auto one = target(part, layout);
      if (!one) return {};
      one->first = first;
      first += one->channels();
      all.push_back(*one);
    }
    return all;
  }

  /// Folds the affine function of node k, of the channels of x, into the weights that make them.
  void fold(size_t k, ValueId x, Layout layout, const std::function<std::optional<Affine>(int64_t)>& affine_of,
            int64_t most = INT64_MAX) {
    int between = -1;
    const std::vector<Target> all = targets(x, layout, between);
    if (all.empty()) return;
    int64_t channels = 0, weights = 0;
    for (const Target& t : all) {
      channels += t.channels();
      weights += in_.constant(graph_.nodes[t.index].inputs[1])->elements();
    }
    const auto affine = weights > most ? std::nullopt : affine_of(channels);
    if (!affine) return;
    Node n = graph_.nodes[k];
    for (const Target& t : all) {
      Node both = scaled(t, *affine);
      if (between < 0) {
        both.outputs = n.outputs;
        both.origin = both.origin + "+" + n.origin;
        in_.replace(k, std::move(both));
        return;
      }
      in_.replace(t.index, std::move(both));
    }
    Node last = graph_.nodes[static_cast<size_t>(between)];
    last.outputs = n.outputs;
    in_.replace(k, std::move(last));
  }

  Node scaled(const Target& t, const Affine& affine) {
    Node n = graph_.nodes[t.index];
    const std::shared_ptr<const Tensor> w = graph_.value(n.inputs[1]).constant;
    const Tensor* b = n.inputs.size() > 2 ? in_.constant(n.inputs[2]) : nullptr;
    const float *scale = affine.scale.data() + t.first, *offset = affine.offset.data() + t.first;
    std::vector<float> bias = b ? to_real_vector(*b) : std::vector<float>(static_cast<size_t>(t.channels()));
    for (size_t c = 0; c < bias.size(); ++c) bias[c] = bias[c] * scale[c] + offset[c];
    if (std::ranges::any_of(scale, scale + t.channels(), [](float s) { return s != 1; })) {
      n.inputs[1] = add_constant(in_, scaled_weights(*w, t.order, {scale, bias.size()}));
    }
    n.inputs.resize(std::max<size_t>(n.inputs.size(), 3), kNoValue);
    n.inputs[2] = add_constant(in_, w->dtype(), Shape{t.channels()}, bias);
    return n;
  }

  /// The layout of a value whose channels a constant operand has one number for; nullopt for another operand.
  std::optional<Layout> layout_of(const Tensor& c, ValueId x) const {
    if (c.elements() < 2) return std::nullopt;
    for (const Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst})
      if (is_of_channels(in_, c, x, c.elements(), layout)) return layout;
    return std::nullopt;
  }

  /// Folds a Binary with a constant that has one number a channel.
  void fold_constant(size_t k) {
    const Node& n = graph_.nodes[k];
    const auto& a = static_cast<const BinaryAttrs&>(*n.attrs);
    if (a.act.kind != ActKind::kNone || a.alpha != 1 || n.inputs.size() != 2) return;
    const bool commutes = a.fn == Binary::kAdd || a.fn == Binary::kMul;
    if (!commutes && a.fn != Binary::kSub && a.fn != Binary::kDiv) return;
    for (size_t i = 0; i < (commutes ? 2u : 1u); ++i) {
      const ValueId x = n.inputs[i];
      const Tensor* c = in_.constant(n.inputs[1 - i]);
      if (!c || in_.constant(x) || !in_.is_f32(x)) continue;
      const auto layout = layout_of(*c, x);
      if (!layout) continue;
      const bool factor = a.fn == Binary::kMul || a.fn == Binary::kDiv;
      const auto affine = [&](int64_t channels) -> std::optional<Affine> {
        if (c->elements() != channels) return std::nullopt;
        std::vector<float> values = to_real_vector(*c);
        if (a.fn == Binary::kDiv)
          for (float& v : values) v = 1 / v;
        if (a.fn == Binary::kSub)
          for (float& v : values) v = -v;
        if (factor && !std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) return std::nullopt;
        std::vector<float> other(values.size(), factor ? 0.0f : 1.0f);
        return factor ? Affine{std::move(values), std::move(other)} : Affine{std::move(other), std::move(values)};
      };
      return fold(k, x, *layout, affine, factor ? kMostScaled : INT64_MAX);
    }
  }

  /// Frees what was made on the way to other weights.
  void drop_passing_constants() {
    remove_dead_nodes(graph_);
    const std::vector<int> uses = count_uses(graph_);
    for (size_t i = first_made_; i < uses.size(); ++i)
      if (uses[i] == 0) graph_.values[i].constant.reset();
  }

  Pattern in_;
  Graph& graph_;
  size_t first_made_;
};

}  // namespace

void fuse_batch_norm(Graph& graph) { ChannelFolder(graph).run(); }

}  // namespace smelt
