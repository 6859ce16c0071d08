// Depth and space exchanged in the other order of channels.
#include "passes/fuse/pixel_shuffle.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "passes/fuse/weighted.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// A constant whose first dimension is channels in CRD order, with these in DCR order.
Tensor channels_in_blocks(const Tensor& t, int64_t blocks) {
  const int64_t depth = t.dim(0) / blocks, size = t.elements() / t.dim(0);
  Tensor turned(t.dtype(), t.shape());
  auto* to = static_cast<std::byte*>(turned.raw());
  const size_t bytes = turned.bytes() / static_cast<size_t>(t.dim(0));
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t c = 0; c < depth; ++c, to += bytes) t.copy_elements((c * blocks + b) * size, size, to);
  return turned;
}

/// A DepthSpace in CRD order that alone reads a convolution with constant float filters: one in DCR order, the filters
/// in that order, too. nullopt for another node.
std::optional<Node> depth_of_convolution(Pattern& in, const Node& n) {
  constexpr int64_t kMostTurned = 1 << 22;  // larger filters stay: each is copied
  BlockAttrs a = static_cast<const BlockAttrs&>(*n.attrs);
  const Node* conv = in.producer(n.inputs[0], Op::kConv);
  if (a.to_depth || !a.channel_first_order || a.block < 2 || !conv || !in.has_one_use(n.inputs[0]) ||
      conv->inputs.size() > 3)
    return std::nullopt;
  const auto& c = static_cast<const ConvAttrs&>(*conv->attrs);
  const Tensor* filter = in.constant(conv->inputs[1]);
  const int64_t blocks = a.block * a.block;
  if (c.groups != 1 || c.layout != a.layout || (c.filter != FilterLayout::kOIS && c.filter != FilterLayout::kOSI) ||
      !in.is_f32(n.inputs[0]) || !filter || !is_real(*filter) || filter->elements() == 0 ||
      filter->elements() > kMostTurned || filter->dim(0) % blocks != 0)
    return std::nullopt;
  const ValueId bias = conv->inputs.size() > 2 ? conv->inputs[2] : kNoValue;
  const Tensor* addends = in.constant(bias);
  if (bias != kNoValue &&
      (!addends || !is_real(*addends) || addends->rank() != 1 || addends->elements() != filter->dim(0)))
    return std::nullopt;
  const auto index = static_cast<size_t>(in.index_of_producer(n.inputs[0]));
  Node turned = *conv;
  const ValueId x = turned.outputs[0] = in.add_value(in.type(n.inputs[0]));
  Tensor filters = channels_in_blocks(*filter, blocks);
  if (addends) turned.inputs[2] = add_constant(in, channels_in_blocks(*addends, blocks));
  turned.inputs[1] = add_constant(in, std::move(filters));
  in.replace(index, std::move(turned));
  a.channel_first_order = false;
  return remade(n, Op::kDepthSpace, make_attrs<BlockAttrs>(a), {x}, n.origin.c_str());
}

}  // namespace

std::optional<Node> reordered_depth(const Pattern& in, const Node& n) {
  BlockAttrs a = static_cast<const BlockAttrs&>(*n.attrs);
  const Node* gather = in.producer(n.inputs[0], Op::kGather);
  if (a.to_depth || a.channel_first_order || !gather || !in.has_one_use(n.inputs[0])) return std::nullopt;
  const ValueType& x = in.type(gather->inputs[0]);
  const Tensor* from = in.constant(gather->inputs[1]);
  const auto& g = static_cast<const GatherAttrs&>(*gather->attrs);
  if (!x.ranked || x.quant || x.shape.rank() < 3 || !from || from->rank() != 1 || g.batch_dims != 0)
    return std::nullopt;
  const int rank = x.shape.rank(), channels = a.layout == Layout::kChannelsFirst ? 1 : rank - 1;
  const int64_t depth = x.shape[channels], r2 = a.block * a.block;
  if ((g.axis < 0 ? g.axis + rank : g.axis) != channels || r2 < 1 || depth < 1 || depth % r2 != 0 ||
      from->elements() != depth)
    return std::nullopt;
  for (int64_t i = 0; i < depth; ++i)
    if (get_int(*from, i) != i % (depth / r2) * r2 + i / (depth / r2)) return std::nullopt;
  a.channel_first_order = true;
  return remade(n, Op::kDepthSpace, make_attrs<BlockAttrs>(a), {gather->inputs[0]}, "DepthToSpace");
}

void shuffle_pixels_in_blocks(Graph& graph) {
  Pattern in(graph);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    if (graph.nodes[k].op != Op::kDepthSpace) continue;
    if (auto made = depth_of_convolution(in, graph.nodes[k])) in.replace(k, std::move(*made));
  }
}

}  // namespace smelt
