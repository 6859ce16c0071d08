// What exporters make of a product of rows that are quantized at run time: integer accumulators, converted and rescaled
// by further nodes.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/common/quantized_pair.h"
#include "ops/conv/conv.h"
#include "ops/conv/conv_shape.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/recurrent/recurrent.h"
#include "passes/fuse/pattern.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// True for a Recurrent whose products see 8-bit values.
bool rounds_states(const Node& n) {
  return n.op == Op::kRecurrent && static_cast<const RecurrentAttrs&>(*n.attrs).dynamic_quantization;
}

bool is_one_number(const ValueType& t, DType dtype) {
  return t.dtype == dtype && !t.quant && t.is_static() && t.shape.elements() == 1 && t.shape.rank() <= 1;
}

/// The constant weights of a MatMulInteger or ConvInteger with their scales as quantization parameters; kNoValue: not
/// of that kind. `axis`: the weights' dimension of the output channels.
ValueId quantized_weights(Pattern& in, const Node& product, const Tensor& scales, int axis) {
  const Tensor* w = in.constant(product.inputs[1]);
  if (!w || axis >= w->rank() || !is_8bit(w->dtype()) || w->quant()) return kNoValue;
  const int64_t columns = w->shape()[axis];
  const Tensor* zeros = product.inputs.size() > 3 ? in.constant(product.inputs[3]) : nullptr;
  if (product.inputs.size() > 3 && product.inputs[3] != kNoValue && !zeros) return kNoValue;
  const auto one_or_each = [&](const Tensor& t) {
    return t.elements() == 1 || (t.elements() == columns && t.shape().back() == columns);
  };
  if (scales.dtype() != DType::kF32 || !one_or_each(scales) || (zeros && !one_or_each(*zeros))) return kNoValue;
  auto quant = std::make_shared<Quantization>();
  const int64_t count = std::max(scales.elements(), zeros ? zeros->elements() : 1);
  for (int64_t i = 0; i < count; ++i) {
    const float scale = scales.data<float>()[scales.elements() == 1 ? 0 : i];
    if (!std::isnormal(scale) || scale < 0) return kNoValue;
    quant->scales.push_back(scale);
    quant->zero_points.push_back(zeros ? static_cast<int32_t>(get_int(*zeros, zeros->elements() == 1 ? 0 : i)) : 0);
  }
  if (count > 1) {
    quant->kind = Quantization::Kind::kPerAxis;
    quant->axis = axis;
  }
  auto tensor = std::make_shared<Tensor>(*w);
  tensor->set_quant(quant);
  const ValueId id = in.add_value(ValueType::tensor(w->dtype(), w->shape(), quant));
  in.graph().value(id).constant = std::move(tensor);
  return id;
}

/// Cast(MatMulInteger(a, w, zero of a, zeros of w)) * (scale of a * scales of w) as MatMul with parameters of a.
std::optional<Node> rescaled_product(Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kMul)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* cast = in.producer(n.inputs[i], Op::kCast);
    const Node* scale = in.binary(n.inputs[1 - i], Binary::kMul);
    if (!cast || !scale || !in.has_one_use(n.inputs[i])) continue;
    const Node* product = in.producer(cast->inputs[0], Op::kMatMulInteger);
    if (!product || !in.has_one_use(cast->inputs[0]) || product->inputs.size() < 3 || product->inputs[2] == kNoValue)
      continue;
    const ValueType& a = in.type(product->inputs[0]);
    if (!is_8bit(a.dtype) || a.quant || !a.ranked || a.shape.rank() < 2 ||
        !is_one_number(in.type(product->inputs[2]), a.dtype))
      continue;
    for (size_t j = 0; j < 2; ++j) {
      const Tensor* scales = in.constant(scale->inputs[j]);
      if (!scales || in.constant(scale->inputs[1 - j]) || !is_one_number(in.type(scale->inputs[1 - j]), DType::kF32))
        continue;
      const Tensor* weights = in.constant(product->inputs[1]);
      if (!weights || weights->rank() != 2 || scales->rank() > 1) continue;
      const ValueId w = quantized_weights(in, *product, *scales, 1);
      if (w == kNoValue) continue;
      Node made = n;
      made.op = Op::kMatMul;
      made.attrs = make_attrs<MatMulAttrs>();
      made.inputs = {product->inputs[0], w, kNoValue, scale->inputs[1 - j], product->inputs[2]};
      made.origin = "MatMulInteger+Mul";
      return made;
    }
  }
  return std::nullopt;
}

