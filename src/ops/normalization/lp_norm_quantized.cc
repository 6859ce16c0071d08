#include "ops/normalization/lp_norm_quantized.h"

#include <algorithm>

#include "ops/common/fixed_functions.h"
#include "ops/common/fixed_point.h"
#include "tensor/numeric.h"

namespace smelt {

bool l2_norm_fixed(const LpNormAttrs& attrs, const AxisView& view, const Tensor& x, Tensor& y) {
  const DType dtype = x.dtype();
  if (attrs.p != 2 || view.inner != 1 || y.dtype() != dtype || (dtype != DType::kI8 && dtype != DType::kU8))
    return false;
  const int32_t zero = x.quant()->zero_point(), offset = dtype == DType::kU8 ? 128 : 0;
  const int64_t lo = int_min(dtype), hi = int_max(dtype);
  for (int64_t o = 0; o < view.outer; ++o) {
    uint32_t sum = 0;
    for (int64_t k = 0; k < view.extent; ++k) {
      const auto v = static_cast<int32_t>(get_int(x, o * view.extent + k)) - zero;
      sum += static_cast<uint32_t>(v * v);
    }
    FixedFactor inverse = fixed_inverse_sqrt(static_cast<int32_t>(std::min<uint32_t>(sum, INT32_MAX)));
    inverse.shift += 7;
    for (int64_t k = 0; k < view.extent; ++k) {
      const auto v = static_cast<int32_t>(get_int(x, o * view.extent + k)) - zero;
      int64_t r;
      if (dtype == DType::kU8) {
        const FixedFactor factor{inverse.multiplier, inverse.shift - 7};
        r = rescale_double(128 * v, factor);
      } else {
        r = rescale_double(v, inverse);
      }
      set_int(y, o * view.extent + k, std::clamp(r + offset, lo, hi));
    }
  }
  return true;
}

}  // namespace smelt
