#include <algorithm>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/broadcast.h"
#include "ops/common/complex_view.h"
#include "ops/common/infer.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

template <class T>
void select(const BroadcastWalk<3>& walk, const uint8_t* condition, const Tensor& a, const Tensor& b, Tensor& y) {
  const T *p = a.data<T>(), *q = b.data<T>();
  T* r = y.data<T>();
  walk.each([&](int64_t out, const std::array<int64_t, 3>& at) { r[out] = condition[at[0]] ? p[at[1]] : q[at[2]]; });
}

}  // namespace

Status infer_Where(InferContext& ctx) {
  const ValueType &a = ctx.input(1), &b = ctx.input(2);
  if (a.dtype != DType::kInvalid && b.dtype != DType::kInvalid && a.dtype != b.dtype)
    return InvalidModel("where of ", to_string(a.dtype), " and ", to_string(b.dtype), ": one element type expected");
  return infer_broadcast(ctx, 0, 3, a.dtype != DType::kInvalid ? a.dtype : b.dtype, a.quant);
}

Status reference_Where(KernelContext& ctx) {
  const Tensor &c = ctx.input(0), &a = ctx.input(1), &b = ctx.input(2);
  Tensor& y = ctx.output(0);
  std::vector<uint8_t> condition(static_cast<size_t>(c.elements()));
  for (int64_t i = 0; i < c.elements(); ++i) condition[static_cast<size_t>(i)] = get_double(c, i) != 0;
  const BroadcastWalk<3> walk(y.shape(), {c.shape(), a.shape(), b.shape()});
  const uint8_t* bits = condition.data();
  if (y.dtype() == DType::kString) {
    select<std::string>(walk, bits, a, b, y);
    return Ok();
  }
  switch (bit_width(y.dtype())) {
    case 8:
      select<uint8_t>(walk, bits, a, b, y);
      break;
    case 16:
      select<uint16_t>(walk, bits, a, b, y);
      break;
    case 32:
      select<uint32_t>(walk, bits, a, b, y);
      break;
    case 64:
      select<uint64_t>(walk, bits, a, b, y);
      break;
    case 128:
      select<std::complex<double>>(walk, bits, a, b, y);
      break;
    default:
      walk.each([&](int64_t out, const std::array<int64_t, 3>& at) {
        const double v = bits[at[0]] ? get_double(a, at[1]) : get_double(b, at[2]);
        set_double(y, out, v);
      });
  }
  return Ok();
}

Status infer_Clamp(InferContext& ctx) {
  return infer_broadcast(ctx, 0, ctx.inputs(), result_dtype(ctx), ctx.input(0).quant);
}

namespace {

/// float32 between two numbers that are not NaN; false: it is another case.
bool clamp_floats(const Tensor& x, const Tensor* lo, const Tensor* hi, Tensor& y) {
  const auto unquantized = [&](const Tensor* t) {
    return !t || (t->dtype() == DType::kF32 && t->elements() == 1 && t->rank() <= x.rank());
  };
  if (x.dtype() != DType::kF32 || y.dtype() != DType::kF32 || x.quant() || y.quant() || !unquantized(lo) ||
      !unquantized(hi))
    return false;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float l = lo ? lo->data<float>()[0] : -kInfinity, h = hi ? hi->data<float>()[0] : kInfinity;
  if (l != l || h != h) return false;
  const auto* from = x.data<float>();
  auto* to = y.data<float>();
  for (int64_t i = 0; i < x.elements(); ++i) {
    const float v = from[i] < l ? l : from[i];
    to[i] = v > h ? h : v;
  }
  return true;
}

}  // namespace

Status reference_Clamp(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const bool has_lo = ctx.has(1), has_hi = ctx.has(2);
  if (clamp_floats(x, has_lo ? &ctx.input(1) : nullptr, has_hi ? &ctx.input(2) : nullptr, y)) return Ok();
  const Tensor &lo = has_lo ? ctx.input(1) : x, &hi = has_hi ? ctx.input(2) : x;
  const BroadcastWalk<3> walk(y.shape(), {x.shape(), lo.shape(), hi.shape()});
  if (is_float(x.dtype()) || is_float(lo.dtype()) || is_float(hi.dtype())) {
    walk.each([&](int64_t out, const std::array<int64_t, 3>& at) {
      double v = get_double(x, at[0]);
      if (has_lo) {
        const double l = get_double(lo, at[1]);
        if (v < l || l != l) v = l;
      }
      if (has_hi) {
        const double h = get_double(hi, at[2]);
        if (v > h || h != h) v = h;
      }
      set_double(y, out, v);
    });
    return Ok();
  }
  const uint64_t flip = x.dtype() == DType::kU64 ? uint64_t{1} << 63 : 0;  // makes unsigned order signed order
  const auto ordered = [flip](int64_t v) { return static_cast<int64_t>(static_cast<uint64_t>(v) ^ flip); };
  walk.each([&](int64_t out, const std::array<int64_t, 3>& at) {
    int64_t v = ordered(get_int(x, at[0]));
    if (has_lo) v = std::max(v, ordered(get_int(lo, at[1])));
    if (has_hi) v = std::min(v, ordered(get_int(hi, at[2])));
    set_int(y, out, ordered(v));
  });
  return Ok();
}

Status infer_Complex(InferContext& ctx) {
  const DType dtype = ctx.input(0).dtype;
  if (dtype != DType::kInvalid && !is_float(dtype))
    return InvalidModel("the real part is ", to_string(dtype), ", a floating-point type expected");
  const DType out = dtype == DType::kInvalid ? dtype : (dtype == DType::kF64 ? DType::kC128 : DType::kC64);
  return infer_broadcast(ctx, 0, 2, out);
}

Status reference_Complex(KernelContext& ctx) {
  const Tensor &re = ctx.input(0), &im = ctx.input(1);
  Tensor& y = ctx.output(0);
  const BroadcastWalk<2> walk(y.shape(), {re.shape(), im.shape()});
  walk.each([&](int64_t out, const std::array<int64_t, 2>& at) {
    set_complex(y, out, {get_double(re, at[0]), get_double(im, at[1])});
  });
  return Ok();
}

}  // namespace smelt
