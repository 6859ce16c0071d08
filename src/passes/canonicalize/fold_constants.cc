#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "passes/passes.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

/// Folded results may be larger than their inputs by a factor of 4 (int8 to float32) plus this many bytes.
constexpr size_t kSlack = size_t{1} << 20;
/// Larger constants do not outlast their last reader.
constexpr size_t kKeptBytes = size_t{1} << 16;

size_t bytes_of(const ValueType& t) {
  auto n = t.shape.checked_elements();
  return n.ok() ? Tensor::byte_size(t.dtype, n.value()) : SIZE_MAX;
}

/// Quantized weights stay quantized, since kernels use the integers, except where their real values are wanted.
enum class Weights { kQuantized, kReal };

/// True if the node can be evaluated now without growing the model much.
bool foldable(const Graph& g, const Node& n, Weights weights) {
  const OpInfo& info = op_info(n.op);
  if (info.flags & (kEffect | kControl | kContainer | kDynamic)) return false;
  if (!info.reference || n.inputs.empty()) return false;
  if (weights == Weights::kQuantized && (n.op == Op::kDequantizeLinear || n.op == Op::kDequantize)) {
    const ValueId x = n.inputs[0];
    if (x == kNoValue || !g.value(x).constant || is_integer(g.value(x).type.dtype)) return false;
  }
  size_t in = 0;
  for (ValueId id : n.inputs) {
    if (id == kNoValue) continue;
    const Value& v = g.value(id);
    if (!v.constant) return false;
    in += v.constant->bytes();
  }
  size_t out = 0;
  for (ValueId id : n.outputs) {
    if (id == kNoValue) continue;
    const Value& v = g.value(id);
    if (!v.type.is_static()) return false;
    const size_t b = bytes_of(v.type);
    if (b == SIZE_MAX) return false;
    out += b;
  }
  return out <= in * 4 + kSlack;
}

/// By value: a BatchNorm reads it as a parameter of the channels, so that its real values are wanted.
std::vector<char> parameters_of_channels(const Graph& g) {
  std::vector<char> is(g.values.size(), 0);
  for (const Node& n : g.nodes)
    for (size_t i = 1; n.op == Op::kBatchNorm && i < n.inputs.size(); ++i)
      if (n.inputs[i] != kNoValue) is[static_cast<size_t>(n.inputs[i])] = 1;
  return is;
}

/// The constant whose float16 or bfloat16 elements the node gives as float32; nullptr for another node.
const Tensor* narrow_constant(const Graph& g, const Node& n) {
  if ((n.op != Op::kCast && n.op != Op::kDequantize) || n.inputs[0] == kNoValue) return nullptr;
  const Value &x = g.value(n.inputs[0]), &y = g.value(n.outputs[0]);
  const bool widens = x.type.dtype == DType::kF16 || x.type.dtype == DType::kBF16;
  return widens && y.type.dtype == DType::kF32 && !x.type.quant && !y.type.quant ? x.constant.get() : nullptr;
}

bool fold(Graph& graph, const Node& n, Weights weights, const Evaluate& evaluate) {
  if (const Tensor* narrow = narrow_constant(graph, n)) {
    graph.value(n.outputs[0]).constant = std::make_shared<const Tensor>(as_float32(*narrow));
    return true;
  }
  if (!foldable(graph, n, weights)) return false;
  std::vector<Datum> in, out;
  for (ValueId id : n.inputs) {
    if (id == kNoValue) {
      in.emplace_back();
      continue;
    }
    const Tensor& constant = *graph.value(id).constant;
    Tensor t = constant.bytes() > kKeptBytes ? constant.read_once() : constant;
    if (!t.quant() && graph.value(id).type.quant) t.set_quant(graph.value(id).type.quant);
    in.emplace_back(std::move(t));
  }
  if (!evaluate(graph, n, std::move(in), out).ok()) return false;
  bool all = true;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    all = all && out[i].is_tensor();
    if (!out[i].is_tensor()) continue;
    Value& v = graph.value(n.outputs[i]);
    v.constant = std::make_shared<const Tensor>(std::move(out[i].tensor));
  }
  return all;
}

/// Folds a node that quantizes weights again, which `dequantize` makes of constants: their real values live as long as
/// the call.
bool fold_quantized_again(Graph& graph, const Node& dequantize, const Node& quantize, const Evaluate& evaluate) {
  if (!fold(graph, dequantize, Weights::kReal, evaluate)) return false;
  const bool folded = fold(graph, quantize, Weights::kQuantized, evaluate);
  graph.value(dequantize.outputs[0]).constant = nullptr;
  return folded;
}

}  // namespace

bool fold_node(Graph& graph, const Node& n, const Evaluate& evaluate) {
  return fold(graph, n, Weights::kQuantized, evaluate);
}

std::vector<ValueId> fold_constants(Graph& graph, const Evaluate& evaluate) {
  std::vector<ValueId> folded;
  std::vector<char> made(graph.values.size(), 0);
  std::vector<int> uses = count_uses(graph);
  const std::vector<char> parameters = parameters_of_channels(graph);
  // What was read for the last time goes: memory that was computed, pages of a file.
  const auto release_inputs = [&](const Node& n) {
    for (ValueId id : n.inputs) {
      if (id == kNoValue || --uses[static_cast<size_t>(id)] > 0) continue;
      auto& constant = graph.value(id).constant;
      if (!constant || constant->bytes() <= kKeptBytes) continue;
      if (made[static_cast<size_t>(id)])
        constant = nullptr;
      else
        release_pages(*constant);
    }
  };
  // By value: the node that dequantizes weights to it.
  std::vector<const Node*> dequantizers(graph.values.size(), nullptr);
  // Nodes whose outputs are constants are not needed.
  std::vector<char> needed(graph.nodes.size(), 1);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const Node& n = graph.nodes[k];
    const bool one = n.outputs.size() == 1 && n.outputs[0] != kNoValue;
    const Weights weights = one && parameters[static_cast<size_t>(n.outputs[0])] ? Weights::kReal : Weights::kQuantized;
    const bool quantizes = n.op == Op::kQuantizeLinear && n.inputs[0] != kNoValue;
    const Node* again = quantizes ? dequantizers[static_cast<size_t>(n.inputs[0])] : nullptr;
    if (fold(graph, n, weights, evaluate) || (again && fold_quantized_again(graph, *again, n, evaluate))) {
      for (ValueId id : n.outputs)
        if (id != kNoValue) made[static_cast<size_t>(id)] = 1;
      folded.insert(folded.end(), n.outputs.begin(), n.outputs.end());
      release_inputs(n);
      needed[k] = 0;
    } else if (one && n.op == Op::kDequantizeLinear) {
      dequantizers[static_cast<size_t>(n.outputs[0])] = &n;
    } else if (!n.outputs.empty() && !(op_info(n.op).flags & (kEffect | kControl))) {
      needed[k] =
          std::ranges::any_of(n.outputs, [&](ValueId id) { return id != kNoValue && !graph.value(id).constant; });
    }
  }
  std::erase_if(graph.nodes, [&](const Node& n) { return !needed[static_cast<size_t>(&n - graph.nodes.data())]; });
  std::erase_if(folded, [&](ValueId id) { return id == kNoValue || !graph.value(id).constant; });
  return folded;
}

}  // namespace smelt
