// Indexing: gather, scatter, masks, and writes into slices.
#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// Index tensors of other integer types than int32 and int64 become int64; masks stay.
ValueId index_of(L& l, ValueId v) {
  const DType d = l.dtype(v);
  return v == kNoValue || d == DType::kBool || d == DType::kI64 || d == DType::kI32 ? v : l.cast(v, DType::kI64);
}

std::vector<ValueId> index_list(L& l, size_t at) {
  std::vector<ValueId> list = l.tensors(at);
  for (ValueId& v : list) {
    v = index_of(l, v);
    if (l.dtype(v) == DType::kU8) v = l.cast(v, DType::kBool);
  }
  while (!list.empty() && list.back() == kNoValue) list.pop_back();
  return list;
}

void index(L& l) {
  const auto list = index_list(l, 1);
  const ValueId x = l.t(0);
  if (list.empty()) return l.result(l.unary(Unary::kIdentity, x));
  std::vector<ValueId> in{x};
  in.insert(in.end(), list.begin(), list.end());
  l.result(l.op(Op::kIndexTensors, make_attrs<IndexAttrs>(), in));
}

void index_put(L& l) {
  const ValueId x = l.t(0);
  const auto list = index_list(l, 1);
  IndexAttrs a;
  a.accumulate = l.flag(3);
  std::vector<ValueId> in{x, l.cast(l.t(2), l.dtype(x))};
  in.insert(in.end(), list.begin(), list.end());
  l.result(l.op(Op::kIndexPut, make_attrs<IndexAttrs>(a), in));
}

void index_select(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  GatherAttrs a;
  a.axis = l.axis(l.i(1), r);
  const ValueId at = index_of(l, l.t(2));
  if (r == 0) return l.result(l.unary(Unary::kIdentity, x));
  const ValueId list = l.rank(at) == 0 ? l.reshape(at, {1}) : at;
  l.result(l.op(Op::kGather, make_attrs<GatherAttrs>(a), {x, list}));
}

void embedding(L& l) { l.result(l.op(Op::kGather, make_attrs<GatherAttrs>(), {l.t(0), index_of(l, l.t(1))})); }

void gather(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  GatherAttrs a;
  a.axis = l.axis(l.i(1), r);
  const ValueId at = index_of(l, l.t(2));
  if (l.rank(at) == 0 || r == 0) {
    const ValueId rows = r == 0 ? l.reshape(x, {1}) : x;
    const ValueId list = l.rank(at) == 0 ? l.reshape(at, {1}) : at;
    const ValueId y = l.op(Op::kGatherElements, make_attrs<GatherAttrs>(a), {rows, list});
    return l.result(l.rank(at) == 0 ? l.reshape(y, {}) : y);
  }
  l.result(l.op(Op::kGatherElements, make_attrs<GatherAttrs>(a), {x, at}));
}

/// x with `source` (a tensor, or a number filled to the index's shape) written along an axis. PyTorch lets the source
/// be larger than the index.
void scatter_with(L& l, ScatterAttrs a, ValueId source, bool include_self = true) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  a.axis = l.axis(l.i(1), r);
  a.include_self = include_self;
  ValueId at = index_of(l, l.t(2));
  source = l.cast(source, l.dtype(x));
  const int ri = l.rank(at);
  if (l.rank(source) == 0 && ri > 0)
    source = l.op(Op::kExpand, make_attrs<NoAttrs>(), {source, l.shape_of(at)});
  else if (ri > 0 &&
           !(l.type(at).is_static() && l.type(source).is_static() && l.type(at).shape == l.type(source).shape)) {
    std::vector<int64_t> starts(static_cast<size_t>(ri), 0);
    source = l.op(Op::kSlice, make_attrs<NoAttrs>(), {source, l.b.i64(starts), l.shape_of(at)});
  }
  if (r == 0 || ri == 0) {
    const ValueId rows = r == 0 ? l.reshape(x, {1}) : x;
    const ValueId y = l.op(Op::kScatterElements, make_attrs<ScatterAttrs>(a),
                           {rows, ri == 0 ? l.reshape(at, {1}) : at, ri == 0 ? l.reshape(source, {1}) : source});
    return l.result(r == 0 ? l.reshape(y, {}) : y);
  }
  l.result(l.op(Op::kScatterElements, make_attrs<ScatterAttrs>(a), {x, at, source}));
}

ScatterAttrs::Reduce reduction(L& l, const std::string& name) {
  using R = ScatterAttrs::Reduce;
  if (name.empty()) return R::kNone;
  if (name == "add" || name == "sum") return R::kAdd;
  if (name == "multiply" || name == "prod") return R::kMul;
  if (name == "amax") return R::kMax;
  if (name == "amin") return R::kMin;
  if (name == "mean") return R::kMean;
  l.fail(InvalidModel("scatter reduction '", name, "'"));
  return R::kNone;
}

/// The value of an operand that is a tensor or a number, in x's type.
ValueId source_of(L& l, size_t at) { return l.as(l.operand(at), l.dtype(l.t(0))); }

void scatter(L& l) {
  ScatterAttrs a;
  a.reduction = reduction(l, l.text(4));
  scatter_with(l, a, source_of(l, 3));
}
void scatter_add(L& l) {
  ScatterAttrs a;
  a.reduction = ScatterAttrs::Reduce::kAdd;
  scatter_with(l, a, l.t(3));
}
void scatter_reduce(L& l) {
  ScatterAttrs a;
  a.reduction = reduction(l, l.text(4));
  scatter_with(l, a, l.t(3), l.flag(5, true));
}

