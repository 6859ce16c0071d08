#include <cmath>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
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

/// A Conv that does the work of `conv` and the BatchNorm `n` behind it; nullopt if they can't be fused.
std::optional<Node> fused(Graph& graph, const Node& conv, const Node& n) {
  if (n.op != Op::kBatchNorm || conv.op != Op::kConv || conv.inputs[1] == kNoValue) return std::nullopt;
  const auto& a = static_cast<const ConvAttrs&>(*conv.attrs);
  const Tensor* w = graph.value(conv.inputs[1]).constant.get();
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] != kNoValue;
  const Tensor* b = has_bias ? graph.value(conv.inputs[2]).constant.get() : nullptr;
  // The filter's first dimension must be the output channels.
  if (!w || !is_real(*w) || w->rank() == 0 || (a.filter != FilterLayout::kOIS && a.filter != FilterLayout::kOSI) ||
      a.act.kind != ActKind::kNone || (has_bias && !(b && is_real(*b))))
    return std::nullopt;
  const int64_t channels = w->dim(0), inner = channels ? w->elements() / channels : 0;
  Affine affine;
  if (!as_affine(graph, n, channels, affine)) return std::nullopt;
  std::vector<float> filter = floats(*w), bias = b ? floats(*b) : std::vector<float>(affine.scale.size());
  for (int64_t c = 0; c < channels; ++c) {
    const float s = affine.scale[static_cast<size_t>(c)];
    for (int64_t i = 0; i < inner; ++i) filter[static_cast<size_t>(c * inner + i)] *= s;
    float& to = bias[static_cast<size_t>(c)];
    to = to * s + affine.offset[static_cast<size_t>(c)];
  }
  const auto constant = [&graph, dtype = w->dtype()](const std::vector<float>& values, const Shape& shape) {
    Tensor t(dtype, shape);
    from_floats(values.data(), t);
    return graph.add_value({.name = "",
                            .type = ValueType::tensor(dtype, shape),
                            .constant = std::make_shared<const Tensor>(std::move(t))});
  };
  Node both = conv;
  const ValueId filter_id = constant(filter, w->shape());
  const ValueId bias_id = constant(bias, Shape{channels});
  both.inputs = {conv.inputs[0], filter_id, bias_id};
  return both;
}

}  // namespace

void fuse_batch_norm(Graph& graph) {
  fuse_into_producers(graph, [&](const Node& before, const Node& n) { return fused(graph, before, n); });
}

}  // namespace smelt
