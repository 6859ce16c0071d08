// Views and data movement: reshape, permute, slice, join, pad.
#include <algorithm>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// Copies of x that differ in memory layout or element type only; lower() converts to the declared type.
void same(CallContext& c) { c.result(c.unary(Unary::kIdentity, c.t(0))); }

/// _to_copy: the functional form names the dtype in argument 1.
void to_copy(CallContext& c) {
  const ValueId x = c.t(0);
  DType to = c.out_dtype();
  if (to == DType::kInvalid && c.arg(1).kind == Arg::Kind::kInt) to = scalar_type(c.i(1));
  c.result(to == DType::kInvalid || to == c.dtype(x) ? c.identity(x) : c.cast(x, to));
}

/// copy(self, src): src in self's shape and type.
void copy(CallContext& c) {
  const ValueId self = c.t(0);
  const ValueId src = c.cast(c.t(1), c.dtype(self));
  const bool alike = c.type(self).is_static() && c.type(src).is_static() && c.type(self).shape == c.type(src).shape;
  c.result(alike ? c.identity(src) : c.expand(src, c.shape_of(self)));
}
/// copy_(self, src): argument 0 takes the contents.
void copy_(CallContext& c) {
  copy(c);
  if (c.ok()) c.lowered.mutated.emplace_back(0, c.lowered.outputs[0]);
}

void view(CallContext& c) { c.result(c.reshape_to(c.t(0), c.int_vector(1))); }

void view_dtype(CallContext& c) {
  if (c.arg(1).kind == Arg::Kind::kInt) return c.emit(Op::kBitCast, CastAttrs(scalar_type(c.i(1))), {c.t(0)});
  view(c);
}

void permute(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  const auto perm = c.axes(c.ints(1), r);
  if (static_cast<int>(perm.size()) != r) return c.fail("permute has ", perm.size(), " dims, ", r, " expected");
  c.result(r == 0 ? c.identity(x) : c.transpose(x, perm));
}

void transpose(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  const int64_t a = c.axis(c.i(1), r), bb = c.axis(c.i(2), r);
  if (r == 0 || !c.ok()) return same(c);
  std::vector<int64_t> perm(static_cast<size_t>(r));
  for (int i = 0; i < r; ++i) perm[static_cast<size_t>(i)] = i;
  std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(bb)]);
  c.result(c.transpose(x, perm));
}

void t(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.rank(x) < 2 ? c.identity(x) : c.transpose(x, {1, 0}));
}

void squeeze(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  std::vector<int64_t> axes = c.axes(c.ints(1), r), ones;
  if (c.none(1))
    for (int i = 0; i < r; ++i) axes.push_back(i);
  const bool all = !c.none(1) && c.out_rank() == r - static_cast<int>(axes.size());
  for (int64_t a : axes)
    if (c.dim(x, a) == 1 || (all && c.dim(x, a) < 0)) ones.push_back(a);
  c.result(r == 0 || ones.empty() ? c.identity(x) : c.squeeze(x, ones));
}

void unsqueeze(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.unsqueeze(x, {c.axis(c.i(1), c.rank(x) + 1)}));
}

/// -1 keeps a dimension, as broadcasting with 1 does.
void expand(CallContext& c) {
  std::vector<Int> size = c.arg(1).ints;
  for (Int& s : size)
    if (!s.symbolic() && s.value == -1) s.value = 1;
  c.result(c.expand(c.t(0), c.int_vector(size)));
}

void repeat(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x), n = static_cast<int>(c.arg(1).ints.size());
  if (n < r) return c.fail("repeat has ", n, " entries for rank ", r);
  ValueId wide = x;
  if (n > r) {
    std::vector<int64_t> front;
    for (int i = 0; i < n - r; ++i) front.push_back(i);
    wide = c.unsqueeze(x, front);
  }
  c.result(n == 0 ? c.identity(x) : c.add(Op::kTile, {wide, c.int_vector(1)}));
}