/// Such a MatMul and the constant row that `n` adds to it.
std::optional<Node> with_bias(const Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kAdd)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const int k = in.index_of_producer(n.inputs[i]);
    const Node* product = k >= 0 && in.node(k).op == Op::kMatMul ? &in.node(k) : nullptr;
    const Tensor* bias = in.constant(n.inputs[1 - i]);
    if (!product || product->inputs.size() != 5 || product->inputs[2] != kNoValue || !in.has_one_use(n.inputs[i]))
      continue;
    const int64_t columns = in.type(product->inputs[1]).shape[1];
    if (!bias || bias->dtype() != DType::kF32 || bias->rank() != 1 || bias->elements() != columns) continue;
    Node made = *product;
    made.inputs[2] = n.inputs[1 - i];
    made.outputs = n.outputs;
    made.origin = "MatMulInteger+Mul+Add";
    return made;
  }
  return std::nullopt;
}

/// Cast(ConvInteger(x, w, zero of x, zeros of w)) * (scale of x * scales of w), images channels-last, as ConvInteger of
/// quantized filters.
std::optional<Node> rescaled_convolution(Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kMul)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* cast = in.producer(n.inputs[i], Op::kCast);
    const Node* scale = in.binary(n.inputs[1 - i], Binary::kMul);
    const int k = cast && scale && in.has_one_use(n.inputs[i]) ? in.index_of_producer(cast->inputs[0]) : -1;
    if (k < 0 || in.node(k).op != Op::kConvInteger || !in.has_one_use(cast->inputs[0])) continue;
    const Node& conv = in.node(k);
    const auto& a = static_cast<const ConvAttrs&>(*conv.attrs);
    const Tensor* weights = in.constant(conv.inputs[1]);
    const ValueType& y = in.type(conv.outputs[0]);
    if (a.layout != Layout::kChannelsLast || !weights || !y.ranked) continue;
    const int axis = filter_output_axis(a, weights->rank());
    if (weights->dim(axis) != y.shape.back()) continue;
    for (size_t j = 0; j < 2; ++j) {
      const Tensor* scales = in.constant(scale->inputs[j]);
      if (!scales || in.constant(scale->inputs[1 - j]) || !is_one_number(in.type(scale->inputs[1 - j]), DType::kF32))
        continue;
      const ValueId w = quantized_weights(in, conv, *scales, axis);
      if (w == kNoValue) continue;
      Node made = conv;
      made.inputs = {conv.inputs[0], w, conv.inputs.size() > 2 ? conv.inputs[2] : kNoValue, scale->inputs[1 - j]};
      made.outputs = n.outputs;
      made.origin = "ConvInteger+Mul";
      return made;
    }
  }
  return std::nullopt;
}

/// An LSTM whose products see 8-bit values, with the quantized weights that its real ones are made of.
std::optional<Node> quantized_recurrence(const Pattern& in, const Node& n) {
  if (!rounds_states(n)) return std::nullopt;
  Node made = n;
  for (const size_t i : {1, 2}) {
    const Node* reshape = in.producer(n.inputs[i], Op::kReshape);
    const Node* real = reshape ? in.producer(reshape->inputs[0], Op::kDequantize) : nullptr;
    if (!real) return std::nullopt;
    const ValueType &w = in.type(n.inputs[i]), &q = in.type(real->inputs[0]);
    if (!in.constant(real->inputs[0]) || !is_8bit(q.dtype) || !q.quant || !w.is_static() || w.shape.rank() != 3 ||
        !q.is_static() || q.shape != Shape{w.shape[0] * w.shape[1], w.shape[2]})
      return std::nullopt;
    made.inputs[i] = real->inputs[0];
  }
  return made;
}

bool fuse_integer_products(Graph& graph) {
  Pattern in(graph);
  bool changed = false;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    auto made = rescaled_product(in, graph.nodes[k]);
    if (!made) made = with_bias(in, graph.nodes[k]);
    if (!made) made = rescaled_convolution(in, graph.nodes[k]);
    if (!made) made = quantized_recurrence(in, graph.nodes[k]);
    if (!made) continue;
    in.replace(k, std::move(*made));
    changed = true;
  }
  if (changed) remove_dead_nodes(graph);
  return changed;
}

bool has_integer_products(const Graph& g) {
  return std::ranges::any_of(g.nodes, [](const Node& n) {
    return n.op == Op::kMatMulInteger || n.op == Op::kConvInteger || rounds_states(n);
  });
}

}  // namespace

std::shared_ptr<const Module> fuse_integer_products(std::shared_ptr<const Module> module) {
  if (std::ranges::none_of(module->graphs, has_integer_products)) return module;
  const auto own = own_module(std::move(module));
  for (Graph& graph : own->graphs) fuse_integer_products(graph);
  return own;
}

}  // namespace smelt
