// Indexing: gather, scatter, masks, and writes into slices.
#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// Index tensors of other integer types than int32 and int64 become int64; masks stay.
ValueId index_of(CallContext& c, ValueId v) {
  const DType d = c.dtype(v);
  return v == kNoValue || d == DType::kBool || d == DType::kI64 || d == DType::kI32 ? v : c.cast(v, DType::kI64);
}

std::vector<ValueId> index_list(CallContext& c, size_t at) {
  std::vector<ValueId> list = c.tensors(at);
  for (ValueId& v : list) {
    v = index_of(c, v);
    if (c.dtype(v) == DType::kU8) v = c.cast(v, DType::kBool);
  }
  while (!list.empty() && list.back() == kNoValue) list.pop_back();
  return list;
}

void index(CallContext& c) {
  const auto list = index_list(c, 1);
  const ValueId x = c.t(0);
  if (list.empty()) return c.result(c.identity(x));
  std::vector<ValueId> in{x};
  in.insert(in.end(), list.begin(), list.end());
  c.emit(Op::kIndexTensors, IndexAttrs(), in);
}

void index_put(CallContext& c) {
  const ValueId x = c.t(0);
  const auto list = index_list(c, 1);
  IndexAttrs a;
  a.accumulate = c.flag(3);
  std::vector<ValueId> in{x, c.cast(c.t(2), c.dtype(x))};
  in.insert(in.end(), list.begin(), list.end());
  c.emit(Op::kIndexPut, a, in);
}

void index_select(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  GatherAttrs a;
  a.axis = c.axis(c.i(1), r);
  const ValueId at = index_of(c, c.t(2));
  if (r == 0) return c.result(c.identity(x));
  const ValueId list = c.rank(at) == 0 ? c.reshape(at, {1}) : at;
  c.emit(Op::kGather, a, {x, list});
}

void embedding(CallContext& c) { c.emit(Op::kGather, GatherAttrs(), {c.t(0), index_of(c, c.t(1))}); }

void gather(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  GatherAttrs a;
  a.axis = c.axis(c.i(1), r);
  const ValueId at = index_of(c, c.t(2));
  if (c.rank(at) == 0 || r == 0) {
    const ValueId rows = r == 0 ? c.reshape(x, {1}) : x;
    const ValueId list = c.rank(at) == 0 ? c.reshape(at, {1}) : at;
    const ValueId y = c.add(Op::kGatherElements, a, {rows, list});
    return c.result(c.rank(at) == 0 ? c.reshape(y, {}) : y);
  }
  c.emit(Op::kGatherElements, a, {x, at});
}

/// x with `source` (a tensor, or a number filled to the index's shape) written along an axis. PyTorch lets the source
/// be larger than the index.
void scatter_with(CallContext& c, ScatterAttrs a, ValueId source, bool include_self = true) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  a.axis = c.axis(c.i(1), r);
  a.include_self = include_self;
  ValueId at = index_of(c, c.t(2));
  source = c.cast(source, c.dtype(x));
  const int ri = c.rank(at);
  if (c.rank(source) == 0 && ri > 0)
    source = c.expand(source, c.shape_of(at));
  else if (ri > 0 &&
           !(c.type(at).is_static() && c.type(source).is_static() && c.type(at).shape == c.type(source).shape)) {
    std::vector<int64_t> starts(static_cast<size_t>(ri), 0);
    source = c.add(Op::kSlice, {source, c.i64(starts), c.shape_of(at)});
  }
  if (r == 0 || ri == 0) {
    const ValueId rows = r == 0 ? c.reshape(x, {1}) : x;
    const ValueId y = c.add(Op::kScatterElements, a,
                            {rows, ri == 0 ? c.reshape(at, {1}) : at, ri == 0 ? c.reshape(source, {1}) : source});
    return c.result(r == 0 ? c.reshape(y, {}) : y);
  }
  c.emit(Op::kScatterElements, a, {x, at, source});
}

ScatterAttrs::Reduce reduction(CallContext& c, const std::string& name) {
  using R = ScatterAttrs::Reduce;
  if (name.empty()) return R::kNone;
  if (name == "add" || name == "sum") return R::kAdd;
  if (name == "multiply" || name == "prod") return R::kMul;
  if (name == "amax") return R::kMax;
  if (name == "amin") return R::kMin;
  if (name == "mean") return R::kMean;
  c.fail("scatter reduction '", name, "'");
  return R::kNone;
}

/// The value of an operand that is a tensor or a number, in x's type.
ValueId source_of(CallContext& c, size_t at) { return c.as(c.operand(at), c.dtype(c.t(0))); }

