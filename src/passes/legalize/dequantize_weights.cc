// Constant integers that a graph multiplies as real numbers: made real as they are packed.
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/rules.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

/// How the parameters of neighbours follow each other: `run` elements of one scale, `scales` of which repeat.
struct Runs {
  int64_t run = 1, scales = 1;
};

std::optional<Runs> runs_of(const Tensor& t) {
  const Quantization& q = *t.quant();
  const auto scales = static_cast<int64_t>(q.scales.size());
  if (scales == 1) return Runs{std::max<int64_t>(t.elements(), 1), 1};
  if (q.axis < 0 || q.axis >= t.rank()) return std::nullopt;
  const Around around(t.shape(), q.axis);
  if (q.kind == Quantization::Kind::kPerAxis && scales == t.dim(q.axis)) return Runs{around.inner, scales};
  if (q.kind == Quantization::Kind::kPerBlock && around.inner == 1 && q.block > 0 && t.dim(q.axis) % q.block == 0 &&
      scales == t.elements() / q.block)
    return Runs{q.block, scales};
  return std::nullopt;
}

/// The real values of elements [first, first + count) of t, by the formula of dequantize().
void dequantize_part(const Tensor& t, int64_t first, int64_t count, float* to) {
  const Quantization& q = *t.quant();
  const auto [run, scales] = *runs_of(t);
  const bool bytes = bit_width(t.dtype()) == 8;
  const Tensor stored = bytes ? t.read_unaligned_once() : t;
  const auto* from = reinterpret_cast<const uint8_t*>(stored.unaligned_bytes());
  const uint8_t flip = t.dtype() == DType::kI8 ? 128 : 0;
  for (int64_t i = first; i < first + count;) {
    const int64_t end = std::min(first + count, (i / run + 1) * run), p = i / run % scales;
    const float scale = q.scale(p);
    const int32_t zero = q.zero_point(p);
    if (bytes)
      for (; i < end; ++i) *to++ = scale * static_cast<float>((from[i] ^ flip) - flip - zero);
    else
      for (; i < end; ++i) *to++ = scale * static_cast<float>(get_int(t, i) - zero);
  }
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
  return t.quant() && runs_of(t) ? std::optional(std::move(t)) : std::nullopt;
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
            dequantize_part(from, first, count, static_cast<float*>(to));
          }));
      return true;
    });
  return own;
}

}  // namespace smelt
