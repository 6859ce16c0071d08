#include <cmath>
#include <optional>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/core/op.h"
#include "ops/reduce/reduce.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

template <class T>
bool is_nan(T v) {
  return v != v;
}

/// Index of the extreme value along the axis; the first NaN counts as the extreme.
template <class T>
void arg_reduce(const ArgReduceAttrs& attrs, const AxisView& v, const std::vector<T>& x, Tensor& y) {
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t i = 0; i < v.inner; ++i) {
      const T* p = x.data() + o * v.extent * v.inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < v.extent && !is_nan(p[best * v.inner]); ++k) {
        const T a = p[k * v.inner], b = p[best * v.inner];
        if (is_nan(a) || (attrs.min ? a < b : a > b) || (attrs.select_last && a == b)) best = k;
      }
      set_int(y, o * v.inner + i, best);
    }
}

/// The axis from input 1 where it is given, else the attribute; nullopt when not known yet.
template <class Ctx>
std::optional<int64_t> axis_of(const Ctx& ctx, const ArgReduceAttrs& attrs) {
  if (!ctx.has(1)) return attrs.axis;
  if constexpr (requires { ctx.ints(1); }) {
    const auto v = ctx.ints(1);
    if (!v || v->empty()) return std::nullopt;
    return (*v)[0];
  } else {
    if (ctx.input(1).elements() < 1) return std::nullopt;
    return get_int(ctx.input(1), 0);
  }
}

}  // namespace

Status infer_ArgReduce(InferContext& ctx) {
  const auto& attrs = ctx.attrs<ArgReduceAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType type = ValueType::tensor(attrs.to);
  type.ranked = x.ranked;
  type.shape = x.shape;
  const auto axis = axis_of(ctx, attrs);
  if (attrs.flatten) {
    type.shape = attrs.keep_dims && x.ranked ? Shape::of_rank(x.shape.rank(), 1) : Shape{};
    type.ranked = x.ranked || !attrs.keep_dims;
  } else if (x.ranked && axis && x.shape.rank() > 0) {
    SMELT_ASSIGN(const int a, normalize_axis(*axis, x.shape.rank()));
    if (attrs.keep_dims)
      type.shape[a] = 1;
    else
      type.shape.erase(a);
  } else if (x.ranked && x.shape.rank() > 0) {
    type.shape = unknown_shape(x.shape.rank() - (attrs.keep_dims ? 0 : 1));
  }
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_ArgReduce(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<ArgReduceAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  AxisView v{1, x.elements(), 1};
  if (!attrs.flatten && x.rank() > 0) {
    const auto given = axis_of(ctx, attrs);
    if (!given) return InvalidInput("no axis is given");
    SMELT_ASSIGN(const int axis, normalize_axis(*given, x.rank()));
    v = axis_view(x.shape(), axis);
  }
  if (v.extent == 0 && v.outer * v.inner > 0)
    return InvalidInput("the largest of no elements (shape ", x.shape().str(), ")");
  const auto n = static_cast<size_t>(x.elements());
  if (is_float(x.dtype()) || x.dtype() == DType::kU64) {
    std::vector<double> values(n);
    to_doubles(x, values.data());
    arg_reduce(attrs, v, values, y);
  } else {
    std::vector<int64_t> values(n);
    to_ints(x, values.data());
    arg_reduce(attrs, v, values, y);
  }
  return Ok();
}

}  // namespace smelt
