#include "ops/elementwise/binary_fixed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ops/common/broadcast.h"
#include "ops/common/fixed_functions.h"
#include "ops/common/fixed_point.h"
#include "ops/elementwise/binary_math.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

struct Operands {
  const Tensor &a, &b;
  Tensor& y;
  QuantParams pa, pb, py;
  int64_t lo, hi;  ///< range of y after the activation, in quantized integers
};

int32_t wrap_left(int32_t v, int bits) { return std::bit_cast<int32_t>(static_cast<uint32_t>(v) << bits); }
int32_t wrap_mul(int32_t p, int32_t q) {
  return std::bit_cast<int32_t>(static_cast<uint32_t>(p) * static_cast<uint32_t>(q));
}

/// y = clamp(f(a - zero point of a, b - zero point of b) + zero point of y), in quantized integers.
template <class F>
void map_centred(const Operands& o, F&& f) {
  const auto value = [&](int32_t p, int32_t q) {
    const int64_t r = static_cast<int64_t>(f(p - o.pa.zero_point, q - o.pb.zero_point)) + o.py.zero_point;
    return std::min(o.hi, std::max(o.lo, r));
  };
  const BroadcastWalk<2> walk(o.y.shape(), {o.a.shape(), o.b.shape()});
  if (o.a.dtype() == DType::kI8 && o.b.dtype() == DType::kI8 && o.y.dtype() == DType::kI8) {
    const auto *a = o.a.data<int8_t>(), *b = o.b.data<int8_t>();
    auto* y = o.y.data<int8_t>();
    walk.each([&](int64_t out, const std::array<int64_t, 2>& at) {
      y[out] = static_cast<int8_t>(value(a[at[0]], b[at[1]]));
    });
    return;
  }
  walk.each([&](int64_t out, const std::array<int64_t, 2>& at) {
    const auto p = static_cast<int32_t>(get_int(o.a, at[0])), q = static_cast<int32_t>(get_int(o.b, at[1]));
    set_int(o.y, out, value(p, q));
  });
}

/// Rescales both inputs to a common scale: twice the larger one, with `left` more bits of precision.
struct CommonScale {
  int left;
  double twice_max;
  FixedFactor a, b;
  CommonScale(const Operands& o, int left_shift)
      : left(left_shift),
        twice_max(static_cast<double>(2 * std::max(o.pa.scale, o.pb.scale))),
        a(fixed_factor(static_cast<double>(o.pa.scale) / twice_max)),
        b(fixed_factor(static_cast<double>(o.pb.scale) / twice_max)) {}
  int32_t of_a(int32_t v) const { return rescale_double(wrap_left(v, left), a); }
  int32_t of_b(int32_t v) const { return rescale_double(wrap_left(v, left), b); }
};

FixedArithmetic arithmetic(Binary fn, const Operands& o) {
  FixedArithmetic f;
  f.product = fn == Binary::kMul;
  f.square = fn == Binary::kSquaredDifference;
  f.negate_b = fn == Binary::kSub || f.square;
  f.zero_a = o.pa.zero_point;
  f.zero_b = o.pb.zero_point;
  f.zero = o.py.zero_point;
  f.low = o.lo;
  f.high = o.hi;
  if (f.product) {
    f.out = fixed_factor(static_cast<double>(o.pa.scale * o.pb.scale / o.py.scale));
    return f;
  }
  const CommonScale common(o, f.square ? 7 : o.y.dtype() == DType::kI16 ? 15 : 20);
  const auto unit = static_cast<double>(static_cast<float>(1 << (f.square ? 14 : common.left)) * o.py.scale);
  f.left = common.left;
  f.a = common.a;
  f.b = common.b;
  f.out = fixed_factor((f.square ? common.twice_max * common.twice_max : common.twice_max) / unit);
  return f;
}

void add_sub_or_multiply(Binary fn, const Operands& o) {
  const FixedArithmetic f = arithmetic(fn, o);
  BroadcastWalk<2>(o.y.shape(), {o.a.shape(), o.b.shape()}).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    const int32_t a = f.of_a(static_cast<int32_t>(get_int(o.a, at[0])));
    const int32_t b = f.of_b(static_cast<int32_t>(get_int(o.b, at[1])));
    set_int(o.y, out, f.quantized(f.combine(a, b)));
  });
}

/// True if a scale is 2^exponent.
bool power_of_two(float scale, int& exponent) {
  const float log2 = std::log(scale) * (1.0f / std::log(2.0f)), rounded = std::round(log2);
  exponent = static_cast<int>(rounded);
  return std::fabs(log2 - rounded) < 1e-3f;
}

/// True if the int16 kernel for power-of-two scales applies; sets the shifts of its inputs.
bool shifts(const BinaryAttrs& attrs, const Operands& o, int& right_a, int& right_b) {
  int ea = 0, eb = 0, ey = 0;
  if (!attrs.pot_scale || attrs.fn == Binary::kMul || o.y.dtype() != DType::kI16 || o.a.dtype() != DType::kI16 ||
      !power_of_two(o.pa.scale, ea) || !power_of_two(o.pb.scale, eb) || !power_of_two(o.py.scale, ey))
    return false;
  right_a = ey - ea;
  right_b = ey - eb;
  return (right_a == 0 || right_b == 0) && right_a >= 0 && right_b >= 0 && right_a <= 31 && right_b <= 31;
}

