#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/common/broadcast.h"
#include "ops/common/complex_view.h"
#include "ops/common/infer.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/elementwise/binary_math.h"
#include "ops/elementwise/binary_quantized.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using Walk = BroadcastWalk<2>;

Walk walk_of(const Tensor& a, const Tensor& b, const Tensor& y) { return Walk(y.shape(), {a.shape(), b.shape()}); }

/// Writes f of a row's elements, with a loop of its own for each broadcast pattern.
template <class T, class Out, class F>
void map_row(const T* a, const T* b, Out* y, int64_t n, const std::array<int64_t, 2>& steps, F f) {
  if (steps[0] && steps[1]) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(f(a[i], b[i]));
  } else if (steps[0]) {
    const T c = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(f(a[i], c));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(f(*a, b[i * steps[1]]));
  }
}

/// Applies one functor row by row.
template <class T, class Out, class F>
void map_rows(const Walk& walk, const T* a, const T* b, Out* y, F f) {
  walk.each_row([&](int64_t out, const std::array<int64_t, 2>& at, int64_t n, const std::array<int64_t, 2>& steps) {
    map_row(a + at[0], b + at[1], y + out, n, steps, f);
  });
}

/// real_rows() of a functor T(T, T) without state, or one that returns nullopt.
template <class T, class Out, class F>
RealRows<T> rows_of(F) {
  if constexpr (std::is_same_v<std::invoke_result_t<F, T, T>, std::nullopt_t>)
    return nullptr;
  else
    return [](const T* a, const T* b, void* y, const Walk::Rows& r) {
      Out* out = static_cast<Out*>(y);
      for (int64_t i = 0; i < r.rows; ++i, a += r.row_steps[0], b += r.row_steps[1], out += r.count)
        map_row(a, b, out, r.count, r.steps, [](T p, T q) { return static_cast<T>(F{}(p, q)); });
    };
}

