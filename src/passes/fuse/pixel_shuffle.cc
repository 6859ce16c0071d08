// Depth and space exchanged in the other order of channels.
#include "passes/fuse/pixel_shuffle.h"

#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {

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

}  // namespace smelt
