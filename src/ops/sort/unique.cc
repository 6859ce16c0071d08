#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/sort/keys.h"
#include "ops/sort/sort.h"

namespace smelt {

Status infer_Unique(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<UniqueAttrs>();
  const ValueType& x = ctx.input(0);
  int64_t items = -1;
  if (a.flatten) {
    ctx.set(0, like(x, Shape{-1}));
    if (x.ranked && x.shape.is_static()) {
      SMELT_ASSIGN(items, x.shape.checked_elements());
    }
  } else if (x.ranked) {
    SMELT_ASSIGN(const int axis, axis_of(a.axis, x.shape.rank()));
    Shape out = x.shape;
    items = out[axis];
    out[axis] = -1;
    ctx.set(0, like(x, out));
  } else {
    ctx.set(0, like_unranked(x));
  }
  ctx.set(1, ValueType::tensor(a.index_dtype, Shape{-1}));
  ctx.set(2, ValueType::tensor(a.index_dtype, Shape{items}));
  ctx.set(3, ValueType::tensor(a.index_dtype, Shape{-1}));
  return Ok();
}

namespace {

/// Equal items in one group.
struct Groups {
  std::vector<int64_t> first, count;  ///< by group: lowest item, number of items
  std::vector<int64_t> of;            ///< by item: its group
};

/// Groups items 0..n-1 by a three-way comparison, ordered by it or by first occurrence.
template <class Compare>
Groups group_items(int64_t n, bool sorted, Compare&& compare) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int c = compare(a, b);
    return c != 0 ? c < 0 : a < b;
  });
  Groups g;
  g.of.resize(static_cast<size_t>(n));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) {
      g.first.push_back(order[i]);
      g.count.push_back(0);
    }
    ++g.count.back();
    g.of[static_cast<size_t>(order[i])] = static_cast<int64_t>(g.first.size()) - 1;
  }
  if (sorted) return g;
  std::vector<size_t> by_first(g.first.size());
  std::iota(by_first.begin(), by_first.end(), size_t{0});
  std::sort(by_first.begin(), by_first.end(), [&](size_t a, size_t b) { return g.first[a] < g.first[b]; });
  Groups r;
  std::vector<int64_t> renamed(by_first.size());
  for (size_t i = 0; i < by_first.size(); ++i) {
    r.first.push_back(g.first[by_first[i]]);
    r.count.push_back(g.count[by_first[i]]);
    renamed[by_first[i]] = static_cast<int64_t>(i);
  }
  for (int64_t group : g.of) r.of.push_back(renamed[static_cast<size_t>(group)]);
  return r;
}

Status hand_out(KernelContext& ctx, int output, DType dtype, const std::vector<int64_t>& values) {
  if (!ctx.wants(output)) return Ok();
  SMELT_ASSIGN(Tensor * y, ctx.allocate(output, dtype, Shape{static_cast<int64_t>(values.size())}));
  from_ints(values.data(), *y);
  return Ok();
}

}  // namespace

Status reference_Unique(KernelContext& ctx) {
  const auto& a = ctx.attrs<UniqueAttrs>();
  const Tensor x = a.flatten ? ctx.input(0).reshaped(Shape{ctx.input(0).elements()}) : ctx.input(0);
  SMELT_ASSIGN(const int axis, axis_of(a.flatten ? 0 : a.axis, x.rank()));
  SMELT_ASSIGN(const SortKeys keys, SortKeys::of(x));
  const int64_t extent = x.dim(axis);
  // Entries along the axis of a value without elements are all equal; there may be very many.
  if (x.elements() == 0 && extent > 0) return Unsupported("unique slices of a value without elements");
  const Around around(x.shape(), axis);
  const Groups g = group_items(extent, a.sorted, [&](int64_t i, int64_t j) {
    for (int64_t o = 0; o < around.outer; ++o)
      for (int64_t k = 0; k < around.inner; ++k)
        if (const int c = keys.compare((o * extent + i) * around.inner + k, (o * extent + j) * around.inner + k))
          return c;
    return 0;
  });
  const auto n = static_cast<int64_t>(g.first.size());
  if (ctx.wants(0)) {
    Shape shape = x.shape();
    shape[axis] = n;
    SMELT_ASSIGN(Tensor * y, ctx.allocate(0, x.dtype(), shape));
    const CopySource source(x);
    CopyTarget target(*y);
    if (x.elements() > 0)
      for (int64_t o = 0; o < around.outer; ++o)
        for (int64_t i = 0; i < n; ++i)
          copy_run(source, (o * extent + g.first[static_cast<size_t>(i)]) * around.inner, target,
                   (o * n + i) * around.inner, around.inner);
  }
  SMELT_TRY(hand_out(ctx, 1, a.index_dtype, g.first));
  SMELT_TRY(hand_out(ctx, 2, a.index_dtype, g.of));
  return hand_out(ctx, 3, a.index_dtype, g.count);
}

}  // namespace smelt
