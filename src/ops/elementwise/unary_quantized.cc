#include "ops/elementwise/unary_quantized.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/real.h"
#include "ops/elementwise/unary_fixed.h"
#include "ops/elementwise/unary_math.h"
#include "ops/elementwise/xnnpack_rules.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

Status through_float(const UnaryAttrs& attrs, const Tensor& x, Tensor& y) {
  if (attrs.fn == Unary::kIdentity && x.dtype() == y.dtype() && x.quant() && same_quant_params(x.quant(), y.quant())) {
    if (x.bytes()) std::memcpy(y.raw(), x.raw(), x.bytes());
    return Ok();
  }
  std::vector<float> v = to_real_vector(x);
  for (float& f : v) f = static_cast<float>(unary_real<double>(attrs, f));
  if (attrs.rounding == Rounding::kXnnpack && is_quantized(y) && is_8bit(y.dtype()) && y.quant()->scales.size() == 1)
    store_xnnpack(v.data(), y);
  else
    store_real(v.data(), y);
  return Ok();
}

}  // namespace

Status unary_quantized(const UnaryAttrs& attrs, const Tensor& x, Tensor& y) {
  const auto per_tensor = [](const Tensor& t) { return is_quantized(t) && t.quant()->scales.size() == 1; };
  if (attrs.rounding != Rounding::kFloatHalfEven && per_tensor(x) && per_tensor(y)) {
    const auto by_integers = attrs.rounding == Rounding::kXnnpack ? unary_xnnpack : unary_fixed;
    if (by_integers(attrs, x, y)) return Ok();
  }
  return through_float(attrs, x, y);
}

}  // namespace smelt
