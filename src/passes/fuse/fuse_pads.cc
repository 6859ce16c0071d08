#include <algorithm>
#include <optional>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
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

/// Elements that a Pad of `rank` dimensions adds: at the begin of each dimension, then at the ends. nullopt if they are
/// not constant, negative, or too many for the padding of a convolution.
std::optional<std::vector<int64_t>> border(const Graph& g, const Node& pad, int rank) {
  constexpr int64_t kMaxPad = 16;
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
  if (std::any_of(all.begin(), all.end(), [](int64_t p) { return p < 0 || p > kMaxPad; })) return std::nullopt;
  return all;
}

/// The attributes of the convolution with the border added to its padding; nullptr if they can't express it.
AttrsPtr with_border(const ConvAttrs& conv, const std::vector<int64_t>& border) {
  if (conv.auto_pad != AutoPad::kExplicit && conv.auto_pad != AutoPad::kValid) return nullptr;
  const size_t rank = border.size() / 2, first = conv.layout == Layout::kChannelsLast ? 1 : 2;
  if (rank < 3) return nullptr;
  ConvAttrs fused = conv;
  if (conv.auto_pad == AutoPad::kValid || conv.pads.empty()) fused.pads.assign(2 * (rank - 2), 0);
  if (fused.pads.size() != 2 * (rank - 2)) return nullptr;
  fused.auto_pad = AutoPad::kExplicit;
  for (size_t i = 0; i < rank; ++i) {
    const bool spatial = i >= first && i < first + rank - 2;
    if (!spatial && (border[i] != 0 || border[i + rank] != 0)) return nullptr;
    if (!spatial) continue;
    int64_t &before = fused.pads[i - first], &after = fused.pads[i - first + rank - 2];
    if (before < 0 || after < 0) return nullptr;  // negative padding crops
    before += border[i];
    after += border[i + rank];
  }
  return make_attrs<ConvAttrs>(fused);
}

}  // namespace

void fuse_pads(Graph& graph) {
  fuse_into_producers(graph, [&](const Node& before, const Node& n) -> std::optional<Node> {
    if (before.op != Op::kPad || n.op != Op::kConv) return std::nullopt;
    const ValueType& y = graph.value(n.inputs[0]).type;
    if (!y.ranked || !pads_with_zeros(graph, before)) return std::nullopt;
    const auto added = border(graph, before, y.shape.rank());
    AttrsPtr attrs = added ? with_border(static_cast<const ConvAttrs&>(*n.attrs), *added) : nullptr;
    if (!attrs) return std::nullopt;
    Node fused = n;
    fused.attrs = std::move(attrs);
    fused.inputs[0] = before.inputs[0];
    return fused;
  });
}

}  // namespace smelt
