// Weights of fewer than 8 bits where back-ends multiply by bytes: in convolutions and in products of quantized values.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ops/core/op.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

/// The constant integers of fewer than 8 bits that the node multiplies by; null if there are none, or if there are
/// kernels for them: those of rows that are real, or real but for a scale each.
const Tensor* narrow_weights(const Graph& g, const Node& n) {
  const bool convolves = n.op == Op::kConv || n.op == Op::kConvTranspose || n.op == Op::kConvInteger;
  const bool multiplies = n.op == Op::kMatMul && g.value(n.outputs[0]).type.quant;
  if ((!convolves && !multiplies) || n.inputs[1] == kNoValue) return nullptr;
  const Tensor* w = g.value(n.inputs[1]).constant.get();
  return w && is_integer(w->dtype()) && bit_width(w->dtype()) < 8 ? w : nullptr;
}

std::shared_ptr<const Tensor> as_bytes(const Tensor& narrow) {
  const DType bytes = is_signed_integer(narrow.dtype()) ? DType::kI8 : DType::kU8;
  auto wide = std::make_shared<Tensor>(bytes, narrow.shape());
  wide->set_quant(narrow.quant());
  widen_integers(narrow.dtype(), narrow.data<uint8_t>(), narrow.elements(), wide->data<uint8_t>());
  return wide;
}

void widen(Graph& g) {
  std::unordered_map<ValueId, ValueId> wide;
  for (Node& n : g.nodes) {
    const Tensor* w = narrow_weights(g, n);
    if (!w) continue;
    const auto [at, first] = wide.try_emplace(n.inputs[1], kNoValue);
    if (first) {
      Value v = g.value(n.inputs[1]);
      v.constant = as_bytes(*w);
      v.type.dtype = v.constant->dtype();
      release_pages(*w);
      at->second = g.add_value(std::move(v));
    }
    n.inputs[1] = at->second;
  }
}

}  // namespace

std::shared_ptr<const Module> widen_weights(std::shared_ptr<const Module> module) {
  const auto has_narrow = [](const Graph& g) {
    return std::ranges::any_of(g.nodes, [&](const Node& n) { return narrow_weights(g, n) != nullptr; });
  };
  if (std::ranges::none_of(module->graphs, has_narrow)) return module;
  const auto own = own_module(std::move(module));
  for (Graph& g : own->graphs) widen(g);
  return own;
}

}  // namespace smelt
