#include <algorithm>
#include <limits>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/core/op.h"
#include "ops/reduce/reduce.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

template <class T>
T first_value(Reduction fn) {
  switch (fn) {
    case Reduction::kProd:
      return 1;
    case Reduction::kMax:
      return std::numeric_limits<T>::lowest();
    case Reduction::kMin:
      return std::numeric_limits<T>::max();
    default:
      return 0;
  }
}

template <class T>
T combine(Reduction fn, T a, T v) {
  switch (fn) {
    case Reduction::kProd:
      if constexpr (std::numeric_limits<T>::is_integer)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(v));
      else
        return a * v;
    case Reduction::kMax:
      return std::max(a, v);
    case Reduction::kMin:
      return std::min(a, v);
    default:
      if constexpr (std::numeric_limits<T>::is_integer)
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(v));
      else
        return a + v;
  }
}

/// Rows of x combined into y by id; ids below zero are left out.
template <class T>
std::vector<T> combine_rows(Reduction fn, const std::vector<T>& x, const std::vector<int64_t>& ids, int64_t segments,
                            int64_t row, T first) {
  std::vector<T> y(static_cast<size_t>(segments * row), first);
  std::vector<int64_t> count(static_cast<size_t>(segments), 0);
  for (size_t r = 0; r < ids.size(); ++r) {
    if (ids[r] < 0) continue;
    ++count[static_cast<size_t>(ids[r])];
    T* out = y.data() + ids[r] * row;
    const T* in = x.data() + static_cast<int64_t>(r) * row;
    for (int64_t i = 0; i < row; ++i) out[i] = combine(fn, out[i], in[i]);
  }
  if (fn == Reduction::kMean)
    for (int64_t s = 0; s < segments; ++s)
      for (int64_t i = 0; i < row; ++i)
        y[static_cast<size_t>(s * row + i)] /= static_cast<T>(std::max<int64_t>(count[static_cast<size_t>(s)], 1));
  return y;
}

}  // namespace

Status infer_Segment(InferContext& ctx) {
  const auto& attrs = ctx.attrs<SegmentAttrs>();
  const ValueType &x = ctx.input(0), &ids = ctx.input(1);
  ValueType type = ValueType::tensor(result_dtype(ctx));
  if (x.ranked && ids.ranked) {
    if (ids.shape.rank() > x.shape.rank()) return InvalidModel("segment ids have more dimensions than the data");
    type.ranked = true;
    type.shape.push_back(-1);
    for (int d = ids.shape.rank(); d < x.shape.rank(); ++d) type.shape.push_back(x.shape[d]);
    if (attrs.sorted) {
      if (const auto v = ctx.ints(1)) type.shape[0] = v->empty() ? 0 : v->back() + 1;
    } else if (const auto v = ctx.ints(2); v && v->size() == 1) {
      type.shape[0] = (*v)[0];
    }
    if (type.shape[0] < -1) return InvalidModel("a number of segments of ", type.shape[0]);
  }
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_Segment(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<SegmentAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  std::vector<int64_t> ids(static_cast<size_t>(ctx.input(1).elements()));
  to_ints(ctx.input(1), ids.data());
  for (int d = 0; d < ctx.input(1).rank(); ++d)
    if (ctx.input(1).dim(d) != x.dim(d))
      return InvalidInput("segment ids of shape ", ctx.input(1).shape().str(), " do not fit data of shape ",
                          x.shape().str());
  const int64_t segments = y.dim(0), row = product(x.shape(), ctx.input(1).rank(), x.rank());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= segments || (attrs.sorted && ids[i] < 0))
      return InvalidInput("segment id ", ids[i], " is not below ", segments);
    if (attrs.sorted && i > 0 && ids[i] < ids[i - 1]) return InvalidInput("segment ids do not ascend at position ", i);
  }
  const auto n = static_cast<size_t>(x.elements());
  if (is_float(x.dtype())) {
    std::vector<double> v(n);
    to_doubles(x, v.data());
    double first = first_value<double>(attrs.fn);
    if (x.dtype() == DType::kF32 && (attrs.fn == Reduction::kMax || attrs.fn == Reduction::kMin))
      first = first_value<float>(attrs.fn);
    from_doubles(combine_rows(attrs.fn, v, ids, segments, row, first).data(), y);
  } else {
    std::vector<int64_t> v(n);
    to_ints(x, v.data());
    int64_t first = first_value<int64_t>(attrs.fn);
    if (attrs.fn == Reduction::kMax) first = int_min(x.dtype());
    if (attrs.fn == Reduction::kMin) first = int_max(x.dtype());
    from_ints(combine_rows(attrs.fn, v, ids, segments, row, first).data(), y);
  }
  return Ok();
}

}  // namespace smelt