template <class T>
void activate_values(const Activation& act, T* y, int64_t n) {
  if (act.kind == ActKind::kNone) return;
  const Bounds bounds = activation_bounds(act);
  if (bounds.lo > -std::numeric_limits<float>::infinity() || bounds.hi < std::numeric_limits<float>::infinity()) {
    const T lo = bounds.lo, hi = bounds.hi;
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] < lo ? lo : (y[i] > hi ? hi : y[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(activate(act, static_cast<float>(y[i])));
}

/// The function on all elements; y as of real_rows().
template <class T>
Status map_real(Binary fn, const Walk& walk, const T* a, const T* b, void* y) {
  const RealRows<T> write = real_rows<T>(fn);
  if (!write) return Unsupported(to_string(fn), " is not defined on floating-point numbers");
  const size_t size = gives_bool(fn) ? 1 : sizeof(T);
  walk.each_rows([&](int64_t out, const std::array<int64_t, 2>& at, const Walk::Rows& rows) {
    write(a + at[0], b + at[1], static_cast<std::byte*>(y) + static_cast<size_t>(out) * size, rows);
  });
  return Ok();
}

/// a and b of type T; y is T, or bytes for functions that give bool.
template <class T>
Status binary_real(const BinaryAttrs& attrs, const Walk& walk, const T* a, const T* b, void* y, int64_t n) {
  const bool scaled = attrs.alpha != 1 && (attrs.fn == Binary::kAdd || attrs.fn == Binary::kSub);
  if (scaled) {
    const T alpha = static_cast<T>(attrs.fn == Binary::kAdd ? attrs.alpha : -attrs.alpha);
    map_rows(walk, a, b, static_cast<T*>(y), [alpha](T p, T q) { return p + alpha * q; });
  } else {
    SMELT_TRY(map_real(attrs.fn, walk, a, b, y));
  }
  if (!gives_bool(attrs.fn)) activate_values(attrs.act, static_cast<T*>(y), n);
  return Ok();
}

/// Writes element i. A value outside a signed 32- or 64-bit integer type becomes its smallest value, as processors
/// convert.
void store_power(Tensor& y, int64_t i, double v) {
  const double limit = y.dtype() == DType::kI32 ? 2147483648.0 : 9223372036854775808.0;
  if (is_signed_integer(y.dtype()) && bit_width(y.dtype()) >= 32 && !(v >= -limit && v < limit))
    set_int(y, i, static_cast<int64_t>(-limit));
  else
    set_double(y, i, v);
}

/// Narrow floats, mixed types and all other real operands: through buffers of T.
template <class T>
Status binary_converted(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  std::vector<T> p(static_cast<size_t>(a.elements())), q(static_cast<size_t>(b.elements()));
  for (int64_t i = 0; i < a.elements(); ++i) p[static_cast<size_t>(i)] = static_cast<T>(get_double(a, i));
  for (int64_t i = 0; i < b.elements(); ++i) q[static_cast<size_t>(i)] = static_cast<T>(get_double(b, i));
  const Walk walk = walk_of(a, b, y);
  if (gives_bool(attrs.fn)) return binary_real<T>(attrs, walk, p.data(), q.data(), y.raw(), y.elements());
  std::vector<T> r(static_cast<size_t>(y.elements()));
  SMELT_TRY(binary_real<T>(attrs, walk, p.data(), q.data(), r.data(), y.elements()));
  for (int64_t i = 0; i < y.elements(); ++i) {
    const auto v = static_cast<double>(r[static_cast<size_t>(i)]);
    attrs.fn == Binary::kPow ? store_power(y, i, v) : set_double(y, i, v);
  }
  return Ok();
}

/// int32 wraps like 64-bit arithmetic does, so the common functions may run on it directly.
bool binary_int32(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  if (attrs.alpha != 1 || attrs.act.kind != ActKind::kNone) return false;
  const auto *p = a.data<uint32_t>(), *q = b.data<uint32_t>();
  const Walk walk = walk_of(a, b, y);
  switch (attrs.fn) {
    case Binary::kAdd:
      map_rows(walk, p, q, y.data<uint32_t>(), [](uint32_t u, uint32_t v) { return u + v; });
      return true;
    case Binary::kSub:
      map_rows(walk, p, q, y.data<uint32_t>(), [](uint32_t u, uint32_t v) { return u - v; });
      return true;
    case Binary::kMul:
      map_rows(walk, p, q, y.data<uint32_t>(), [](uint32_t u, uint32_t v) { return u * v; });
      return true;
    default:
      return false;
  }
}

Status binary_integers(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  const DType dtype = a.dtype();
  if (bit_width(dtype) == 32 && b.dtype() == dtype && y.dtype() == dtype && binary_int32(attrs, a, b, y)) return Ok();
  const bool is_signed = is_signed_integer(dtype);
  const int bits = bit_width(dtype);
  const bool activated = attrs.act.kind != ActKind::kNone && !gives_bool(attrs.fn);
  const auto alpha = static_cast<int64_t>(attrs.alpha);
  const bool scaled = alpha != 1 && (attrs.fn == Binary::kAdd || attrs.fn == Binary::kSub);
  bool defined = true;
  walk_of(a, b, y).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    int64_t q = get_int(b, at[1]);
    if (scaled) q = static_cast<int64_t>(static_cast<uint64_t>(q) * static_cast<uint64_t>(alpha));
    const auto r = binary_int(attrs.fn, get_int(a, at[0]), q, bits, is_signed);
    defined = defined && r.has_value();
    set_int(y, out, r.value_or(0));
    if (activated) {
      const Bounds bounds = activation_bounds(attrs.act);
      const auto v = static_cast<double>(get_int(y, out));
      if (v < bounds.lo) set_int(y, out, static_cast<int64_t>(bounds.lo));
      if (v > bounds.hi) set_int(y, out, static_cast<int64_t>(bounds.hi));
    }
  });
  if (!defined) return Unsupported(to_string(attrs.fn), " is not defined on ", to_string(dtype));
  return Ok();
}

Status binary_strings(Binary fn, const Tensor& a, const Tensor& b, Tensor& y) {
  if (fn < Binary::kEqual || fn > Binary::kGreaterEqual)
    return Unsupported(to_string(fn), " is not defined on strings");
  walk_of(a, b, y).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    const int order = a.data<std::string>()[at[0]].compare(b.data<std::string>()[at[1]]);
    y.data<uint8_t>()[out] = binary_int(fn, order, 0, 64, true).value_or(0) != 0;
  });
  return Ok();
}

