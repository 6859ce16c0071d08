// Operators that change shapes, join and split, and make tensors from shapes.
#include <algorithm>
#include <limits>

#include "formats/onnx/writer/op_writers.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::onnx {
int64_t axis_in(int64_t axis, int rank, Order order) {
  if (order == Order::kAsIs) return axis;
  if (axis < 0) axis += rank;
  const auto perm = to_channels_first(rank);
  return std::ranges::find(perm, axis) - perm.begin();
}

namespace {

void write_reshape(NodeWriter& n) {
  const auto& a = n.attrs<ReshapeAttrs>();
  const auto shape = n.ints(1);
  std::vector<Attribute> attributes;
  const bool zeros = !shape || std::ranges::count(*shape, 0) > 0;
  if (a.allow_zero && zeros && n.model().need_opset(14)) attributes.emplace_back("allowzero", true);
  const bool any_order = !zeros && n.channels_first_at_hand(0) && n.type(0).ranked &&
                         formats::moves_nothing(n.type(0).shape, to_channels_first(n.rank(0)));
  const Order order = any_order ? Order::kChannelsFirst : Order::kAsIs;
  n.bind_raw(0, n.op("Reshape", {n.raw(0, order), n.in_i64(1)}, attributes));
}

/// The axes of input 1, dimensions of a value of `rank` that lie between its first and its last, in the channels-first
/// order; nullopt if others are among them or input 0 has its own order at hand.
std::optional<std::vector<int64_t>> inner_axes(NodeWriter& n, int rank) {
  auto axes = n.has(1) && n.channels_first_at_hand(0) ? n.ints(1) : std::nullopt;
  if (!axes || rank < 4 || n.rank(0) < 3) return std::nullopt;
  for (int64_t& axis : *axes) {
    const int64_t from_front = axis < 0 ? axis + rank : axis;
    if (from_front <= 0 || from_front >= rank - 1) return std::nullopt;
    axis = axis_in(axis, rank, Order::kChannelsFirst);
  }
  return axes;
}

void write_squeeze(NodeWriter& n) {
  const int rank = n.type(0).ranked ? n.type(0).shape.rank() : 0;
  const auto axes = inner_axes(n, rank);
  if (axes && rank - static_cast<int>(axes->size()) >= 3)
    return n.bind_raw(0, n.squeeze(n.raw(0, Order::kChannelsFirst), *axes), Order::kChannelsFirst);
  n.bind_raw(0, n.op("Squeeze", {n.raw(0), n.has(1) ? n.in_i64(1) : kNoName}));
}

void write_unsqueeze(NodeWriter& n) {
  if (const auto axes = inner_axes(n, n.out_type(0).ranked ? n.out_type(0).shape.rank() : 0))
    return n.bind_raw(0, n.unsqueeze(n.raw(0, Order::kChannelsFirst), *axes), Order::kChannelsFirst);
  n.bind_raw(0, n.op("Unsqueeze", {n.raw(0), n.in_i64(1)}));
}

void write_flatten(NodeWriter& n) { n.bind_raw(0, n.op("Flatten", {n.raw(0)}, {{"axis", n.attrs<AxisAttrs>().axis}})); }

void write_transpose(NodeWriter& n) {
  std::vector<int64_t> perm = n.attrs<TransposeAttrs>().perm;
  if (n.has(1)) perm = n.need_ints(1, "the permutation");
  if (perm.empty() && !n.has(1)) return n.bind_raw(0, n.op("Transpose", {n.raw(0)}));
  for (int64_t& p : perm)
    if (p < 0) p += static_cast<int64_t>(perm.size());
  const auto rank = static_cast<int>(perm.size());
  if (rank >= 3 && perm == to_channels_first(rank) && n.channels_first_at_hand(0))
    return n.bind_raw(0, n.raw(0, Order::kChannelsFirst));
  if (rank >= 3 && perm == to_channels_last(rank)) {
    // The result in its channels-first order is x.
    return n.bind_raw(0, n.raw(0), Order::kChannelsFirst);
  }
  n.bind_raw(0, n.transpose(n.raw(0), perm));
}

void write_expand(NodeWriter& n) { n.bind_raw(0, n.op("Expand", {n.raw(0), n.in_i64(1)})); }

void write_tile(NodeWriter& n) {
  Name x = n.raw(0);
  const auto repeats = n.ints(1);
  if (!repeats || !n.type(0).ranked) return n.bind_raw(0, n.op("Tile", {x, n.in_i64(1)}));
  std::vector<int64_t> full = *repeats, front;
  const auto rank = static_cast<size_t>(n.type(0).shape.rank());
  if (full.size() < rank) full.insert(full.begin(), rank - full.size(), 1);
  for (size_t k = 0; k + rank < full.size(); ++k) front.push_back(static_cast<int64_t>(k));
  if (!front.empty()) x = n.unsqueeze(x, front);
  n.bind_raw(0, n.op("Tile", {x, n.i64(full)}));
}

bool one_quantization(const NodeWriter& n) {
  for (int i = 0; i < n.inputs(); ++i)
    if (!same_quant_params(n.type(i).quant, n.out_type(0).quant)) return false;
  return true;
}

void write_concat(NodeWriter& n) {
  const auto& a = n.attrs<AxisAttrs>();
  bool first = false;
  for (int i = 0; i < n.inputs(); ++i) first = first || n.channels_first_at_hand(i);
  first = first && n.type(0).ranked && n.type(0).shape.rank() >= 3;
  const Order order = first ? Order::kChannelsFirst : Order::kAsIs;
  const bool same = one_quantization(n);
  std::vector<Name> in;
  for (int i = 0; i < n.inputs(); ++i) in.push_back(same ? n.raw(i, order) : n.in(i, order));
  const int64_t axis = first ? axis_in(a.axis, n.type(0).shape.rank(), order) : a.axis;
  const Name y = n.op("Concat", in, {{"axis", axis}});
  if (same)
    n.bind_raw(0, y, order);
  else
    n.bind(0, y, order);
}

void write_stack(NodeWriter& n) {
  const int64_t axis = n.attrs<AxisAttrs>().axis;
  std::vector<Name> in;
  for (int i = 0; i < n.inputs(); ++i) in.push_back(n.unsqueeze(n.raw(i), {axis}));
  n.bind_raw(0, n.op("Concat", in, {{"axis", axis}}));
}

void write_unstack(NodeWriter& n) {
  const int64_t axis = n.attrs<AxisAttrs>().axis;
  const Name x = n.raw(0);
  for (int i = 0; i < n.outputs(); ++i)
    if (n.wants(i)) n.bind_raw(i, n.op("Gather", {x, n.scalar(DType::kI64, i)}, {{"axis", axis}}));
}

void write_split(NodeWriter& n) {
  const auto& a = n.attrs<SplitAttrs>();
  int64_t axis = a.axis;
  if (n.has(2)) {
    const auto given = n.need_ints(2, "the axis");
    if (given.size() != 1) return;
    axis = given[0];
  }
  const bool first = n.channels_first_at_hand(0) && n.type(0).shape.rank() >= 3;
  const Order order = first ? Order::kChannelsFirst : Order::kAsIs;
  const int rank = n.type(0).ranked ? n.type(0).shape.rank() : 0;
  std::vector<Attribute> attributes{{"axis", first ? axis_in(axis, rank, order) : axis}};
  std::vector<Name> in{n.raw(0, order)};
  if (n.has(1)) {
    auto sizes = n.ints(1);
    if (sizes && n.type(0).ranked) {
      // One size may be -1: what is left.
      const int64_t extent = n.type(0).shape[static_cast<int>(axis < 0 ? axis + rank : axis)];
      int64_t given = 0;
      for (const int64_t s : *sizes) given += std::max<int64_t>(s, 0);
      for (int64_t& s : *sizes)
        if (s < 0 && extent >= 0) s = extent - given;
    }
    in.push_back(sizes ? n.i64(*sizes) : n.in_i64(1));
  } else {
    std::vector<int64_t> sizes;
    for (int i = 0; i < n.outputs(); ++i)
      if (n.wants(i) && n.out_type(i).ranked && n.out_type(i).shape.rank() == rank && rank > 0)
        sizes.push_back(n.out_type(i).shape[static_cast<int>(axis < 0 ? axis + rank : axis)]);
    const bool all = static_cast<int>(sizes.size()) == n.outputs() && std::ranges::count(sizes, -1) == 0;
    if (all)
      in.push_back(n.i64(sizes));
    else if (n.model().need_opset(18))
      attributes.emplace_back("num_outputs", int64_t{n.outputs()});
  }
  const auto out = n.ops("Split", in, static_cast<size_t>(n.outputs()), attributes);
  for (int i = 0; i < n.outputs(); ++i) n.bind_raw(i, out[static_cast<size_t>(i)], order);
}

void write_depth_space(NodeWriter& n) {
  const auto& a = n.attrs<BlockAttrs>();
  const Order order = a.layout == Layout::kChannelsLast ? Order::kChannelsFirst : Order::kAsIs;
  const Name x = n.raw(0, order);
  if (!a.to_depth)
    return n.bind_raw(
        0, n.op("DepthToSpace", {x}, {{"blocksize", a.block}, {"mode", a.channel_first_order ? "CRD" : "DCR"}}), order);
  if (!a.channel_first_order) return n.bind_raw(0, n.op("SpaceToDepth", {x}, {{"blocksize", a.block}}), order);
  const ValueType& t = n.type(0);
  if (n.rank(0) != 4 || t.shape[1] < 0 || t.shape[2] < 0 || t.shape[3] < 0 || order != Order::kAsIs)
    return n.fail("the shape of the image must be known");
  const int64_t c = t.shape[1], h = t.shape[2] / a.block, w = t.shape[3] / a.block;
  const Name cut = n.reshape(x, {-1, c, h, a.block, w, a.block});
  n.bind_raw(0, n.reshape(n.transpose(cut, {0, 1, 3, 5, 2, 4}), {-1, c * a.block * a.block, h, w}));
}

/// TFLite's SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND by reshaping; the dimensions behind the batch are known.
void write_space_to_batch(NodeWriter& n) {
  const auto block = n.need_ints(1, "the block"), pads = n.need_ints(2, "the padding");
  const int rank = n.rank(0);
  if (!n.ok()) return;
  const size_t m = block.size();
  const Shape& x = n.type(0).shape;
  std::vector<int64_t> border(static_cast<size_t>(2 * rank), 0), cut{-1}, perm, shape{-1};
  for (size_t k = 0; k < m; ++k) {
    border[k + 1] = pads[2 * k];
    border[k + 1 + static_cast<size_t>(rank)] = pads[2 * k + 1];
    const int64_t size = x[static_cast<int>(k) + 1] + pads[2 * k] + pads[2 * k + 1];
    if (x[static_cast<int>(k) + 1] < 0) return n.fail("the size of the image must be known");
    cut.insert(cut.end(), {size / block[k], block[k]});
    perm.push_back(static_cast<int64_t>(2 * k + 2));
    shape.push_back(size / block[k]);
  }
  perm.push_back(0);
  for (size_t k = 0; k < m; ++k) perm.push_back(static_cast<int64_t>(2 * k + 1));
  for (int k = static_cast<int>(m) + 1; k < rank; ++k) {
    if (x[k] < 0) return n.fail("the size of the image must be known");
    perm.push_back(static_cast<int64_t>(cut.size()));
    cut.push_back(x[k]);
    shape.push_back(x[k]);
  }
  const double zero = n.quantized(0) ? n.type(0).quant->zero_point() : 0;
  const Name padded = n.op("Pad", {n.raw(0), n.i64(border), n.scalar(n.dtype(0), zero)});
  n.bind_raw(0, n.reshape(n.transpose(n.reshape(padded, cut), perm), shape));
}

void write_batch_to_space(NodeWriter& n) {
  const auto block = n.need_ints(1, "the block"), crops = n.need_ints(2, "the crops");
  const int rank = n.rank(0);
  if (!n.ok()) return;
  const auto m = static_cast<int>(block.size());
  const Shape& x = n.type(0).shape;
  std::vector<int64_t> cut, perm{m}, shape{-1}, starts, ends, axes;
  for (const int64_t b : block) cut.push_back(b);
  cut.push_back(-1);
  for (int k = 0; k < m; ++k) {
    const int64_t size = x[k + 1], b = block[static_cast<size_t>(k)];
    if (size < 0) return n.fail("the size of the image must be known");
    cut.push_back(size);
    perm.insert(perm.end(), {int64_t{m + 1 + k}, int64_t{k}});
    shape.push_back(size * b);
    starts.push_back(crops[static_cast<size_t>(2 * k)]);
    ends.push_back(size * b - crops[static_cast<size_t>(2 * k) + 1]);
    axes.push_back(k + 1);
  }
  for (int k = m + 1; k < rank; ++k) {
    if (x[k] < 0) return n.fail("the size of the image must be known");
    perm.push_back(static_cast<int64_t>(cut.size()));
    cut.push_back(x[k]);
    shape.push_back(x[k]);
  }
  const Name y = n.reshape(n.transpose(n.reshape(n.raw(0), cut), perm), shape);
  n.bind_raw(0, n.op("Slice", {y, n.i64(starts), n.i64(ends), n.i64(axes)}));
}

void write_shape_of(NodeWriter& n) {
  const auto& a = n.attrs<ShapeOfAttrs>();
  const bool part = a.start != 0 || a.end != INT64_MAX;
  Name y = kNoName;
  if (n.channels_first_at_hand(0) && n.type(0).ranked) {
    const auto perm = to_channels_last(n.rank(0));
    y = n.op("Gather", {n.op("Shape", {n.raw(0, Order::kChannelsFirst)}), n.i64(perm)});
    if (part) y = n.slice(y, a.start, a.end, 0);
  } else if (part && n.model().need_opset(15)) {
    std::vector<Attribute> attributes{{"start", a.start}};
    if (a.end != INT64_MAX) attributes.emplace_back("end", a.end);
    y = n.op("Shape", {n.raw(0)}, attributes);
  } else {
    y = n.op("Shape", {n.raw(0)});
    if (part) y = n.slice(y, a.start, a.end, 0);
  }
  n.bind_raw(0, a.to == DType::kI64 ? y : n.cast(y, a.to));
}

void write_size_of(NodeWriter& n) {
  const DType to = n.attrs<ShapeOfAttrs>().to;
  const Name y = n.op("Size", {n.raw(0)});
  n.bind_raw(0, to == DType::kI64 ? y : n.cast(y, to));
}

void write_rank_of(NodeWriter& n) {
  const DType to = n.attrs<ShapeOfAttrs>().to;
  const Name y = n.op("Size", {n.op("Shape", {n.raw(0)})});
  n.bind_raw(0, to == DType::kI64 ? y : n.cast(y, to));
}

void write_fill(NodeWriter& n) {
  const Tensor* value = n.constant(1);
  if (value && value->elements() == 1 && value->dtype() != DType::kString)
    return n.bind_raw(0, n.op("ConstantOfShape", {n.in_i64(0)}, {{"value", value->reshaped(Shape{1})}}));
  n.bind_raw(0, n.op("Expand", {n.reshape(n.raw(1), {}), n.in_i64(0)}));
}

void write_range(NodeWriter& n) { n.bind_raw(0, n.op("Range", {n.in(0), n.in(1), n.in(2)})); }

void write_eye(NodeWriter& n) {
  const auto& a = n.attrs<FillAttrs>();
  n.bind_raw(0, n.op("EyeLike", {n.in(0)}, {{"dtype", type_code(a.to)}, {"k", a.offset}}));
}

void write_broadcast_shape(NodeWriter& n) {
  if (!n.type(0).is_static() || !n.type(1).is_static()) return n.fail("the ranks must be known");
  const int64_t r0 = n.type(0).shape[0], r1 = n.type(1).shape[0];
  const auto widened = [&](int i, int64_t missing) {
    const Name x = n.in_i64(i);
    const std::vector<int64_t> ones(static_cast<size_t>(std::max<int64_t>(missing, 0)), 1);
    return ones.empty() ? x : n.op("Concat", {n.i64(ones), x}, {{"axis", int64_t{0}}});
  };
  const Name y = n.op("Max", {widened(0, r1 - r0), widened(1, r0 - r1)});
  n.bind_raw(0, n.out_type(0).dtype == DType::kI64 ? y : n.cast(y, n.out_type(0).dtype));
}

void write_center_crop_pad(NodeWriter& n) {
  const auto axes = n.need_ints(2, "the axes");
  n.bind_raw(0, n.op("CenterCropPad", {n.raw(0), n.in_i64(1)}, {{"axes", axes}}));
}

constexpr OpWriter kShape[] = {
    {Op::kReshape, write_reshape, "Reshape"},
    {Op::kSqueeze, write_squeeze, "Squeeze"},
    {Op::kUnsqueeze, write_unsqueeze, "Unsqueeze"},
    {Op::kFlatten, write_flatten, "Flatten"},
    {Op::kTranspose, write_transpose, "Transpose"},
    {Op::kExpand, write_expand, "Expand"},
    {Op::kTile, write_tile, "Tile"},
    {Op::kConcat, write_concat, "Concat"},
    {Op::kStack, write_stack, "Unsqueeze, Concat"},
    {Op::kUnstack, write_unstack, "Gather"},
    {Op::kSplit, write_split, "Split"},
    {Op::kDepthSpace, write_depth_space, "DepthToSpace, SpaceToDepth"},
    {Op::kSpaceToBatch, write_space_to_batch, "Pad, Reshape, Transpose"},
    {Op::kBatchToSpace, write_batch_to_space, "Reshape, Transpose, Slice"},
    {Op::kShapeOf, write_shape_of, "Shape"},
    {Op::kSizeOf, write_size_of, "Size"},
    {Op::kRankOf, write_rank_of, "Size, Shape"},
    {Op::kFill, write_fill, "ConstantOfShape, Expand"},
    {Op::kRange, write_range, "Range"},
    {Op::kEye, write_eye, "EyeLike"},
    {Op::kBroadcastShape, write_broadcast_shape, "Concat, Max"},
    {Op::kCenterCropPad, write_center_crop_pad, "CenterCropPad"},
};

}  // namespace

std::span<const OpWriter> shape_writers() { return kShape; }

}  // namespace smelt::onnx
