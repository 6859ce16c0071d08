// Views and moves: reshape, permute, slice, join, pad.
#include <algorithm>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// Copies of x that differ in memory layout or element type only; lower() converts to the declared type.
void same(L& l) { l.result(l.unary(Unary::kIdentity, l.t(0))); }

/// _to_copy: the functional form names the dtype in argument 1.
void to_copy(L& l) {
  const ValueId x = l.t(0);
  DType to = l.out_dtype();
  if (to == DType::kInvalid && l.arg(1).kind == Arg::Kind::kInt) to = scalar_type(l.i(1));
  l.result(to == DType::kInvalid || to == l.dtype(x) ? l.unary(Unary::kIdentity, x) : l.cast(x, to));
}

/// copy(self, src): src in self's shape and type.
void copy(L& l) {
  const ValueId self = l.t(0);
  const ValueId src = l.cast(l.t(1), l.dtype(self));
  const bool alike = l.type(self).is_static() && l.type(src).is_static() && l.type(self).shape == l.type(src).shape;
  l.result(alike ? l.unary(Unary::kIdentity, src) : l.op(Op::kExpand, make_attrs<NoAttrs>(), {src, l.shape_of(self)}));
}
/// copy_(self, src): argument 0 takes the contents.
void copy_(L& l) {
  copy(l);
  if (l.ok()) l.lowered.mutated.emplace_back(0, l.lowered.outputs[0]);
}

void view(L& l) { l.result(l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.t(0), l.int_vector(1)})); }

void view_dtype(L& l) {
  if (l.arg(1).kind == Arg::Kind::kInt)
    return l.result(l.op(Op::kBitCast, make_attrs<CastAttrs>(scalar_type(l.i(1))), {l.t(0)}));
  view(l);
}

void permute(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  const auto perm = l.axes(l.ints(1), r);
  if (static_cast<int>(perm.size()) != r)
    return l.fail(InvalidModel("permute has ", perm.size(), " dims, ", r, " expected"));
  l.result(r == 0 ? l.unary(Unary::kIdentity, x) : l.transpose(x, perm));
}

void transpose(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  const int64_t a = l.axis(l.i(1), r), bb = l.axis(l.i(2), r);
  if (r == 0 || !l.ok()) return same(l);
  std::vector<int64_t> perm(static_cast<size_t>(r));
  for (int i = 0; i < r; ++i) perm[static_cast<size_t>(i)] = i;
  std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(bb)]);
  l.result(l.transpose(x, perm));
}

void t(L& l) {
  const ValueId x = l.t(0);
  l.result(l.rank(x) < 2 ? l.unary(Unary::kIdentity, x) : l.transpose(x, {1, 0}));
}

void squeeze(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  std::vector<int64_t> axes = l.axes(l.ints(1), r), ones;
  if (l.none(1))
    for (int i = 0; i < r; ++i) axes.push_back(i);
  const bool all = !l.none(1) && l.out_rank() == r - static_cast<int>(axes.size());
  for (int64_t a : axes)
    if (l.dim(x, a) == 1 || (all && l.dim(x, a) < 0)) ones.push_back(a);
  l.result(r == 0 || ones.empty() ? l.unary(Unary::kIdentity, x) : l.squeeze(x, ones));
}

void unsqueeze(L& l) {
  const ValueId x = l.t(0);
  l.result(l.unsqueeze(x, {l.axis(l.i(1), l.rank(x) + 1)}));
}

/// -1 keeps a dimension, as broadcasting with 1 does.
void expand(L& l) {
  std::vector<Int> size = l.arg(1).ints;
  for (Int& s : size)
    if (!s.symbolic() && s.value == -1) s.value = 1;
  l.result(l.op(Op::kExpand, make_attrs<NoAttrs>(), {l.t(0), l.int_vector(size)}));
}

void repeat(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x), n = static_cast<int>(l.arg(1).ints.size());
  if (n < r) return l.fail(InvalidModel("repeat has ", n, " entries for rank ", r));
  ValueId wide = x;
  if (n > r) {
    std::vector<int64_t> front;
    for (int i = 0; i < n - r; ++i) front.push_back(i);
    wide = l.unsqueeze(x, front);
  }
  l.result(n == 0 ? l.unary(Unary::kIdentity, x) : l.op(Op::kTile, make_attrs<NoAttrs>(), {wide, l.int_vector(1)}));
}

/// An int64 vector of one entry from an argument, or from `otherwise` when it is None.
ValueId one_int(L& l, size_t at, int64_t otherwise) {
  const Arg& a = l.arg(at);
  if (a.kind == Arg::Kind::kSymbol || a.kind == Arg::Kind::kTensor) return l.int_vector(std::vector<Int>{{0, a.id}});
  return l.b.i64({l.i(at, otherwise)});
}

