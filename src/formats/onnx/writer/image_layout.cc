// What becomes of a value whose order of dimensions is open.
#include <vector>

#include "formats/onnx/writer/node_writer.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {
namespace {

/// True if the graph's node works on images whose channels the format has in front.
bool is_image_node(const Node& n) {
  switch (n.op) {
    case Op::kConv:
    case Op::kConvInteger:
    case Op::kConvTranspose:
    case Op::kPool:
    case Op::kResize:
    case Op::kDepthSpace:
    case Op::kBatchNorm:
    case Op::kGroupNorm:
    case Op::kLRN:
      return true;
    default:
      return false;
  }
}

/// True if the node gives the channels-first order of what it reads.
bool moves_channels_first(const Graph& graph, const Node& n) {
  if (n.op != Op::kTranspose || !graph.value(n.inputs[0]).type.ranked) return false;
  std::vector<int64_t> perm = static_cast<const TransposeAttrs&>(*n.attrs).perm;
  if (n.inputs.size() > 1) perm = formats::WrittenNode(graph, n).ints(1).value_or(std::vector<int64_t>{});
  const int rank = graph.value(n.inputs[0]).type.shape.rank();
  return rank >= 3 && perm == to_channels_first(rank);
}

/// True if the node is written in the order that its operands have.
bool keeps_order(const Node& n) {
  return n.op == Op::kUnary || n.op == Op::kBinary || n.op == Op::kClamp || n.op == Op::kConcat || n.op == Op::kPad ||
         n.op == Op::kQuantize || n.op == Op::kDequantize || n.op == Op::kQuantizeLinear ||
         n.op == Op::kDequantizeLinear;
}

}  // namespace

bool NodeWriter::reaches_image_node(ValueId id) const {
  constexpr size_t kMostNodes = 32;
  auto& readers = scope_.readers;
  if (readers.empty())
    for (const Node& n : scope_.graph.nodes)
      for (const ValueId input : n.inputs)
        if (input != kNoValue) readers.emplace(input, &n);
  std::vector<ValueId> values{id};
  for (size_t i = 0; i < values.size() && i < kMostNodes; ++i)
    for (auto [at, end] = readers.equal_range(values[i]); at != end; ++at) {
      if (is_image_node(*at->second) || moves_channels_first(scope_.graph, *at->second)) return true;
      if (keeps_order(*at->second)) values.push_back(at->second->outputs[0]);
    }
  return false;
}

}  // namespace smelt::onnx
