#include <algorithm>
#include <cmath>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// y = scale * x + offset for each channel.
struct Affine {
  std::vector<float> scale, offset;
};

bool is_real(const Tensor& t) { return t.dtype() == DType::kF32 || t.dtype() == DType::kF16; }

std::vector<float> floats(const Tensor& t) {
  std::vector<float> v(static_cast<size_t>(t.elements()));
  to_floats(t, v.data());
  return v;
}

/// Sets `affine` to what a BatchNorm with constant statistics does; false if it is none.
bool as_affine(const Graph& g, const Node& n, int64_t channels, Affine& affine) {
  if (n.op != Op::kBatchNorm || n.outputs.size() > 1) return false;
  const auto& a = static_cast<const BatchNormAttrs&>(*n.attrs);
  if (a.training) return false;
  std::vector<float> parts[4];
  for (int i = 1; i < 5; ++i) {
    const ValueId id = n.inputs[static_cast<size_t>(i)];
    auto& part = parts[i - 1];
    if (id == kNoValue) {
      part.assign(static_cast<size_t>(channels), i == 1 || i == 4 ? 1.0f : 0.0f);
      continue;
    }
    const Tensor* t = g.value(id).constant.get();
    if (!t || t->elements() != channels || !is_real(*t)) return false;
    part = floats(*t);
  }
  for (int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const double s = parts[0][i] / std::sqrt(static_cast<double>(parts[3][i]) + a.epsilon);
    affine.scale.push_back(static_cast<float>(s));
    affine.offset.push_back(static_cast<float>(parts[1][i] - parts[2][i] * s));
  }
  return true;
}

/// The output channel of each weight, [outer, channels, inner], of one of `groups` blocks of the outermost dimension.
struct WeightOrder {
  int64_t channels = 0, inner = 1, outer = 1, groups = 1;
  int64_t channel(int64_t i) const {
    const int64_t group = i / (channels * inner) / (outer / groups);
    return group * channels + i / inner % channels;
  }
};

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

/// A node with weights that does the work of `before` and the BatchNorm `n` behind it; nullopt if they can't be fused.
std::optional<Node> fused(Graph& graph, const Node& before, const Node& n) {
  if (n.op != Op::kBatchNorm || before.inputs.size() < 2 || before.inputs[1] == kNoValue) return std::nullopt;
  const Tensor* w = graph.value(before.inputs[1]).constant.get();
  const bool has_bias = before.inputs.size() > 2 && before.inputs[2] != kNoValue;
  const Tensor* b = has_bias ? graph.value(before.inputs[2]).constant.get() : nullptr;
  if (!w || !is_real(*w) || (has_bias && !(b && is_real(*b)))) return std::nullopt;
  const auto order = weight_order(graph, before, *w, static_cast<const BatchNormAttrs&>(*n.attrs).layout);
  if (!order) return std::nullopt;
  const int64_t channels = order->channels * order->groups;
  Affine affine;
  const bool row = !b || (b->rank() > 0 && b->elements() == channels && b->shape().back() == channels);
  if (!row || !as_affine(graph, n, channels, affine)) return std::nullopt;
  std::vector<float> filter = floats(*w), bias = b ? floats(*b) : std::vector<float>(affine.scale.size());
  for (int64_t i = 0; i < w->elements(); ++i)
    filter[static_cast<size_t>(i)] *= affine.scale[static_cast<size_t>(order->channel(i))];
  for (size_t c = 0; c < bias.size(); ++c) bias[c] = bias[c] * affine.scale[c] + affine.offset[c];
  const auto constant = [&graph, dtype = w->dtype()](const std::vector<float>& values, const Shape& shape) {
    Tensor t(dtype, shape);
    from_floats(values.data(), t);
    return graph.add_value({.name = "",
                            .type = ValueType::tensor(dtype, shape),
                            .constant = std::make_shared<const Tensor>(std::move(t))});
  };
  Node both = before;
  both.inputs[1] = constant(filter, w->shape());
  both.inputs.resize(std::max<size_t>(both.inputs.size(), 3), kNoValue);
  both.inputs[2] = constant(bias, Shape{channels});
  return both;
}

}  // namespace

void fuse_batch_norm(Graph& graph) {
  fuse_into_producers(graph, [&](const Node& before, const Node& n) { return fused(graph, before, n); });
}

}  // namespace smelt