void add_or_sub_shifting(const Operands& o, bool subtract, int right_a, int right_b) {
  map_centred(o, [&](int32_t p, int32_t q) {
    const int32_t u = rounding_divide_by_pot(p, right_a), v = rounding_divide_by_pot(q, right_b);
    return std::clamp(subtract ? u - v : u + v, -32768, 32767);
  });
}

/// int16 inputs in [-1, 1) to 8-bit outputs.
void multiply_narrowing(const Operands& o) {
  map_centred(o, [&](int32_t p, int32_t q) {
    const auto u = static_cast<int16_t>(p + o.pa.zero_point), v = static_cast<int16_t>(q + o.pb.zero_point);
    return rounding_divide_by_pot(rounding_doubling_high_mul16(u, v), 8);
  });
}

void divide(const Operands& o) {
  const FixedFactor factor = fixed_factor(static_cast<double>(o.pa.scale / (o.pb.scale * o.py.scale)));
  map_centred(o, [&](int32_t p, int32_t q) -> int32_t {
    if (q == 0) return p == 0 ? 0 : (p > 0 ? 1 << 24 : -(1 << 24));
    if (q < 0) {
      p = -p;
      q = -q;
    }
    int bits = 0;
    const int32_t inverse = fixed_reciprocal(q, 31, &bits);
    const int headroom = __builtin_clrsb(p);
    const int32_t quotient = rounding_doubling_high_mul(wrap_left(p, headroom), inverse);
    const int right = headroom + bits - factor.shift;
    const int32_t scaled = rounding_doubling_high_mul(quotient, factor.multiplier);
    // Beyond 31 bits TFLite's mask is all ones and its shift takes the amount modulo 32: nothing divided becomes 1.
    if (right > 31) return (scaled >> (right & 31)) + (scaled >= 0);
    return right >= 0 ? rounding_divide_by_pot(scaled, right) : saturating_rounding_multiply_by_pot(scaled, -right);
  });
}

/// Of int8 values.
void squared_difference(const Operands& o) {
  const FixedArithmetic f = arithmetic(Binary::kSquaredDifference, o);
  const auto square = [&](int32_t a, int32_t b) { return rescale_double(f.combine(a, b), f.out); };
  if (o.y.elements() < 2 * 256) {
    map_centred(o, [&](int32_t p, int32_t q) { return square(f.of_a(p + f.zero_a), f.of_b(q + f.zero_b)); });
    return;
  }
  // The int8 inputs have 256 values each: rescale those.
  std::array<int32_t, 256> of_a, of_b;
  for (int32_t i = 0; i < 256; ++i) {
    const int32_t v = static_cast<int8_t>(i);
    of_a[static_cast<size_t>(i)] = f.of_a(v);
    of_b[static_cast<size_t>(i)] = f.of_b(v);
  }
  const auto at = [](const std::array<int32_t, 256>& table, int32_t v) { return table[static_cast<uint8_t>(v)]; };
  map_centred(
      o, [&](int32_t p, int32_t q) { return square(at(of_a, p + o.pa.zero_point), at(of_b, q + o.pb.zero_point)); });
}

void prelu(const Operands& o) {
  const FixedFactor identity = fixed_factor(static_cast<double>(o.pa.scale / o.py.scale));
  const FixedFactor sloped = fixed_factor(static_cast<double>(o.pa.scale * o.pb.scale / o.py.scale));
  map_centred(o, [&](int32_t p, int32_t q) {
    return p >= 0 ? rescale_double(p, identity) : rescale_double(wrap_mul(p, q), sloped);
  });
}

void compare(Binary fn, const Operands& o) {
  const FixedFactor fa = fixed_factor(static_cast<double>(o.pa.scale)),
                    fb = fixed_factor(static_cast<double>(o.pb.scale));
  BroadcastWalk<2>(o.y.shape(), {o.a.shape(), o.b.shape()}).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    const auto p = static_cast<int32_t>(get_int(o.a, at[0])) - o.pa.zero_point;
    const auto q = static_cast<int32_t>(get_int(o.b, at[1])) - o.pb.zero_point;
    const auto r = binary_int(fn, rescale_double(wrap_left(p, 8), fa), rescale_double(wrap_left(q, 8), fb), 32, true);
    o.y.data<uint8_t>()[out] = r.value_or(0) != 0;
  });
}

/// The larger or smaller integer; all three tensors have equal parameters.
void extreme(bool largest, const Operands& o) {
  BroadcastWalk<2>(o.y.shape(), {o.a.shape(), o.b.shape()}).each([&](int64_t out, const std::array<int64_t, 2>& at) {
    const int64_t p = get_int(o.a, at[0]), q = get_int(o.b, at[1]);
    set_int(o.y, out, std::min(o.hi, std::max(o.lo, largest ? std::max(p, q) : std::min(p, q))));
  });
}