/// An int64 vector of one entry from an argument, or from `otherwise` when it is None.
ValueId one_int(CallContext& c, size_t at, int64_t otherwise) {
  const Arg& a = c.arg(at);
  if (a.kind == Arg::Kind::kSymbol || a.kind == Arg::Kind::kTensor) return c.int_vector(std::vector<Int>{{0, a.id}});
  return c.i64({c.i(at, otherwise)});
}

/// A slice of x from `start` on, which a run knows, of `size` elements along an axis, none where that is negative: its
/// shape is known wherever it lies. A slice beyond x is an error when it runs. kNoValue: other extents are not known.
ValueId sized_slice(CallContext& c, ValueId x, int64_t axis, ValueId start, ValueId size) {
  std::vector<Int> begins, sizes;
  for (int64_t d = 0; d < c.rank(x); ++d) {
    if (d != axis && c.dim(x, d) < 0) return kNoValue;
    begins.push_back(d == axis ? Int{0, start} : Int{0});
    sizes.push_back(Int{c.dim(x, d)});
  }
  const Tensor* const number = c.constant_of(size);
  sizes[static_cast<size_t>(axis)] =
      number ? Int{std::max<int64_t>(*number->data<int64_t>(), 0)}
             : Int{0, c.binary(Binary::kMax, c.cast(size, DType::kI64), c.integer(DType::kI64, 0))};
  return c.add(Op::kSliceSize, {x, c.int_vector(begins), c.int_vector(sizes)});
}

/// The slice that slice() takes where its end is its start and a number, as PyTorch decomposes narrow(). kNoValue: it
/// is not, or the slice's shape is not known all the same.
ValueId narrowed(CallContext& c, ValueId x, int64_t axis) {
  if (c.arg(2).kind != Arg::Kind::kSymbol || c.arg(3).kind != Arg::Kind::kSymbol || c.i(4, 1) != 1) return kNoValue;
  const ValueId size = c.other_addend(c.arg(3).id, c.arg(2).id);
  return size == kNoValue ? kNoValue : sized_slice(c, x, axis, c.arg(2).id, size);
}

/// slice(self, dim=0, start=None, end=None, step=1).
void slice(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(1, 0), c.rank(x));
  if (!c.none(4) && c.i(4) <= 0) return c.fail("slice step must be positive");
  if (const ValueId y = narrowed(c, x, axis); y != kNoValue) return c.result(y);
  c.emit(Op::kSlice, {x, one_int(c, 2, 0), one_int(c, 3, INT64_MAX), c.i64({axis}), one_int(c, 4, 1)});
}

/// narrow(self, dim, start, length).
void narrow(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(1), c.rank(x));
  if (c.arg(2).kind == Arg::Kind::kSymbol)
    if (const ValueId y = sized_slice(c, x, axis, c.arg(2).id, c.int_value(3)); y != kNoValue) return c.result(y);
  const ValueId length = one_int(c, 3, 0);
  ValueId start = one_int(c, 2, 0);
  if (const Tensor* k = c.constant_of(start); k && *k->data<int64_t>() < 0) {
    start = c.binary(Binary::kAdd, c.dims_of(x, axis, axis + 1), start);
  }
  c.emit(Op::kSlice, {x, start, c.binary(Binary::kAdd, start, length), c.i64({axis}), c.i64({1})});
}

void select(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  if (r == 0) return c.fail("select on a scalar");
  GatherAttrs a;
  a.axis = c.axis(c.i(1), r);
  c.emit(Op::kGather, a, {x, c.int_value(2)});
}

/// split(self, size, dim): as many parts as there are outputs.
void split(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(2, 0), c.rank(x));
  if (c.arg(1).kind == Arg::Kind::kInts) {
    const auto sizes = c.ints(1);
    if (!c.ok()) return;
    if (sizes.empty()) return c.fail("split into no parts");
    SplitAttrs a;
    a.axis = axis;
    for (ValueId v : c.add_n(Op::kSplit, a, {x, c.i64(sizes)}, static_cast<int>(sizes.size()))) c.result(v);
    return;
  }
  const int64_t size = c.i(1), n = c.dim(x, axis);
  if (size < 0 || (size == 0 && n != 0)) return c.fail("split size ", size);
  int64_t parts = static_cast<int64_t>(c.outputs());
  if (parts == 0) parts = n < 0 || size == 0 ? 1 : std::max<int64_t>(1, (n + size - 1) / size);
  if (size > 0 && n >= 0 && parts != std::max<int64_t>(1, (n + size - 1) / size))
    return c.fail("split of ", n, " by ", size, " does not give ", parts, " parts");
  for (int64_t k = 0; k < parts; ++k) c.result(c.slice(x, axis, k * size, (k + 1) * size));
}