/// slice(self, dim=0, start=None, end=None, step=1).
void slice(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(1, 0), l.rank(x));
  if (!l.none(4) && l.i(4) <= 0) return l.fail(InvalidModel("slice step must be positive"));
  l.result(l.op(Op::kSlice, make_attrs<NoAttrs>(),
                {x, one_int(l, 2, 0), one_int(l, 3, INT64_MAX), l.b.i64({axis}), one_int(l, 4, 1)}));
}

/// narrow(self, dim, start, length).
void narrow(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(1), l.rank(x));
  const ValueId length = one_int(l, 3, 0);
  ValueId start = one_int(l, 2, 0);
  if (const Tensor* k = l.b.constant_of(start); k && *k->data<int64_t>() < 0) {
    ShapeOfAttrs at;
    at.start = axis;
    at.end = axis + 1;
    start = l.binary(Binary::kAdd, l.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(at), {x}), start);
  }
  l.result(l.op(Op::kSlice, make_attrs<NoAttrs>(),
                {x, start, l.binary(Binary::kAdd, start, length), l.b.i64({axis}), l.b.i64({1})}));
}

void select(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  if (r == 0) return l.fail(InvalidModel("select on a scalar"));
  GatherAttrs a;
  a.axis = l.axis(l.i(1), r);
  l.result(l.op(Op::kGather, make_attrs<GatherAttrs>(a), {x, l.int_value(2)}));
}

/// split(self, size, dim): as many pieces as there are outputs.
void split(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(2, 0), l.rank(x));
  if (l.arg(1).kind == Arg::Kind::kInts) {
    const auto sizes = l.ints(1);
    if (!l.ok()) return;
    if (sizes.empty()) return l.fail(InvalidModel("split into no pieces"));
    SplitAttrs a;
    a.axis = axis;
    for (ValueId v : l.ops(Op::kSplit, make_attrs<SplitAttrs>(a), {x, l.b.i64(sizes)}, static_cast<int>(sizes.size())))
      l.result(v);
    return;
  }
  const int64_t size = l.i(1), n = l.dim(x, axis);
  if (size < 0 || (size == 0 && n != 0)) return l.fail(InvalidModel("split size ", size));
  int64_t pieces = static_cast<int64_t>(l.outputs());
  if (pieces == 0) pieces = n < 0 || size == 0 ? 1 : std::max<int64_t>(1, (n + size - 1) / size);
  if (size > 0 && n >= 0 && pieces != std::max<int64_t>(1, (n + size - 1) / size))
    return l.fail(InvalidModel("split of ", n, " by ", size, " does not give ", pieces, " pieces"));
  for (int64_t k = 0; k < pieces; ++k) l.result(l.slice(x, axis, k * size, (k + 1) * size));
}

void chunk(L& l) {
  const ValueId x = l.t(0);
  SplitAttrs a;
  a.axis = l.axis(l.i(2, 0), l.rank(x));
  a.count = l.i(1);
  if (a.count <= 0 || a.count > 65536) return l.fail(InvalidModel("chunk into ", a.count));
  for (ValueId v : l.ops(Op::kSplit, make_attrs<SplitAttrs>(a), {x}, static_cast<int>(a.count))) l.result(v);
}

void unbind(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(1, 0), l.rank(x));
  int64_t n = static_cast<int64_t>(l.outputs());
  if (n == 0) n = l.dim(x, axis);
  if (n <= 0 || n > 1 << 20) return l.fail(Unsupported("unbind into an unknown number of pieces"));
  for (ValueId v : l.ops(Op::kUnstack, make_attrs<AxisAttrs>(axis), {x}, static_cast<int>(n))) l.result(v);
}

/// Tensors of a list in their common type.
std::vector<ValueId> joined_list(L& l, size_t at) {
  std::vector<ValueId> list = l.tensors(at);
  std::vector<L::Operand> operands;
  for (ValueId v : list) {
    if (v == kNoValue) {
      l.fail(InvalidModel("an absent tensor in a list to join"));
      return {};
    }
    operands.push_back(l.operand_of(v));
  }
  const DType to = l.result_type(operands);
  for (ValueId& v : list) v = l.cast(v, to);
  if (list.empty()) l.fail(InvalidModel("an empty list to join"));
  return list;
}

/// cat skips empty vectors of rank 1, as PyTorch does.
void cat(L& l) {
  std::vector<ValueId> list = joined_list(l, 0);
  if (!l.ok()) return;
  int r = 1;
  for (ValueId v : list) r = std::max(r, l.rank(v));
  if (r > 1) std::erase_if(list, [&](ValueId v) { return l.type(v).shape.rank() == 1 && l.dim(v, 0) == 0; });
  if (!l.ok()) return;
  const int64_t axis = l.axis(l.i(1, 0), r);
  l.result(list.size() == 1 ? l.unary(Unary::kIdentity, list[0])
                            : l.op(Op::kConcat, make_attrs<AxisAttrs>(axis), list));
}

