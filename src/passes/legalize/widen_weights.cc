// Weights of fewer than 8 bits where back-ends multiply by bytes: in convolutions, in products of quantized values and
// wherever they have 2 bits.
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
/// kernels for them: those of 4 bits and of rows that are real, or real but for a scale each.
const Tensor* narrow_weights(const Graph& g, const Node& n) {
  const bool convolves = n.op == Op::kConv || n.op == Op::kConvTranspose || n.op == Op::kConvInteger;
  if ((!convolves && n.op != Op::kMatMul) || n.inputs[1] == kNoValue) return nullptr;
  const Tensor* w = g.value(n.inputs[1]).constant.get();
  const int widest = convolves || g.value(n.outputs[0]).type.quant ? 7 : 2;
  return w && is_integer(w->dtype()) && bit_width(w->dtype()) <= widest ? w : nullptr;
}

void widen_elements(const Tensor& narrow, int64_t first, int64_t count, void* to) {
  const int64_t codes = 8 / bit_width(narrow.dtype());  // in a byte
  const auto* const from = reinterpret_cast<const uint8_t*>(narrow.unaligned_bytes());
  auto* bytes = static_cast<uint8_t*>(to);
  for (; count > 0 && first % codes != 0; ++first, --count) *bytes++ = static_cast<uint8_t>(get_int(narrow, first));
  widen_integers(narrow.dtype(), from + first / codes, count, bytes);
}

/// The weights as bytes. Large ones are made when they are packed, and do not stay.
std::shared_ptr<const Tensor> as_bytes(const Tensor& narrow) {
  const DType bytes = is_signed_integer(narrow.dtype()) ? DType::kI8 : DType::kU8;
  auto wide = std::make_shared<Tensor>();
  if (static_cast<size_t>(narrow.elements()) > kWorthDeferring) {
    *wide = Tensor::deferred(bytes, narrow.shape(), narrow, widen_elements);
  } else {
    *wide = Tensor(bytes, narrow.shape());
    widen_elements(narrow, 0, narrow.elements(), wide->raw());
    release_pages(narrow);
  }
  wide->set_quant(narrow.quant());
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