void chunk(CallContext& c) {
  const ValueId x = c.t(0);
  SplitAttrs a;
  a.axis = c.axis(c.i(2, 0), c.rank(x));
  a.count = c.i(1);
  if (a.count <= 0 || a.count > 65536) return c.fail("chunk into ", a.count);
  c.results(c.add_n(Op::kSplit, a, {x}, static_cast<int>(a.count)));
}

void unbind(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(1, 0), c.rank(x));
  int64_t n = static_cast<int64_t>(c.outputs());
  if (n == 0) n = c.dim(x, axis);
  if (n <= 0 || n > 1 << 20) return c.unsupported("unbind into an unknown number of parts");
  c.results(c.add_n(Op::kUnstack, AxisAttrs(axis), {x}, static_cast<int>(n)));
}

/// Tensors of a list in their common type.
std::vector<ValueId> joined_list(CallContext& c, size_t at) {
  std::vector<ValueId> list = c.tensors(at);
  std::vector<Operand> operands;
  for (ValueId v : list) {
    if (v == kNoValue) {
      c.fail("an absent tensor in a list to join");
      return {};
    }
    operands.push_back(c.operand_of(v));
  }
  const DType to = c.result_type(operands);
  for (ValueId& v : list) v = c.cast(v, to);
  if (list.empty()) c.fail("an empty list to join");
  return list;
}

/// cat skips empty vectors of rank 1, as PyTorch does.
void cat(CallContext& c) {
  std::vector<ValueId> list = joined_list(c, 0);
  if (!c.ok()) return;
  int r = 1;
  for (ValueId v : list) r = std::max(r, c.rank(v));
  if (r > 1) std::erase_if(list, [&](ValueId v) { return c.type(v).shape.rank() == 1 && c.dim(v, 0) == 0; });
  if (!c.ok()) return;
  const int64_t axis = c.axis(c.i(1, 0), r);
  c.result(list.size() == 1 ? c.identity(list[0]) : c.concat(list, axis));
}

void stack(CallContext& c) {
  const std::vector<ValueId> list = joined_list(c, 0);
  if (!c.ok()) return;
  c.emit(Op::kStack, AxisAttrs(c.axis(c.i(1, 0), c.rank(list[0]) + 1)), list);
}

void flip(CallContext& c) {
  const ValueId x = c.t(0);
  const auto axes = c.axes(c.ints(1), c.rank(x));
  c.result(axes.empty() || c.rank(x) == 0 ? c.identity(x) : c.add(Op::kReverse, {x, c.i64(axes)}));
}

void roll(CallContext& c) {
  const ValueId x = c.t(0);
  const auto axes = c.axes(c.ints(2), c.rank(x));
  c.emit(Op::kRoll, {x, c.i64(c.ints(1)), c.i64(axes)});
}

/// PyTorch lists pads from the last dimension on, begin and end.
void pad_with(CallContext& c, PadAttrs::Mode mode, ValueId value) {
  const ValueId x = c.t(0);
  const auto pads = c.ints(1);
  const int r = c.rank(x);
  if (pads.size() % 2 || pads.size() > static_cast<size_t>(2 * r))
    return c.fail(pads.size(), " pad widths for rank ", r);
  std::vector<int64_t> order(static_cast<size_t>(2 * r), 0);
  for (size_t i = 0; i < pads.size(); ++i) {
    const size_t dim = static_cast<size_t>(r) - 1 - i / 2;
    order[i % 2 ? static_cast<size_t>(r) + dim : dim] = pads[i];
  }
  PadAttrs a;
  a.mode = mode;
  std::vector<ValueId> in{x, c.i64(order)};
  if (value != kNoValue) in.push_back(value);
  c.emit(Op::kPad, a, in);
}