void scatter(CallContext& c) {
  ScatterAttrs a;
  a.reduction = reduction(c, c.text(4));
  scatter_with(c, a, source_of(c, 3));
}
void scatter_add(CallContext& c) {
  ScatterAttrs a;
  a.reduction = ScatterAttrs::Reduce::kAdd;
  scatter_with(c, a, c.t(3));
}
void scatter_reduce(CallContext& c) {
  ScatterAttrs a;
  a.reduction = reduction(c, c.text(4));
  scatter_with(c, a, c.t(3), c.flag(5, true));
}

/// index_add(self, dim, index, source, alpha), index_copy(self, dim, index, source).
template <bool add>
void index_write(CallContext& c) {
  const ValueId x = c.t(0);
  ScatterAttrs a;
  a.axis = c.axis(c.i(1), c.rank(x));
  a.reduction = add ? ScatterAttrs::Reduce::kAdd : ScatterAttrs::Reduce::kNone;
  ValueId source = c.cast(c.t(3), c.dtype(x));
  if (add && c.d(4, 1) != 1) source = c.binary(Binary::kMul, source, c.number(c.dtype(x), c.d(4, 1)));
  c.emit(Op::kIndexSelectPut, a, {x, index_of(c, c.t(2)), source});
}

void index_fill(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(1), c.rank(x));
  GatherAttrs g;
  g.axis = axis;
  const ValueId at = index_of(c, c.t(2));
  const ValueId like = c.add(Op::kGather, g, {x, at});
  ScatterAttrs a;
  a.axis = axis;
  const ValueId source = c.expand(source_of(c, 3), c.shape_of(like));
  c.emit(Op::kIndexSelectPut, a, {x, at, source});
}

/// x and mask broadcast to one shape.
std::pair<ValueId, ValueId> with_mask(CallContext& c) {
  ValueId x = c.t(0), mask = c.cast(c.t(1), DType::kBool);
  const bool alike = c.type(x).is_static() && c.type(mask).is_static() && c.type(x).shape == c.type(mask).shape;
  if (!alike) {
    x = c.expand(x, c.shape_of(mask));
    mask = c.expand(mask, c.shape_of(x));
  }
  return {x, mask};
}

void masked_scatter(CallContext& c) {
  const auto [x, mask] = with_mask(c);
  c.emit(Op::kMaskedScatter, {x, mask, c.cast(c.t(2), c.dtype(x))});
}

void masked_select(CallContext& c) {
  const auto [x, mask] = with_mask(c);
  c.emit(Op::kMaskedSelect, {x, mask});
}

void nonzero(CallContext& c) {
  NonZeroAttrs a;
  a.rows = true;
  c.emit(Op::kNonZero, a, {c.t(0)});
}

/// x[start:end:step] along axis = source.
ValueId write_slice(CallContext& c, ValueId x, ValueId source, int64_t axis, ValueId start, ValueId end, int64_t step) {
  return c.add(Op::kSliceScatter, AxisAttrs(axis),
               {x, c.cast(source, c.dtype(x)), start, end, c.integer(DType::kI64, step)});
}

void slice_scatter(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(2, 0), c.rank(x));
  c.result(write_slice(c, x, c.t(1), axis, c.int_value(3, 0), c.int_value(4, INT64_MAX), c.i(5, 1)));
}

void select_scatter(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(2), c.rank(x));
  const ValueId start = c.int_value(3);
  const Tensor* known = c.constant_of(start);
  const ValueId end = known && *known->data<int64_t>() == -1 ? c.integer(DType::kI64, INT64_MAX)
                                                             : c.binary(Binary::kAdd, start, c.integer(DType::kI64, 1));
  c.result(write_slice(c, x, c.unsqueeze(c.t(1), {axis}), axis, start, end, 1));
}

/// repeat_interleave(repeats) -> positions; repeat_interleave(self, repeats, dim).
void repeat_interleave(CallContext& c) {
  const bool positions = c.count() <= 2 && (c.none(1) || c.arg(1).kind == Arg::Kind::kInt) &&
                         is_integer(c.dtype(c.t(0))) && !c.is_tensor(1) && c.call.overload.starts_with("Tensor");
  if (positions) {
    const ValueId repeats = c.cast(c.t(0), DType::kI64);
    const ValueId n = c.reshape(c.shape_of(repeats), {});
    const ValueId all = c.range(c.integer(DType::kI64, 0), n, c.integer(DType::kI64, 1));
    return c.emit(Op::kRepeatInterleave, AxisAttrs(0), {all, repeats});
  }
  ValueId x = c.t(0);
  const bool flat = c.none(2);
  if (flat) x = c.reshape(x, {-1});
  const ValueId repeats = c.is_tensor(1) ? c.cast(c.t(1), DType::kI64) : c.int_value(1);
  c.emit(Op::kRepeatInterleave, AxisAttrs(flat ? 0 : c.axis(c.i(2), c.rank(x))), {x, repeats});
}

constexpr OpEntry kEntries[] = {
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

std::span<const OpEntry> index_entries() { return kEntries; }

}  // namespace smelt::aten
