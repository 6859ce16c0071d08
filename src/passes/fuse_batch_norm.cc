#include <cmath>

#include "ops/conv/conv.h"
#include "ops/normalization/normalization.h"
#include "ops/op.h"
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

bool as_affine(const Graph& g, const Node& n, int64_t channels, Affine& affine) {
  if (n.op != Op::kBatchNorm || n.outputs.size() > 1) return false;
  const auto& a = static_cast<const BatchNormAttrs&>(*n.attrs);
  if (a.training) return false;
  std::vector<float> parts[4];
  for (int i = 1; i < 5; ++i) {
    const ValueId id = n.inputs[static_cast<size_t>(i)];
    auto& part = parts[i - 1];
    if (id == kNone) {
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

}  // namespace

void fuse_batch_norm(Graph& graph) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<int> producer(graph.values.size(), -1);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    Node& n = graph.nodes[k];
    const ValueId x = n.inputs.empty() ? kNone : n.inputs[0];
    const int from = x == kNone ? -1 : producer[static_cast<size_t>(x)];
    if (n.op == Op::kBatchNorm && from >= 0 && uses[static_cast<size_t>(x)] == 1) {
      const Node& conv = graph.nodes[static_cast<size_t>(from)];
      const auto* a = conv.op == Op::kConv ? static_cast<const ConvAttrs*>(conv.attrs.get()) : nullptr;
      const Tensor* w = a && conv.inputs[1] != kNone ? graph.value(conv.inputs[1]).constant.get() : nullptr;
      const bool has_bias = a && conv.inputs.size() > 2 && conv.inputs[2] != kNone;
      const Tensor* b = has_bias ? graph.value(conv.inputs[2]).constant.get() : nullptr;
      // The filter's first dimension must be the output channels.
      const bool fits = w && is_real(*w) && (a->filter == FilterLayout::kOIS || a->filter == FilterLayout::kOSI) &&
                        a->act.kind == ActKind::kNone && (!has_bias || (b && is_real(*b))) && w->rank() > 0;
      Affine affine;
      if (fits && as_affine(graph, n, w->dim(0), affine)) {
        const int64_t channels = w->dim(0), inner = channels ? w->elements() / channels : 0;
        std::vector<float> filter = floats(*w), bias = b ? floats(*b) : std::vector<float>(affine.scale.size());
        for (int64_t c = 0; c < channels; ++c) {
          const float s = affine.scale[static_cast<size_t>(c)];
          for (int64_t i = 0; i < inner; ++i) filter[static_cast<size_t>(c * inner + i)] *= s;
          float& to = bias[static_cast<size_t>(c)];
          to = to * s + affine.offset[static_cast<size_t>(c)];
        }
        Node fused = conv;
        const DType dtype = w->dtype();
        const auto constant = [&](const std::vector<float>& values, const Shape& shape) {
          Tensor t(dtype, shape);
          from_floats(values.data(), t);
          ValueType type = ValueType::tensor(dtype, shape);
          producer.push_back(-1);
          return graph.add_value(
              {.name = "", .type = std::move(type), .constant = std::make_shared<const Tensor>(std::move(t))});
        };
        const ValueId filter_id = constant(filter, w->shape());
        const ValueId bias_id = constant(bias, Shape{channels});
        fused.inputs = {conv.inputs[0], filter_id, bias_id};
        fused.outputs = n.outputs;
        fused.origin += "+" + n.origin;
        n = std::move(fused);
      }
    }
    for (ValueId id : n.outputs)
      if (id != kNone) producer[static_cast<size_t>(id)] = static_cast<int>(k);
  }
  remove_dead_nodes(graph);
}

}  // namespace smelt
