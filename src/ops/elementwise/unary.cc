#include <cmath>
#include <cstring>

#include "ops/common/complex_view.h"
#include "ops/common/infer.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/unary_math.h"
#include "ops/elementwise/unary_quantized.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

DType real_part(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  if (dtype == DType::kC128) return DType::kF64;
  return dtype;
}

template <class F>
void map_floats(const float* x, float* y, int64_t n, F&& f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

/// Common functions have loops of their own, others one call an element.
void unary_floats(const UnaryAttrs& attrs, const float* x, float* y, int64_t n) {
  const float a = static_cast<float>(attrs.a), b = static_cast<float>(attrs.b);
  switch (attrs.fn) {
    case Unary::kAbs:
      return map_floats(x, y, n, [](float v) { return std::fabs(v); });
    case Unary::kNeg:
      return map_floats(x, y, n, [](float v) { return -v; });
    case Unary::kSquare:
      return map_floats(x, y, n, [](float v) { return v * v; });
    case Unary::kSqrt:
      return map_floats(x, y, n, [](float v) { return std::sqrt(v); });
    case Unary::kRelu:
      return map_floats(x, y, n, [](float v) { return v < 0.0f ? 0.0f : v; });
    case Unary::kRelu6:
      return map_floats(x, y, n, [](float v) { return v < 0.0f ? 0.0f : (v > 6.0f ? 6.0f : v); });
    case Unary::kClamp:
      return map_floats(x, y, n, [a, b](float v) {
        const float low = v < a ? a : v;
        return low > b ? b : low;
      });
    case Unary::kLeakyRelu:
      return map_floats(x, y, n, [a](float v) { return v < 0.0f ? a * v : v; });
    case Unary::kHardSwish:
      return map_floats(x, y, n, [](float v) {
        const float t = v + 3.0f;
        return v * (t < 0.0f ? 0.0f : (t > 6.0f ? 6.0f : t)) / 6.0f;
      });
    case Unary::kSigmoid:
      return map_floats(x, y, n, [](float v) { return 1.0f / (1.0f + std::exp(-v)); });
    case Unary::kSilu:
    case Unary::kQuickGelu:
      return map_floats(x, y, n, [k = a == 0 ? 1.0f : a](float v) { return v / (1.0f + std::exp(-k * v)); });
    case Unary::kExp:
      return map_floats(x, y, n, [](float v) { return std::exp(v); });
    case Unary::kTanh:
      return map_floats(x, y, n, [](float v) { return std::tanh(v); });
    case Unary::kErf:
      return map_floats(x, y, n, [](float v) { return std::erf(v); });
    default:
      return map_floats(x, y, n, [&](float v) { return static_cast<float>(unary_real<double>(attrs, v)); });
  }
}

Status unary_complex_tensor(const UnaryAttrs& attrs, const Tensor& x, Tensor& y) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto r = unary_complex(attrs.fn, get_complex(x, i));
    if (!r) return Unsupported(to_string(attrs.fn), " is not defined on complex numbers");
    set_complex(y, i, *r);
  }
  return Ok();
}

}  // namespace

Status infer_Unary(InferContext& ctx) {
  const Unary fn = ctx.attrs<UnaryAttrs>().fn;
  if (gives_bool(fn)) return same_shape(ctx, DType::kBool);
  const DType dtype = ctx.input(0).dtype;
  if (is_complex(dtype) && (fn == Unary::kAbs || fn == Unary::kReal || fn == Unary::kImag || fn == Unary::kAngle))
    return same_shape(ctx, real_part(dtype));
  return same_as_input(ctx);
}

Status reference_Unary(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<UnaryAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (x.dtype() == DType::kString) {
    if (attrs.fn != Unary::kIdentity) return Unsupported(to_string(attrs.fn), " is not defined on strings");
    for (int64_t i = 0; i < x.elements(); ++i) y.data<std::string>()[i] = x.data<std::string>()[i];
    return Ok();
  }
  if (is_quantized(x) || is_quantized(y)) return unary_quantized(attrs, x, y);
  if (is_complex(x.dtype())) return unary_complex_tensor(attrs, x, y);
  const int64_t n = x.elements();
  if (attrs.fn == Unary::kIdentity && x.dtype() == y.dtype()) {
    if (n > 0) std::memcpy(y.raw(), x.raw(), x.bytes());
  } else if (x.dtype() == DType::kF32 && y.dtype() == DType::kF32) {
    unary_floats(attrs, x.data<float>(), y.data<float>(), n);
  } else if (is_float(x.dtype()) || is_float(y.dtype())) {
    for (int64_t i = 0; i < n; ++i) set_double(y, i, unary_real<double>(attrs, get_double(x, i)));
  } else if (x.dtype() == DType::kBool && attrs.fn == Unary::kBitNot) {
    for (int64_t i = 0; i < n; ++i) set_int(y, i, get_int(x, i) == 0);
  } else if (x.dtype() == DType::kU64 && (attrs.fn == Unary::kAbs || attrs.fn == Unary::kRelu)) {
    for (int64_t i = 0; i < n; ++i) set_int(y, i, get_int(x, i));
  } else if (x.dtype() == DType::kU64 && attrs.fn == Unary::kSign) {
    for (int64_t i = 0; i < n; ++i) set_int(y, i, get_int(x, i) != 0);
  } else {
    for (int64_t i = 0; i < n; ++i) set_int(y, i, unary_int(attrs, get_int(x, i)));
  }
  return Ok();
}

}  // namespace smelt
