#include "ops/elementwise/binary_quantized.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/common/broadcast.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/real.h"
#include "ops/elementwise/binary_fixed.h"
#include "ops/elementwise/binary_math.h"
#include "ops/elementwise/xnnpack_rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status through_float(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  const std::vector<float> p = to_real_vector(a), q = to_real_vector(b);
  std::vector<float> r(static_cast<size_t>(y.elements()));
  const BroadcastWalk<2> walk(y.shape(), {a.shape(), b.shape()});
  const bool scaled = attrs.fn == Binary::kAdd || attrs.fn == Binary::kSub;
  const float alpha = scaled ? static_cast<float>(attrs.alpha) : 1.0f;
  const bool defined = with_real_function<float>(attrs.fn, [&](auto f) {
    walk.each([&](int64_t out, const std::array<int64_t, 2>& at) {
      r[static_cast<size_t>(out)] = f(p[static_cast<size_t>(at[0])], alpha * q[static_cast<size_t>(at[1])]);
    });
  });
  if (!defined) return Unsupported(to_string(attrs.fn), " is not defined on quantized values");
  if (attrs.act.kind != ActKind::kNone && !gives_bool(attrs.fn))
    for (float& v : r) v = activate(attrs.act, v);
  if (attrs.rounding == Rounding::kXnnpack && is_quantized(y) && is_8bit(y.dtype()) && y.quant()->scales.size() == 1)
    store_xnnpack(r.data(), y);
  else
    store_real(r.data(), y);
  return Ok();
}

}  // namespace

Status binary_quantized(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  const auto per_tensor = [](const Tensor& t) { return is_quantized(t) && t.quant()->scales.size() == 1; };
  if (attrs.rounding != Rounding::kFloatHalfEven && per_tensor(a) && per_tensor(b) &&
      (per_tensor(y) || gives_bool(attrs.fn))) {
    const auto by_integers = attrs.rounding == Rounding::kXnnpack ? binary_xnnpack : binary_fixed;
    if (by_integers(attrs, a, b, y)) return Ok();
  }
  return through_float(attrs, a, b, y);
}

}  // namespace smelt