void stack(L& l) {
  const std::vector<ValueId> list = joined_list(l, 0);
  if (!l.ok()) return;
  l.result(l.op(Op::kStack, make_attrs<AxisAttrs>(l.axis(l.i(1, 0), l.rank(list[0]) + 1)), list));
}

void flip(L& l) {
  const ValueId x = l.t(0);
  const auto axes = l.axes(l.ints(1), l.rank(x));
  l.result(axes.empty() || l.rank(x) == 0 ? l.unary(Unary::kIdentity, x)
                                          : l.op(Op::kReverse, make_attrs<NoAttrs>(), {x, l.b.i64(axes)}));
}

void roll(L& l) {
  const ValueId x = l.t(0);
  const auto axes = l.axes(l.ints(2), l.rank(x));
  l.result(l.op(Op::kRoll, make_attrs<NoAttrs>(), {x, l.b.i64(l.ints(1)), l.b.i64(axes)}));
}

/// PyTorch lists pads from the last dimension on, begin and end.
void pad_with(L& l, PadAttrs::Mode mode, ValueId value) {
  const ValueId x = l.t(0);
  const auto pads = l.ints(1);
  const int r = l.rank(x);
  if (pads.size() % 2 || pads.size() > static_cast<size_t>(2 * r))
    return l.fail(InvalidModel(pads.size(), " pad widths for rank ", r));
  std::vector<int64_t> order(static_cast<size_t>(2 * r), 0);
  for (size_t i = 0; i < pads.size(); ++i) {
    const size_t dim = static_cast<size_t>(r) - 1 - i / 2;
    order[i % 2 ? static_cast<size_t>(r) + dim : dim] = pads[i];
  }
  PadAttrs a;
  a.mode = mode;
  std::vector<ValueId> in{x, l.b.i64(order)};
  if (value != kNoValue) in.push_back(value);
  l.result(l.op(Op::kPad, make_attrs<PadAttrs>(a), in));
}

void constant_pad(L& l) {
  const ValueId x = l.t(0);
  if (!l.ok()) return;
  const ValueId value = l.none(2) ? l.number(l.dtype(x), 0) : l.as(l.operand(2), l.dtype(x));
  pad_with(l, PadAttrs::Mode::kConstant, value);
}
void reflection_pad(L& l) { pad_with(l, PadAttrs::Mode::kReflect, kNoValue); }
void replication_pad(L& l) { pad_with(l, PadAttrs::Mode::kEdge, kNoValue); }

/// pad(self, pad, mode="constant", value?).
void pad(L& l) {
  const std::string mode = l.text(2, "constant");
  if (mode == "reflect") return reflection_pad(l);
  if (mode == "replicate") return replication_pad(l);
  if (mode == "circular") return pad_with(l, PadAttrs::Mode::kWrap, kNoValue);
  const ValueId x = l.t(0);
  if (l.ok())
    pad_with(l, PadAttrs::Mode::kConstant, l.none(3) ? l.number(l.dtype(x), 0) : l.as(l.operand(3), l.dtype(x)));
}

/// Depth and space exchanged on [..., C, H, W].
template <bool to_depth>
void pixel_shuffle(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  BlockAttrs a;
  a.block = l.i(1);
  a.to_depth = to_depth;
  a.channel_first_order = true;
  if (r < 3 || a.block <= 0) return l.fail(InvalidModel("pixel shuffle of rank ", r, " by ", a.block));
  if (r == 4) return l.result(l.op(Op::kDepthSpace, make_attrs<BlockAttrs>(a), {x}));
  if (r == 3) return l.result(l.squeeze(l.op(Op::kDepthSpace, make_attrs<BlockAttrs>(a), {l.unsqueeze(x, {0})}), {0}));
  std::vector<int64_t> lead, flat{-1};
  for (int i = 0; i < r; ++i) (i < r - 3 ? lead : flat).push_back(l.dim(x, i));
  ValueId y = l.op(Op::kDepthSpace, make_attrs<BlockAttrs>(a), {l.reshape(x, flat)});
  for (int i = 1; i < 4; ++i) lead.push_back(l.dim(y, i));
  if (std::count(lead.begin(), lead.end(), -1) > 1) return l.fail(Unsupported("pixel shuffle of unknown dimensions"));
  l.result(l.reshape(y, lead));
}

template <bool upper>
void triangle(L& l) {
  TriangleAttrs a;
  a.upper = upper;
  l.result(l.op(Op::kTriangle, make_attrs<TriangleAttrs>(a), {l.t(0), l.integer(DType::kI64, l.i(1, 0))}));
}

