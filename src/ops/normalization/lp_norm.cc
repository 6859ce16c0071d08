// Normalization by neighbouring values: LRN and LpNorm.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/normalization/lp_norm_quantized.h"
#include "ops/normalization/normalization.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_LRN(InferContext& ctx) { return same_as_input(ctx); }

Status reference_LRN(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<LrnAttrs>();
  const Tensor& x = ctx.input(0);
  if (x.rank() < 2) return InvalidInput("local response normalization of rank ", x.rank(), ", 2 or more expected");
  if (attrs.size < 1) return InvalidModel("a window of ", attrs.size, " channels, 1 or more expected");
  const AxisView v = axis_view(x.shape(), attrs.layout == Layout::kChannelsFirst ? 1 : x.rank() - 1);
  const int64_t before = (attrs.size - 1) / 2, after = attrs.size - 1 - before;
  std::vector<double> values(static_cast<size_t>(x.elements()));
  to_doubles(x, values.data());
  Tensor& y = ctx.output(0);
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t i = 0; i < v.inner; ++i) {
      const double* p = values.data() + o * v.extent * v.inner + i;
      for (int64_t c = 0; c < v.extent; ++c) {
        double sum = 0;
        const int64_t end = std::min(v.extent - 1, attrs.size > v.extent ? v.extent - 1 : c + after);
        for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(end, c + after); ++k)
          sum += p[k * v.inner] * p[k * v.inner];
        set_double(y, (o * v.extent + c) * v.inner + i,
                   p[c * v.inner] / std::pow(attrs.bias + attrs.alpha * sum, attrs.beta));
      }
    }
  return Ok();
}

Status infer_LpNorm(InferContext& ctx) {
  const auto& attrs = ctx.attrs<LpNormAttrs>();
  const ValueType& x = ctx.input(0);
  if (attrs.p != 1 && attrs.p != 2) return InvalidModel("a norm of order ", attrs.p, ", 1 or 2 expected");
  if (x.ranked) SMELT_TRY(normalize_axis(attrs.axis, x.shape.rank()));
  return same_as_input(ctx);
}

Status reference_LpNorm(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<LpNormAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const int axis, normalize_axis(attrs.axis, x.rank()));
  const AxisView v = axis_view(x.shape(), axis);
  if (is_quantized(x) && is_quantized(y) && attrs.rounding != Rounding::kFloatHalfEven && l2_norm_fixed(attrs, v, x, y))
    return Ok();
  std::vector<double> values(static_cast<size_t>(x.elements()));
  if (is_quantized(x)) {
    const std::vector<float> real = to_real_vector(x);
    std::copy(real.begin(), real.end(), values.begin());
  } else {
    to_doubles(x, values.data());
  }
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t i = 0; i < v.inner; ++i) {
      double* p = values.data() + o * v.extent * v.inner + i;
      double sum = 0;
      for (int64_t k = 0; k < v.extent; ++k)
        sum += attrs.p == 1 ? std::fabs(p[k * v.inner]) : p[k * v.inner] * p[k * v.inner];
      if (!attrs.epsilon_max) sum += attrs.epsilon;
      double norm = attrs.p == 1 ? sum : std::sqrt(sum);
      if (attrs.epsilon_max) norm = std::max(norm, attrs.epsilon);
      for (int64_t k = 0; k < v.extent; ++k) {
        double& value = p[k * v.inner];
        value = norm == 0 ? 0 : value / norm;
        if (attrs.act.kind != ActKind::kNone) value = activate(attrs.act, static_cast<float>(value));
      }
    }
  if (is_quantized(y)) {
    const std::vector<float> narrow(values.begin(), values.end());
    store_real(narrow.data(), y);
  } else {
    from_doubles(values.data(), y);
  }
  return Ok();
}

}  // namespace smelt
