// Source: google/XNNPACK, src/microparams-init.c (qs8_add_minmax, qs8_mul_minmax, qs8_lrelu, qs8_cvt) and
// src/xnnpack/reference-utils.h.
#include "ops/elementwise/xnnpack_rules.h"

#include <algorithm>
#include <cmath>

#include "ops/common/broadcast.h"
#include "ops/common/quantized_pair.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// A bound of an activation as a quantized value.
int32_t quantized_bound(float bound, const QuantParams& y, DType dtype) {
  const double q = std::nearbyint(static_cast<double>(bound / y.scale)) + y.zero_point;
  const auto low = static_cast<double>(int_min(dtype)), high = static_cast<double>(int_max(dtype));
  return static_cast<int32_t>(std::clamp(std::isnan(q) ? 0.0 : q, low, high));
}

bool in_range(float scale, float low, float high) { return scale >= low && scale < high; }

/// (value - zero point of x) * multiplier / 256 + zero point of y, halves up, where `multiplier` depends on the sign.
void map_fixed(const Tensor& x, Tensor& y, long positive, long negative) {
  const QuantParams from = per_tensor_params(x.quant()), to = per_tensor_params(y.quant());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t v = get_int(x, i) - from.zero_point;
    const int64_t q = ((v * (v < 0 ? negative : positive) + 128) >> 8) + to.zero_point;
    set_int(y, i, std::clamp(q, int_min(y.dtype()), int_max(y.dtype())));
  }
}

}  // namespace

std::optional<XnnpackArithmetic> XnnpackArithmetic::make(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b,
                                                         const Tensor& y) {
  const bool product = attrs.fn == Binary::kMul;
  if (!product && attrs.fn != Binary::kAdd && attrs.fn != Binary::kSub) return std::nullopt;
  if (!is_8bit(y.dtype()) || a.dtype() != y.dtype() || b.dtype() != y.dtype() || attrs.alpha != 1 || !clamps(attrs.act))
    return std::nullopt;
  const QuantParams pa = per_tensor_params(a.quant()), pb = per_tensor_params(b.quant()),
                    py = per_tensor_params(y.quant());
  XnnpackArithmetic r;
  r.product = product;
  r.zero_a = pa.zero_point;
  r.zero_b = pb.zero_point;
  r.zero = py.zero_point;
  const Bounds bounds = activation_bounds(attrs.act);
  r.low = quantized_bound(bounds.lo, py, y.dtype());
  r.high = std::max(r.low, quantized_bound(bounds.hi, py, y.dtype()));
  if (product) {
    r.scale = pa.scale * pb.scale / py.scale;
    return in_range(r.scale, 0x1p-16f, 0x1p+8f) ? std::optional(r) : std::nullopt;
  }
  const float of_a = pa.scale / py.scale, of_b = pb.scale / py.scale;
  if (!in_range(of_a, 0x1p-10f, 0x1p+8f) || !in_range(of_b, 0x1p-10f, 0x1p+8f)) return std::nullopt;
  r.shift = 20 - std::ilogb(std::max(of_a, of_b));
  r.a = static_cast<int32_t>(std::lrint(std::ldexp(of_a, r.shift)));
  r.b = static_cast<int32_t>(std::lrint(std::ldexp(of_b, r.shift))) * (attrs.fn == Binary::kSub ? -1 : 1);
  return r;
}

int32_t XnnpackArithmetic::operator()(int32_t p, int32_t q) const {
  const int32_t u = p - zero_a, v = q - zero_b;
  const int32_t steps = product ? static_cast<int32_t>(std::nearbyint(static_cast<float>(u * v) * scale))
                                : (a * u + b * v + (1 << (shift - 1))) >> shift;
  return std::clamp(steps + zero, low, high);
}

bool binary_xnnpack(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  const auto f = XnnpackArithmetic::make(attrs, a, b, y);
  if (!f) return false;
  BroadcastWalk<2>(y.shape(), {a.shape(), b.shape()}).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    set_int(y, out, (*f)(static_cast<int32_t>(get_int(a, at[0])), static_cast<int32_t>(get_int(b, at[1]))));
  });
  return true;
}

bool unary_xnnpack(const UnaryAttrs& attrs, const Tensor& x, Tensor& y) {
  if (!is_8bit(x.dtype()) || x.dtype() != y.dtype()) return false;
  const QuantParams from = per_tensor_params(x.quant()), to = per_tensor_params(y.quant());
  if (attrs.fn != Unary::kIdentity && attrs.fn != Unary::kLeakyRelu) return false;
  const float positive = from.scale / to.scale;
  const float negative = attrs.fn == Unary::kIdentity ? positive : positive * static_cast<float>(attrs.a);
  if (!(positive >= 0x1p-8f && positive <= 0x1p+7f)) return false;
  if (!(std::fabs(negative) >= 0x1p-8f && negative <= 0x1p+7f && negative >= -127.99609375f)) return false;
  map_fixed(x, y, std::lrint(256.0f * positive), std::lrint(256.0f * negative));
  return true;
}

void store_xnnpack(const float* values, Tensor& y) {
  const QuantParams to = per_tensor_params(y.quant());
  const float inverse = 1.0f / to.scale;
  const auto low = static_cast<float>(int_min(y.dtype())), high = static_cast<float>(int_max(y.dtype()));
  for (int64_t i = 0; i < y.elements(); ++i) {
    const float q = std::nearbyint(values[i] * inverse + static_cast<float>(to.zero_point));
    set_int(y, i, static_cast<int64_t>(std::clamp(std::isnan(q) ? 0.0f : q, low, high)));
  }
}

}  // namespace smelt