void constant_pad(CallContext& c) {
  const ValueId x = c.t(0);
  if (!c.ok()) return;
  const ValueId value = c.none(2) ? c.number(c.dtype(x), 0) : c.as(c.operand(2), c.dtype(x));
  pad_with(c, PadAttrs::Mode::kConstant, value);
}
void reflection_pad(CallContext& c) { pad_with(c, PadAttrs::Mode::kReflect, kNoValue); }
void replication_pad(CallContext& c) { pad_with(c, PadAttrs::Mode::kEdge, kNoValue); }

/// pad(self, pad, mode="constant", value?).
void pad(CallContext& c) {
  const std::string mode = c.text(2, "constant");
  if (mode == "reflect") return reflection_pad(c);
  if (mode == "replicate") return replication_pad(c);
  if (mode == "circular") return pad_with(c, PadAttrs::Mode::kWrap, kNoValue);
  const ValueId x = c.t(0);
  if (c.ok())
    pad_with(c, PadAttrs::Mode::kConstant, c.none(3) ? c.number(c.dtype(x), 0) : c.as(c.operand(3), c.dtype(x)));
}

/// Depth and space exchanged on [..., C, H, W].
template <bool to_depth>
void pixel_shuffle(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  BlockAttrs a;
  a.block = c.i(1);
  a.to_depth = to_depth;
  a.channel_first_order = true;
  if (r < 3 || a.block <= 0) return c.fail("pixel shuffle of rank ", r, " by ", a.block);
  if (r == 4) return c.emit(Op::kDepthSpace, a, {x});
  if (r == 3) return c.result(c.squeeze(c.add(Op::kDepthSpace, a, {c.unsqueeze(x, {0})}), {0}));
  std::vector<int64_t> lead, flat{-1};
  for (int i = 0; i < r; ++i) (i < r - 3 ? lead : flat).push_back(c.dim(x, i));
  ValueId y = c.add(Op::kDepthSpace, a, {c.reshape(x, flat)});
  for (int i = 1; i < 4; ++i) lead.push_back(c.dim(y, i));
  if (std::count(lead.begin(), lead.end(), -1) > 1) return c.unsupported("pixel shuffle of unknown dimensions");
  c.result(c.reshape(y, lead));
}

template <bool upper>
void triangle(CallContext& c) {
  TriangleAttrs a;
  a.upper = upper;
  c.emit(Op::kTriangle, a, {c.t(0), c.integer(DType::kI64, c.i(1, 0))});
}

void diagonal(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  DiagonalAttrs a;
  a.offset = c.i(1, 0);
  a.axis1 = c.axis(c.i(2, 0), r);
  a.axis2 = c.axis(c.i(3, 1), r);
  c.emit(Op::kDiagonal, a, {x});
}

void as_strided(CallContext& c) {
  AsStridedAttrs a;
  a.size = c.ints(1);
  a.stride = c.ints(2);
  a.offset = c.i(3, 0);
  c.emit(Op::kAsStrided, a, {c.t(0)});
}

void unfold(CallContext& c) {
  const ValueId x = c.t(0);
  UnfoldAttrs a;
  a.axis = c.axis(c.i(1), c.rank(x));
  a.size = c.i(2);
  a.step = c.i(3);
  c.emit(Op::kUnfold, a, {x});
}

/// flatten.using_ints(self, start=0, end=-1).
void flatten(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  const int64_t first = c.axis(c.i(1, 0), r), last = c.axis(c.i(2, -1), r);
  if (r == 0) return c.result(c.reshape(x, {1}));
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < r; ++i) {
    if (i < first || i > last)
      shape.push_back(c.dim(x, i));
    else if (i == first)
      shape.push_back(-1);
  }
  if (std::count(shape.begin(), shape.end(), -1) > 1) return c.unsupported("flatten of unknown dimensions");
  c.result(c.reshape(x, shape));
}

constexpr OpEntry kEntries[] = {
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

std::span<const OpEntry> shape_entries() { return kEntries; }

}  // namespace smelt::aten