/// index_add(self, dim, index, source, alpha), index_copy(self, dim, index, source).
template <bool add>
void index_write(L& l) {
  const ValueId x = l.t(0);
  ScatterAttrs a;
  a.axis = l.axis(l.i(1), l.rank(x));
  a.reduction = add ? ScatterAttrs::Reduce::kAdd : ScatterAttrs::Reduce::kNone;
  ValueId source = l.cast(l.t(3), l.dtype(x));
  if (add && l.d(4, 1) != 1) source = l.binary(Binary::kMul, source, l.number(l.dtype(x), l.d(4, 1)));
  l.result(l.op(Op::kIndexSelectPut, make_attrs<ScatterAttrs>(a), {x, index_of(l, l.t(2)), source}));
}

void index_fill(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(1), l.rank(x));
  GatherAttrs g;
  g.axis = axis;
  const ValueId at = index_of(l, l.t(2));
  const ValueId like = l.op(Op::kGather, make_attrs<GatherAttrs>(g), {x, at});
  ScatterAttrs a;
  a.axis = axis;
  const ValueId source = l.op(Op::kExpand, make_attrs<NoAttrs>(), {source_of(l, 3), l.shape_of(like)});
  l.result(l.op(Op::kIndexSelectPut, make_attrs<ScatterAttrs>(a), {x, at, source}));
}

/// x and mask broadcast to one shape.
std::pair<ValueId, ValueId> with_mask(L& l) {
  ValueId x = l.t(0), mask = l.cast(l.t(1), DType::kBool);
  const bool alike = l.type(x).is_static() && l.type(mask).is_static() && l.type(x).shape == l.type(mask).shape;
  if (!alike) {
    x = l.op(Op::kExpand, make_attrs<NoAttrs>(), {x, l.shape_of(mask)});
    mask = l.op(Op::kExpand, make_attrs<NoAttrs>(), {mask, l.shape_of(x)});
  }
  return {x, mask};
}

void masked_scatter(L& l) {
  const auto [x, mask] = with_mask(l);
  l.result(l.op(Op::kMaskedScatter, make_attrs<NoAttrs>(), {x, mask, l.cast(l.t(2), l.dtype(x))}));
}

void masked_select(L& l) {
  const auto [x, mask] = with_mask(l);
  l.result(l.op(Op::kMaskedSelect, make_attrs<NoAttrs>(), {x, mask}));
}

void nonzero(L& l) {
  NonZeroAttrs a;
  a.rows = true;
  l.result(l.op(Op::kNonZero, make_attrs<NonZeroAttrs>(a), {l.t(0)}));
}

/// x[start:end:step] along axis = source.
ValueId write_slice(L& l, ValueId x, ValueId source, int64_t axis, ValueId start, ValueId end, int64_t step) {
  return l.op(Op::kSliceScatter, make_attrs<AxisAttrs>(axis),
              {x, l.cast(source, l.dtype(x)), start, end, l.integer(DType::kI64, step)});
}

void slice_scatter(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(2, 0), l.rank(x));
  l.result(write_slice(l, x, l.t(1), axis, l.int_value(3, 0), l.int_value(4, INT64_MAX), l.i(5, 1)));
}

void select_scatter(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(2), l.rank(x));
  const ValueId start = l.int_value(3);
  const Tensor* known = l.b.constant_of(start);
  const ValueId end = known && *known->data<int64_t>() == -1 ? l.integer(DType::kI64, INT64_MAX)
                                                             : l.binary(Binary::kAdd, start, l.integer(DType::kI64, 1));
  l.result(write_slice(l, x, l.unsqueeze(l.t(1), {axis}), axis, start, end, 1));
}

/// repeat_interleave(repeats) -> positions; repeat_interleave(self, repeats, dim).
void repeat_interleave(L& l) {
  const bool positions = l.count() <= 2 && (l.none(1) || l.arg(1).kind == Arg::Kind::kInt) &&
                         is_integer(l.dtype(l.t(0))) && !l.is_tensor(1) && l.c.overload.starts_with("Tensor");
  if (positions) {
    const ValueId repeats = l.cast(l.t(0), DType::kI64);
    const ValueId n = l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.shape_of(repeats), l.b.i64({})});
    const ValueId all =
        l.op(Op::kRange, make_attrs<NoAttrs>(), {l.integer(DType::kI64, 0), n, l.integer(DType::kI64, 1)});
    return l.result(l.op(Op::kRepeatInterleave, make_attrs<AxisAttrs>(0), {all, repeats}));
  }
  ValueId x = l.t(0);
  const bool flat = l.none(2);
  if (flat) x = l.reshape(x, {-1});
  const ValueId repeats = l.is_tensor(1) ? l.cast(l.t(1), DType::kI64) : l.int_value(1);
  l.result(l.op(Op::kRepeatInterleave, make_attrs<AxisAttrs>(flat ? 0 : l.axis(l.i(2), l.rank(x))), {x, repeats}));
}

constexpr Entry kEntries[] = {
    {"aten::index", index},
    {"aten::index_put", index_put},
    {"aten::_index_put_impl", index_put},
    {"aten::index_select", index_select},
    {"aten::embedding", embedding},
    {"aten::gather", gather},
    {"aten::scatter", scatter},
    {"aten::scatter_add", scatter_add},
    {"aten::scatter_reduce", scatter_reduce},
    {"aten::index_add", index_write<true>},
    {"aten::index_copy", index_write<false>},
    {"aten::index_fill", index_fill},
    {"aten::masked_scatter", masked_scatter},
    {"aten::masked_select", masked_select},
    {"aten::nonzero", nonzero},
    {"aten::slice_scatter", slice_scatter},
    {"aten::select_scatter", select_scatter},
    {"aten::repeat_interleave", repeat_interleave},
};

}  // namespace

std::span<const Entry> index_entries() { return kEntries; }

}  // namespace smelt::aten