void diagonal(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  DiagonalAttrs a;
  a.offset = l.i(1, 0);
  a.axis1 = l.axis(l.i(2, 0), r);
  a.axis2 = l.axis(l.i(3, 1), r);
  l.result(l.op(Op::kDiagonal, make_attrs<DiagonalAttrs>(a), {x}));
}

void as_strided(L& l) {
  AsStridedAttrs a;
  a.size = l.ints(1);
  a.stride = l.ints(2);
  a.offset = l.i(3, 0);
  l.result(l.op(Op::kAsStrided, make_attrs<AsStridedAttrs>(a), {l.t(0)}));
}

void unfold(L& l) {
  const ValueId x = l.t(0);
  UnfoldAttrs a;
  a.axis = l.axis(l.i(1), l.rank(x));
  a.size = l.i(2);
  a.step = l.i(3);
  l.result(l.op(Op::kUnfold, make_attrs<UnfoldAttrs>(a), {x}));
}

/// flatten.using_ints(self, start=0, end=-1).
void flatten(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  const int64_t first = l.axis(l.i(1, 0), r), last = l.axis(l.i(2, -1), r);
  if (r == 0) return l.result(l.reshape(x, {1}));
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < r; ++i) {
    if (i < first || i > last)
      shape.push_back(l.dim(x, i));
    else if (i == first)
      shape.push_back(-1);
  }
  if (std::count(shape.begin(), shape.end(), -1) > 1) return l.fail(Unsupported("flatten of unknown dimensions"));
  l.result(l.reshape(x, shape));
}

constexpr Entry kEntries[] = {
    {"aten::clone", same},
    {"aten::alias_copy", same},
    {"aten::alias", same},
    {"aten::detach_copy", same},
    {"aten::detach", same},
    {"aten::lift_fresh_copy", same},
    {"aten::contiguous", same},
    {"aten::dropout", same},
    {"aten::_to_copy", to_copy},
    {"dim_order_ops::_to_dim_order_copy", to_copy},
    {"dim_order_ops::_clone_dim_order", same},
    {"et_copy::_h2d_copy", same},
    {"et_copy::_d2h_copy", same},
    {"aten::copy", copy},
    {"aten::copy_", copy_},
    {"aten::view_copy", view_dtype},
    {"aten::view", view_dtype},
    {"aten::_unsafe_view", view},
    {"aten::reshape", view},
    {"aten::_reshape_copy", view},
    {"aten::_reshape_alias", view},
    {"aten::permute_copy", permute},
    {"aten::permute", permute},
    {"aten::transpose_copy", transpose},
    {"aten::transpose", transpose},
    {"aten::t_copy", t},
    {"aten::t", t},
    {"aten::squeeze_copy", squeeze},
    {"aten::squeeze", squeeze},
    {"aten::unsqueeze_copy", unsqueeze},
    {"aten::unsqueeze", unsqueeze},
    {"aten::expand_copy", expand},
    {"aten::expand", expand},
    {"aten::repeat", repeat},
    {"aten::slice_copy", slice},
    {"aten::slice", slice},
    {"aten::narrow_copy", narrow},
    {"aten::narrow", narrow},
    {"aten::select_copy", select},
    {"aten::select", select},
    {"aten::split_copy", split},
    {"aten::split", split},
    {"aten::split_with_sizes_copy", split},
    {"aten::split_with_sizes", split},
    {"aten::chunk", chunk},
    {"aten::unbind_copy", unbind},
    {"aten::unbind", unbind},
    {"aten::cat", cat},
    {"aten::concat", cat},
    {"aten::stack", stack},
    {"aten::flip", flip},
    {"aten::roll", roll},
    {"aten::constant_pad_nd", constant_pad},
    {"aten::reflection_pad1d", reflection_pad},
    {"aten::reflection_pad2d", reflection_pad},
    {"aten::reflection_pad3d", reflection_pad},
    {"aten::replication_pad1d", replication_pad},
    {"aten::replication_pad2d", replication_pad},
    {"aten::replication_pad3d", replication_pad},
    {"aten::pad", pad},
    {"aten::pixel_shuffle", pixel_shuffle<false>},
    {"aten::pixel_unshuffle", pixel_shuffle<true>},
    {"aten::tril", triangle<false>},
    {"aten::triu", triangle<true>},
    {"aten::diagonal_copy", diagonal},
    {"aten::diagonal", diagonal},
    {"aten::as_strided_copy", as_strided},
    {"aten::as_strided", as_strided},
    {"aten::unfold_copy", unfold},
    {"aten::unfold", unfold},
    {"aten::flatten", flatten},
};

}  // namespace

std::span<const Entry> shape_entries() { return kEntries; }

}  // namespace smelt::aten