bool is_narrow(DType d) { return d == DType::kI8 || d == DType::kU8; }
bool is_integer_kernel_type(DType d) { return is_narrow(d) || d == DType::kI16; }

/// Sets the range of y after a clamping activation; false for other activations.
bool output_range(const Activation& act, Operands& o) {
  o.lo = int_min(o.y.dtype());
  o.hi = int_max(o.y.dtype());
  if (act.kind == ActKind::kNone) return true;
  if (act.kind != ActKind::kRelu && act.kind != ActKind::kRelu6 && act.kind != ActKind::kReluN1 &&
      act.kind != ActKind::kClamp)
    return false;
  const Bounds bounds = activation_bounds(act);
  const auto quantized_bound = [&](float bound, int64_t beyond) {
    const double q = static_cast<double>(std::round(bound / o.py.scale)) + o.py.zero_point;
    return std::isfinite(q) && std::fabs(q) < 1e9 ? static_cast<int64_t>(q) : beyond;
  };
  o.lo = std::max(o.lo, quantized_bound(bounds.lo, o.lo));
  o.hi = std::min(o.hi, quantized_bound(bounds.hi, o.hi));
  return true;
}

}  // namespace

std::optional<FixedArithmetic> FixedArithmetic::make(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b,
                                                     Tensor& y) {
  if (attrs.rounding == Rounding::kXnnpack) return std::nullopt;
  const bool square = attrs.fn == Binary::kSquaredDifference;
  if (attrs.fn != Binary::kAdd && attrs.fn != Binary::kSub && attrs.fn != Binary::kMul && !square) return std::nullopt;
  if (square && y.dtype() != DType::kI8) return std::nullopt;
  Operands o{a, b, y, per_tensor_params(a.quant()), per_tensor_params(b.quant()), per_tensor_params(y.quant()), 0, 0};
  int right_a = 0, right_b = 0;
  if (!is_integer_kernel_type(y.dtype()) || a.dtype() != y.dtype() || b.dtype() != y.dtype() || attrs.alpha != 1 ||
      shifts(attrs, o, right_a, right_b) || !output_range(attrs.act, o))
    return std::nullopt;
  return arithmetic(attrs.fn, o);
}

std::optional<ShiftedArithmetic> ShiftedArithmetic::make(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b,
                                                         Tensor& y) {
  if (attrs.rounding == Rounding::kXnnpack) return std::nullopt;
  if (attrs.fn != Binary::kAdd && attrs.fn != Binary::kSub) return std::nullopt;
  Operands o{a, b, y, per_tensor_params(a.quant()), per_tensor_params(b.quant()), per_tensor_params(y.quant()), 0, 0};
  ShiftedArithmetic s;
  if (attrs.alpha != 1 || !shifts(attrs, o, s.right_a, s.right_b) || !output_range(attrs.act, o)) return std::nullopt;
  s.negate_b = attrs.fn == Binary::kSub;
  s.zero_a = o.pa.zero_point;
  s.zero_b = o.pb.zero_point;
  s.zero = o.py.zero_point;
  s.low = o.lo;
  s.high = o.hi;
  return s;
}

bool binary_fixed(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  Operands o{a, b, y, per_tensor_params(a.quant()), per_tensor_params(b.quant()), per_tensor_params(y.quant()), 0, 0};
  if (!is_integer_kernel_type(a.dtype()) || !is_integer_kernel_type(b.dtype())) return false;
  if (attrs.fn >= Binary::kEqual && attrs.fn <= Binary::kGreaterEqual) {
    compare(attrs.fn, o);
    return true;
  }
  if (!is_integer_kernel_type(y.dtype()) || attrs.alpha != 1 || !output_range(attrs.act, o)) return false;
  if (attrs.fn == Binary::kMul && a.dtype() == DType::kI16 && is_narrow(y.dtype())) {
    multiply_narrowing(o);
    return true;
  }
  if (a.dtype() != y.dtype() || (b.dtype() != y.dtype() && attrs.fn != Binary::kPRelu)) return false;
  int right_a = 0, right_b = 0;
  switch (attrs.fn) {
    case Binary::kAdd:
    case Binary::kSub:
      if (shifts(attrs, o, right_a, right_b))
        add_or_sub_shifting(o, attrs.fn == Binary::kSub, right_a, right_b);
      else
        add_sub_or_multiply(attrs.fn, o);
      return true;
    case Binary::kMul:
      add_sub_or_multiply(attrs.fn, o);
      return true;
    case Binary::kDiv:
      divide(o);
      return true;
    case Binary::kSquaredDifference:
      if (y.dtype() != DType::kI8) return false;
      squared_difference(o);
      return true;
    case Binary::kPRelu:
      prelu(o);
      return true;
    case Binary::kMin:
    case Binary::kMax:
      if (!(o.pa == o.pb) || !(o.pa == o.py)) return false;
      extreme(attrs.fn == Binary::kMax, o);
      return true;
    default:
      return false;
  }
}

}  // namespace smelt
