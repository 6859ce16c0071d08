#include "ops/softmax/softmax.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/softmax/softmax_quantized.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// One group of n values, `step` apart, in place.
template <class T>
void softmax_group(SoftmaxAttrs::Kind kind, double beta, T* v, int64_t n, int64_t step) {
  T largest = -std::numeric_limits<T>::infinity();
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i)
    if (v[i * step] > largest) {
      largest = v[i * step];
      at = i;
    }
  if (kind == SoftmaxAttrs::Kind::kHardmax) {
    for (int64_t i = 0; i < n; ++i) v[i * step] = i == at ? T(1) : T(0);
    return;
  }
  const T scale = static_cast<T>(beta);
  double sum = 0;
  if (kind == SoftmaxAttrs::Kind::kLogSoftmax) {
    for (int64_t i = 0; i < n; ++i) sum += std::exp((v[i * step] - largest) * scale);
    const T log_sum = static_cast<T>(std::log(sum));
    for (int64_t i = 0; i < n; ++i) v[i * step] = (v[i * step] - largest) * scale - log_sum;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T e = std::exp((v[i * step] - largest) * scale);
    v[i * step] = e;
    sum += e;
  }
  const T inverse = static_cast<T>(1.0 / sum);
  for (int64_t i = 0; i < n; ++i) v[i * step] *= inverse;
}

template <class T>
void softmax_all(const SoftmaxAttrs& attrs, const AxisView& view, T* v) {
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i)
      softmax_group(attrs.kind, attrs.beta, v + o * view.extent * view.inner + i, view.extent, view.inner);
}

/// The group that is normalized together; a scalar is a group of one.
Result<AxisView> softmax_view(const SoftmaxAttrs& attrs, const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0 && (attrs.axis == 0 || attrs.axis == -1)) return AxisView{};
  if (attrs.flatten && attrs.axis == rank) return AxisView{shape.elements(), 1, 1};
  SMELT_ASSIGN(const int axis, normalize_axis(attrs.axis, rank));
  if (attrs.flatten) return AxisView{product(shape, 0, axis), product(shape, axis, rank), 1};
  return axis_view(shape, axis);
}

}  // namespace

Status infer_Softmax(InferContext& ctx) {
  const auto& attrs = ctx.attrs<SoftmaxAttrs>();
  const ValueType& x = ctx.input(0);
  if (x.ranked && !(x.shape.rank() == 0 || (attrs.flatten && attrs.axis == x.shape.rank())))
    SMELT_TRY(normalize_axis(attrs.axis, x.shape.rank()));
  return same_as_input(ctx);
}

Status reference_Softmax(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<SoftmaxAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const AxisView view, softmax_view(attrs, x.shape()));
  if (is_quantized(x) && is_quantized(y) && attrs.rounding != Rounding::kFloatHalfEven &&
      softmax_fixed(attrs, view, x, y))
    return Ok();
  if (x.dtype() == DType::kF64) {
    std::vector<double> v(x.data<double>(), x.data<double>() + x.elements());
    softmax_all(attrs, view, v.data());
    from_doubles(v.data(), y);
    return Ok();
  }
  std::vector<float> v = to_real_vector(x);
  softmax_all(attrs, view, v.data());
  store_real(v.data(), y);
  return Ok();
}

}  // namespace smelt