Status binary_complexes(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  bool defined = true;
  walk_of(a, b, y).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    std::complex<double> q = get_complex(b, at[1]);
    if (attrs.fn == Binary::kAdd || attrs.fn == Binary::kSub) q *= attrs.alpha;
    const auto r = binary_complex(attrs.fn, get_complex(a, at[0]), q);
    defined = defined && r.has_value();
    set_complex(y, out, r.value_or(0.0));
  });
  if (!defined) return Unsupported(to_string(attrs.fn), " is not defined on complex numbers");
  return Ok();
}

}  // namespace

template <class T>
RealRows<T> real_rows(Binary fn) {
  using namespace binary_math;
  switch (fn) {
#define SMELT_BINARY(name, text, real, integer, complex)                            \
  case Binary::k##name:                                                             \
    return rows_of<T, std::conditional_t<gives_bool(Binary::k##name), uint8_t, T>>( \
        []([[maybe_unused]] T a, [[maybe_unused]] T b) { return real; });
#include "ops/elementwise/binary_functions.inc"
#undef SMELT_BINARY
    case Binary::kCount:
      break;
  }
  return nullptr;
}
template RealRows<float> real_rows(Binary fn);
template RealRows<double> real_rows(Binary fn);

Status infer_Binary(InferContext& ctx) {
  const auto& attrs = ctx.attrs<BinaryAttrs>();
  const ValueType &a = ctx.input(0), &b = ctx.input(1);
  if (a.dtype != DType::kInvalid && b.dtype != DType::kInvalid && a.dtype != b.dtype && !a.quant && !b.quant &&
      attrs.fn != Binary::kPow && attrs.fn != Binary::kPRelu && attrs.fn != Binary::kShiftLeft &&
      attrs.fn != Binary::kShiftRight && attrs.fn != Binary::kShiftRightLogical)
    return InvalidModel(to_string(attrs.fn), " of ", to_string(a.dtype), " and ", to_string(b.dtype),
                        ": one element type expected");
  if (gives_bool(attrs.fn)) return infer_broadcast(ctx, 0, 2, DType::kBool);
  const DType dtype = result_dtype(ctx);
  return infer_broadcast(ctx, 0, 2, dtype, dtype == a.dtype ? a.quant : nullptr);
}

Status check_divisor(const Tensor& divisor) {
  for (int64_t i = 0; i < divisor.elements(); ++i)
    if (get_int(divisor, i) == 0) return InvalidInput("division by zero: element ", i, " of the divisor is 0");
  return Ok();
}

Status reference_Binary(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<BinaryAttrs>();
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  Tensor& y = ctx.output(0);
  if (is_quantized(a) || is_quantized(b) || is_quantized(y)) return binary_quantized(attrs, a, b, y);
  if (a.dtype() == DType::kString && b.dtype() == DType::kString) return binary_strings(attrs.fn, a, b, y);
  if (is_complex(a.dtype()) || is_complex(b.dtype())) return binary_complexes(attrs, a, b, y);
  const bool one_type = a.dtype() == b.dtype() && y.dtype() == (gives_bool(attrs.fn) ? DType::kBool : a.dtype());
  if (one_type && a.dtype() == DType::kF32)
    return binary_real<float>(attrs, walk_of(a, b, y), a.data<float>(), b.data<float>(), y.raw(), y.elements());
  if (one_type && a.dtype() == DType::kF64)
    return binary_real<double>(attrs, walk_of(a, b, y), a.data<double>(), b.data<double>(), y.raw(), y.elements());
  const bool integers = !is_float(a.dtype()) && !is_float(b.dtype());
  if (integers && attrs.checked_division && y.elements() > 0) SMELT_TRY(check_divisor(b));
  if (integers) return binary_integers(attrs, a, b, y);
  if (a.dtype() == DType::kF64 || b.dtype() == DType::kF64 || !is_float(a.dtype()) || !is_float(b.dtype()))
    return binary_converted<double>(attrs, a, b, y);
  return binary_converted<float>(attrs, a, b, y);
}

}  // namespace smelt
