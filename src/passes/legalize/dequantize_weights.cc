// Constant integers that a graph multiplies as real numbers: made real as they are packed.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

/// True if there are as many scales as the shape asks for.
bool has_all_scales(const Tensor& t) {
  const Quantization& q = *t.quant();
  const auto scales = static_cast<int64_t>(q.scales.size());
  if (scales == 1) return true;
  if (q.axis < 0 || q.axis >= t.rank()) return false;
  const int64_t extent = t.dim(q.axis);
  if (q.kind == Quantization::Kind::kPerAxis) return scales == extent;
  return q.kind == Quantization::Kind::kPerBlock && q.block > 0 && extent > 0 &&
         scales == t.elements() / extent * ceil_div(extent, q.block);
}

/// The quantization of a DequantizeLinear's constant parameters; null: others.
QuantPtr linear_quantization(const Graph& g, const Node& n, const Tensor& x) {
  const auto& a = static_cast<const QuantizeLinearAttrs&>(*n.attrs);
  const Tensor* scale = g.value(n.inputs[1]).constant.get();
  const bool has_zero = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
  const Tensor* zero = has_zero ? g.value(n.inputs[2]).constant.get() : nullptr;
  if (!scale || scale->dtype() != DType::kF32 || scale->rank() > 1 || a.block != 0) return nullptr;
  if (has_zero && (!zero || !is_integer(zero->dtype()) || zero->elements() != scale->elements())) return nullptr;
  auto q = std::make_shared<Quantization>();
  q->scales.resize(static_cast<size_t>(scale->elements()));
  to_floats(*scale, q->scales.data());
  for (int64_t i = 0; zero && i < zero->elements(); ++i)
    q->zero_points.push_back(static_cast<int32_t>(get_int(*zero, i)));
  if (scale->elements() == 1) return q;
  q->kind = Quantization::Kind::kPerAxis;
  q->axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  return q;
}

/// The integers, with their quantization, whose real values the node gives; nullopt for another node.
std::optional<Tensor> integers_of(const Graph& g, const Node& n) {
  if ((n.op != Op::kDequantize && n.op != Op::kDequantizeLinear) || n.inputs[0] == kNoValue) return std::nullopt;
  const Value &x = g.value(n.inputs[0]), &y = g.value(n.outputs[0]);
  if (!x.constant || !is_integer(x.constant->dtype()) || bit_width(x.constant->dtype()) > 8 || y.type.quant ||
      y.type.dtype != DType::kF32 || x.constant->elements() * 4 <= static_cast<int64_t>(kWorthDeferring))
    return std::nullopt;
  Tensor t = *x.constant;
  t.set_quant(n.op == Op::kDequantize ? x.type.quant : linear_quantization(g, n, t));
  return t.quant() && has_all_scales(t) ? std::optional(std::move(t)) : std::nullopt;
}

}  // namespace

std::shared_ptr<const Module> dequantize_weights(std::shared_ptr<const Module> module) {
  const auto has = [](const Graph& g) {
    return std::ranges::any_of(g.nodes, [&](const Node& n) { return integers_of(g, n).has_value(); });
  };
  if (std::ranges::none_of(module->graphs, has)) return module;
  const auto own = own_module(std::move(module));
  for (Graph& g : own->graphs)
    std::erase_if(g.nodes, [&](const Node& n) {
      auto t = integers_of(g, n);
      if (!t) return false;
      const Shape shape = t->shape();
      g.value(n.outputs[0]).constant = std::make_shared<const Tensor>(Tensor::deferred(
          DType::kF32, shape, *std::move(t), [](const Tensor& from, int64_t first, int64_t count, void* to) {
            dequantize(from, first, count, static_cast<float*>(to));
          }));
      return true;
    });
  return own;
}

}  // namespace smelt
