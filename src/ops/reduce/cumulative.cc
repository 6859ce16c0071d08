#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/core/op.h"
#include "ops/reduce/reduce.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using Fn = CumulativeAttrs::Fn;

double combine(Fn fn, double a, double v) {
  switch (fn) {
    case Fn::kSum:
      return a + v;
    case Fn::kProd:
      return a * v;
    case Fn::kMax:
      return a != a || v != v ? std::numeric_limits<double>::quiet_NaN() : std::max(a, v);
    case Fn::kMin:
      return a != a || v != v ? std::numeric_limits<double>::quiet_NaN() : std::min(a, v);
    case Fn::kLogSumExp: {
      const double m = std::max(a, v);
      return std::isinf(m) ? m : m + std::log(std::exp(a - m) + std::exp(v - m));
    }
  }
  return a;
}

int64_t combine(Fn fn, int64_t a, int64_t v) {
  switch (fn) {
    case Fn::kSum:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(v));
    case Fn::kProd:
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(v));
    case Fn::kMax:
      return std::max(a, v);
    case Fn::kMin:
      return std::min(a, v);
    case Fn::kLogSumExp:
      break;
  }
  return a;
}

template <class T>
T neutral(Fn fn) {
  constexpr bool real = std::numeric_limits<T>::has_infinity;
  switch (fn) {
    case Fn::kProd:
      return 1;
    case Fn::kMax:
    case Fn::kLogSumExp:
      return real ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
    case Fn::kMin:
      return real ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    case Fn::kSum:
      break;
  }
  return 0;
}

template <class T>
void accumulate(const CumulativeAttrs& attrs, const AxisView& v, std::vector<T>& x) {
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t i = 0; i < v.inner; ++i) {
      T* p = x.data() + o * v.extent * v.inner + i;
      T acc = neutral<T>(attrs.fn);
      for (int64_t k = 0; k < v.extent; ++k) {
        T& value = p[(attrs.reverse ? v.extent - 1 - k : k) * v.inner];
        const T next = combine(attrs.fn, acc, value);
        value = attrs.exclusive ? acc : next;
        acc = next;
      }
    }
}

}  // namespace

Status infer_Cumulative(InferContext& ctx) { return same_as_input(ctx); }

Status reference_Cumulative(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<CumulativeAttrs>();
  const Tensor &x = ctx.input(0), &axis_tensor = ctx.input(1);
  Tensor& y = ctx.output(0);
  if (axis_tensor.elements() != 1)
    return InvalidInput("the axis has ", axis_tensor.elements(), " elements, one expected");
  AxisView v;
  if (x.rank() > 0) {
    SMELT_ASSIGN(const int axis, normalize_axis(get_int(axis_tensor, 0), x.rank()));
    v = axis_view(x.shape(), axis);
  }
  const auto n = static_cast<size_t>(x.elements());
  if (is_float(x.dtype()) || is_float(y.dtype())) {
    std::vector<double> values(n);
    to_doubles(x, values.data());
    accumulate(attrs, v, values);
    from_doubles(values.data(), y);
  } else {
    std::vector<int64_t> values(n);
    to_ints(x, values.data());
    accumulate(attrs, v, values);
    from_ints(values.data(), y);
  }
  return Ok();
}

}  // namespace smelt
