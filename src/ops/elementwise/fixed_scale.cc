#include <algorithm>

#include "base/error.h"
#include "ops/common/fixed_point.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_FixedScale(InferContext& ctx) {
  const auto& a = ctx.attrs<FixedScaleAttrs>();
  const ValueType& x = ctx.input(0);
  if (x.dtype != DType::kI32 && x.dtype != DType::kInvalid)
    return Unsupported("accumulators of ", to_string(x.dtype), ", int32 expected");
  if (a.multipliers.empty() || a.shifts.size() != a.multipliers.size())
    return InvalidModel(a.multipliers.size(), " multipliers and ", a.shifts.size(), " shifts");
  for (size_t i = 0; i < a.shifts.size(); ++i)
    if (a.multipliers[i] < 0 || a.multipliers[i] > INT32_MAX || a.shifts[i] < -31 || a.shifts[i] > 30)
      return InvalidModel("multiplier ", a.multipliers[i], " with shift ", a.shifts[i]);
  const auto channels = static_cast<int64_t>(a.multipliers.size());
  if (channels > 1 && x.ranked) {
    if (a.axis < 0 || a.axis >= x.shape.rank()) return InvalidModel("axis ", a.axis, " of shape ", x.shape.str());
    const int64_t extent = x.shape[static_cast<int>(a.axis)];
    if (extent >= 0 && extent != channels) return InvalidModel(channels, " multipliers for ", extent, " channels");
  }
  if (a.min > a.max || a.min < int_min(a.to) || a.max > int_max(a.to) || a.zero_point < INT32_MIN ||
      a.zero_point > INT32_MAX)
    return InvalidModel("results of ", to_string(a.to), " in [", a.min, ", ", a.max, "] around ", a.zero_point);
  ctx.set(0, x.ranked ? ValueType::tensor(a.to, x.shape) : ValueType::tensor(a.to));
  return Ok();
}

Status reference_FixedScale(KernelContext& ctx) {
  const auto& a = ctx.attrs<FixedScaleAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  int64_t inner = 1;
  const auto channels = static_cast<int64_t>(a.multipliers.size());
  if (channels > 1)
    for (int d = static_cast<int>(a.axis) + 1; d < x.rank(); ++d) inner *= x.dim(d);
  const int32_t* values = x.data<int32_t>();
  for (int64_t i = 0, n = x.elements(); i < n; ++i) {
    const auto c = static_cast<size_t>(channels > 1 ? i / inner % channels : 0);
    const int shift = static_cast<int>(a.shifts[c]);
    const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(values[i]) << std::max(shift, 0));
    // High half of the doubled product, ties towards plus infinity.
    const auto high = static_cast<int32_t>((int64_t{shifted} * a.multipliers[c] + (int64_t{1} << 30)) >> 31);
    const int64_t scaled = rounding_divide_by_pot(high, std::max(-shift, 0));
    set_int(y, i, std::clamp(scaled + a.zero_point, a.min, a.max));
  }
  return ctx.tick();
}

}  // namespace smelt
