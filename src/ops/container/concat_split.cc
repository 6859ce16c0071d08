#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "ops/container/container.h"
#include "ops/control/bodies.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kMaxParts = int64_t{1} << 24;

/// Entries [start, start + n) of x along an axis.
Result<Tensor> part_of(const Tensor& x, int axis, int64_t start, int64_t n) {
  Shape shape = x.shape();
  shape[axis] = n;
  SMELT_ASSIGN(Tensor y, Tensor::allocate(x.dtype(), shape));
  y.set_quant(x.quant());
  if (y.elements() == 0) return y;
  const Around around(x.shape(), axis);
  const CopySource source(x);
  CopyTarget target(y);
  for (int64_t o = 0; o < around.outer; ++o)
    copy_run(source, (o * x.dim(axis) + start) * around.inner, target, o * n * around.inner, n * around.inner);
  return y;
}

/// Extents of the parts: of equal size for a scalar (the last may be smaller), or as listed.
Result<std::vector<int64_t>> part_extents(const Tensor& sizes, int64_t n) {
  std::vector<int64_t> out = ints_of(sizes);
  if (sizes.rank() > 0) {
    int64_t sum = 0;
    for (int64_t s : out)
      if (s < 0 || __builtin_add_overflow(sum, s, &sum)) return InvalidInput("a part of ", s);
    if (sum != n) return InvalidInput("parts of ", sum, " together for a dimension of ", n);
    return out;
  }
  const int64_t size = out[0];
  if (size < 1) return InvalidInput("parts of ", size);
  if (n / size > kMaxParts) return LimitReached(n / size, " parts");
  out.clear();
  for (int64_t at = 0; at < n; at += size) out.push_back(std::min(size, n - at));
  return out;
}

}  // namespace

Status infer_SequenceSplit(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<SequenceAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType part = like_unranked(x);
  if (x.ranked) {
    SMELT_ASSIGN(const int axis, axis_of(a.axis, x.shape.rank()));
    Shape shape = x.shape;
    shape[axis] = ctx.has(1) ? -1 : 1;
    if (!ctx.has(1) && !a.keep_dims) shape.erase(axis);
    part = like(x, shape);
  }
  ctx.set(0, ValueType::sequence(part));
  return Ok();
}

Status reference_SequenceSplit(KernelContext& ctx) {
  const auto& a = ctx.attrs<SequenceAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  std::vector<Datum> items;
  if (!ctx.has(1)) {
    if (x.dim(axis) > kMaxParts) return LimitReached(x.dim(axis), " parts");
    for (int64_t i = 0; i < x.dim(axis); ++i) {
      SMELT_ASSIGN(Tensor t, a.keep_dims ? part_of(x, axis, i, 1) : select_slice(x, axis, i));
      items.emplace_back(std::move(t));
    }
  } else {
    SMELT_ASSIGN(const auto extents, part_extents(ctx.input(1), x.dim(axis)));
    int64_t at = 0;
    for (int64_t n : extents) {
      SMELT_ASSIGN(Tensor t, part_of(x, axis, at, n));
      items.emplace_back(std::move(t));
      at += n;
    }
  }
  ctx.set_output(0, Datum::sequence(std::move(items)));
  return Ok();
}

Status infer_SequenceConcat(InferContext& ctx) {
  if (!ctx.has(0)) return InvalidModel("the sequence is missing");
  const ValueType& t = ctx.input(0);
  const DType dtype = t.element ? t.element->dtype : DType::kInvalid;
  ctx.set(0, ValueType::tensor(dtype));
  return Ok();
}

Status reference_SequenceConcat(KernelContext& ctx) {
  const auto& a = ctx.attrs<SequenceAttrs>();
  const Datum& d = ctx.datum(0);
  if (d.kind != Datum::Kind::kSequence || !d.items) return InvalidInput("input 0 is not a sequence");
  const std::vector<Datum>& items = *d.items;
  if (items.empty()) return InvalidInput("an empty sequence cannot be joined");
  if (!items[0].is_tensor()) return InvalidInput("the sequence does not hold tensors");
  const Tensor& first = items[0].tensor;
  if (a.new_axis && first.rank() == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  SMELT_ASSIGN(const int axis, axis_of(a.axis, first.rank() + (a.new_axis ? 1 : 0)));
  Shape shape = first.shape();
  if (a.new_axis) shape.insert(axis, 1);
  int64_t extent = 0;
  for (const Datum& item : items) {
    if (!item.is_tensor() || item.tensor.dtype() != first.dtype() || item.tensor.rank() != first.rank())
      return InvalidInput("the elements of the sequence differ in type or rank");
    Shape own = item.tensor.shape();
    if (a.new_axis) own.insert(axis, 1);
    for (int i = 0; i < own.rank(); ++i)
      if (i != axis && own[i] != shape[i])
        return InvalidInput("elements of shapes ", shape.str(), " and ", own.str(), " cannot be joined");
    if (__builtin_add_overflow(extent, own[axis], &extent)) return LimitReached("the result is too large");
  }
  shape[axis] = extent;
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, first.dtype(), shape));
  if (y->elements() == 0) return Ok();
  const Around around(shape, axis);
  CopyTarget target(*y);
  int64_t at = 0;
  for (const Datum& item : items) {
    const int64_t run = item.tensor.elements() / around.outer;
    const CopySource source(item.tensor);
    for (int64_t o = 0; o < around.outer; ++o) copy_run(source, o * run, target, o * extent * around.inner + at, run);
    at += run;
  }
  return Ok();
}

}  // namespace smelt
