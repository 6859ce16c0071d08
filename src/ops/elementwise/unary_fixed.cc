#include "ops/elementwise/unary_fixed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>

#include "ops/common/fixed_functions.h"
#include "ops/common/fixed_point.h"
#include "ops/common/lookup.h"
#include "ops/elementwise/unary_math.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// y = clamp(f(x - zero point of x) + zero point of y), in quantized integers.
template <class F>
void map_centred(const Tensor& x, Tensor& y, F&& f) {
  const int32_t in_zero = per_tensor_params(x.quant()).zero_point, out_zero = per_tensor_params(y.quant()).zero_point;
  const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto v = static_cast<int32_t>(get_int(x, i)) - in_zero;
    set_int(y, i, std::clamp(static_cast<int64_t>(f(v)) + out_zero, lo, hi));
  }
}

/// The real function that tables of 8- and 16-bit values are built from.
std::function<float(float)> tabulated(const UnaryAttrs& attrs, const Tensor& y) {
  const QuantParams out = per_tensor_params(y.quant());
  const float smallest = static_cast<float>(int_min(y.dtype()) - out.zero_point) * out.scale;
  const float largest = static_cast<float>(int_max(y.dtype())) * out.scale;
  switch (attrs.fn) {
    case Unary::kSigmoid:
      return [](float v) { return 1.0f / (1.0f + std::exp(-v)); };
    case Unary::kTanh:
      return [](float v) { return std::tanh(v); };
    case Unary::kExp:
      return [](float v) { return std::exp(v); };
    case Unary::kLog:
      return [smallest](float v) { return v <= 0 ? smallest : std::log(v); };
    case Unary::kRsqrt:
      return [largest](float v) { return v <= 0 ? largest : 1.0f / std::sqrt(v); };
    case Unary::kElu:
      return [](float v) { return v < 0.0f ? std::expm1(v) : v; };
    case Unary::kGelu:
      return [](float v) { return 0.5f * v * std::erfc(v * static_cast<float>(-0.70710678118654752440)); };
    case Unary::kGeluTanh:
      return
          [](float v) { return 0.5f * v * (1.0f + std::tanh(0.79788456080286535588f * (v + 0.044715f * v * v * v))); };
    default:
      return [attrs](float v) { return static_cast<float>(unary_real<double>(attrs, v)); };
  }
}

void by_table(const UnaryAttrs& attrs, const Tensor& x, Tensor& y) {
  const QuantParams in = per_tensor_params(x.quant()), out = per_tensor_params(y.quant());
  const auto f = tabulated(attrs, y);
  if (x.dtype() == DType::kI16) {
    const auto table = word_table<float>(in.scale, in.zero_point, out.scale, out.zero_point, f);
    for (int64_t i = 0; i < x.elements(); ++i) y.data<int16_t>()[i] = look_up(x.data<int16_t>()[i], table);
    return;
  }
  const auto table = byte_table(x.dtype(), in.scale, in.zero_point, out.scale, out.zero_point, f);
  for (int64_t i = 0; i < x.elements(); ++i) y.data<uint8_t>()[i] = table[x.data<uint8_t>()[i]];
}

/// TFLite's table of the logistic function of i / 24 in unsigned 0.16 fixed point. Its entries are up to one step above
/// the exact values: the formula gives all but four, which are corrected.
const std::array<uint16_t, 256>& sigmoid_table() {
  static const std::array<uint16_t, 256> table = [] {
    std::array<uint16_t, 256> t{};
    for (size_t i = 0; i < t.size(); ++i)
      t[i] = static_cast<uint16_t>(
          std::floor(65535.5 / (1.0 + std::exp(-static_cast<double>(i) / 24.0 * 1.000032)) + 1.0));
    t[3] -= 1;
    t[35] += 1;
    t[174] -= 1;
    t[255] += 1;
    return t;
  }();
  return table;
}

/// Scaling of int16 inputs to steps of 1 / (3 * 4096), by a multiplier and a right shift.
struct TableInput {
  int32_t multiplier;
  int shift;
  int32_t operator()(int16_t v) const {
    const int64_t round = shift > 0 ? int64_t{1} << (shift - 1) : 0;
    return static_cast<int32_t>((int64_t{v} * multiplier + round) >> shift);
  }
};

TableInput table_input(float scale, int largest_shift) {
  const float log2 = std::log(scale) * (1.0f / std::log(2.0f)), rounded = std::round(log2);
  const int left = 12 + static_cast<int>(rounded);
  if (std::fabs(log2 - rounded) < 1e-3f && left >= 0 && left <= largest_shift) return {3 << left, 0};
  double multiplier = scale * 4096.0 * 3.0;
  int shift = 0;
  for (; multiplier <= 32767.0 / 2.0 && shift <= 30; ++shift) multiplier *= 2.0;
  return {static_cast<int32_t>(std::min(multiplier, 2147483647.0)), shift};
}

void logistic16(const Tensor& x, Tensor& y) {
  const TableInput scaled = table_input(per_tensor_params(x.quant()).scale, 0);
  const auto& table = sigmoid_table();
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int32_t v = scaled(x.data<int16_t>()[i]);
    const auto magnitude = static_cast<uint32_t>(std::abs(int64_t{v}));
    const uint32_t high = magnitude >> 9;
    uint32_t r = 0x7fffu << 10;
    if (high < 255) r = (uint32_t{table[high]} << 9) + (magnitude & 0x1ff) * (uint32_t{table[high + 1]} - table[high]);
    r = v >= 0 ? r + (1u << 9) : (1u << 25) - r + (1u << 9) - 1;
    y.data<int16_t>()[i] = static_cast<int16_t>(r >> 10);
  }
}

void tanh16(const Tensor& x, Tensor& y) {
  const TableInput scaled = table_input(per_tensor_params(x.quant()).scale, 1);
  const auto& table = sigmoid_table();
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int32_t v = scaled(x.data<int16_t>()[i]);
    const auto magnitude = static_cast<uint32_t>(std::abs(int64_t{v}));
    const uint32_t high = magnitude >> 8;
    int32_t r = 0xffff << 8;
    if (high < 255)
      r = static_cast<int32_t>((uint32_t{table[high]} << 8) +
                               (magnitude & 0xff) * (uint32_t{table[high + 1]} - table[high]));
    r = v >= 0 ? r - (1 << 23) + (1 << 7) : -r + (1 << 23) + (1 << 7) - 1;
    y.data<int16_t>()[i] = static_cast<int16_t>(r >> 8);
  }
}

void clamp_between(float low, float high, const Tensor& x, Tensor& y) {
  const QuantParams in = per_tensor_params(x.quant()), out = per_tensor_params(y.quant());
  const FixedFactor factor = fixed_factor(static_cast<double>(in.scale / out.scale));
  const auto quantized_bound = [&](float bound, int64_t beyond) {
    const double q = static_cast<double>(std::round(bound / out.scale)) + out.zero_point;
    return std::isfinite(q) && std::fabs(q) < 1e9 ? static_cast<int64_t>(q) : beyond;
  };
  const int64_t lo = std::max(int_min(y.dtype()), quantized_bound(low, int_min(y.dtype())));
  const int64_t hi = std::min(int_max(y.dtype()), quantized_bound(high, int_max(y.dtype())));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto v = static_cast<int32_t>(get_int(x, i)) - in.zero_point;
    set_int(y, i, std::min(hi, std::max(lo, int64_t{rescale_double(v, factor)} + out.zero_point)));
  }
}

void leaky_relu(double alpha, const Tensor& x, Tensor& y) {
  const float in = per_tensor_params(x.quant()).scale, out = per_tensor_params(y.quant()).scale;
  const float slope = in * static_cast<float>(alpha) / out;
  const FixedFactor identity = fixed_factor(static_cast<double>(in / out));
  const FixedFactor negative = fixed_factor(static_cast<double>(std::fabs(slope)));
  map_centred(x, y, [&](int32_t v) {
    if (v >= 0) return rescale_double(v, identity);
    const int32_t r = rescale_double(v, negative);
    return slope < 0 ? -r : r;
  });
}

int16_t narrow_multiplier(int32_t m) {
  return static_cast<int16_t>(m >= INT32_MAX - (1 << 15) ? INT16_MAX : (m + (1 << 15)) >> 16);
}

int16_t saturating_left(int16_t v, int amount) {
  return static_cast<int16_t>(
      std::clamp<int64_t>(int64_t{v} * (int64_t{1} << std::min(amount, 31)), INT16_MIN, INT16_MAX));
}

/// Hard swish in 16-bit fixed point; false when the output scale is too fine for it.
bool hard_swish(const Tensor& x, Tensor& y) {
  const QuantParams in = per_tensor_params(x.quant()), out = per_tensor_params(y.quant());
  const float fine = (1.0f / 128.0f) * in.scale;
  const FixedFactor to_out = fixed_factor(static_cast<double>(fine / out.scale));
  const FixedFactor to_unit = fixed_factor(static_cast<double>(fine / (3.0f / 32768.0f)));
  if (to_out.shift > 0) return false;
  const int16_t out_multiplier = narrow_multiplier(to_out.multiplier),
                unit_multiplier = narrow_multiplier(to_unit.multiplier);
  map_centred(x, y, [&](int32_t centred) {
    const auto v = static_cast<int16_t>(centred * (1 << 7));
    const int16_t before_shift = rounding_doubling_high_mul16(v, out_multiplier);
    // x / 3, saturated to [-1, 1], then moved to [0, 1].
    int16_t unit = v;
    if (to_unit.shift > 0) unit = saturating_left(unit, to_unit.shift - 1);
    unit = rounding_doubling_high_mul16(unit, unit_multiplier);
    if (to_unit.shift > 0) unit = saturating_left(unit, 1);
    if (to_unit.shift < 0) unit = static_cast<int16_t>(rounding_divide_by_pot(unit, -to_unit.shift));
    unit = static_cast<int16_t>((unit + (1 << 15)) >> 1);
    const bool overflow = unit == INT16_MIN && before_shift == INT16_MIN;
    const auto product = static_cast<int16_t>(overflow ? INT16_MAX : int32_t{unit} * before_shift / (1 << 15));
    return rounding_divide_by_pot(product, -to_out.shift);
  });
  return true;
}

void magnitude(const Tensor& x, Tensor& y) {
  const QuantParams in = per_tensor_params(x.quant()), out = per_tensor_params(y.quant());
  const FixedFactor factor = fixed_factor(static_cast<double>(in.scale / out.scale));
  map_centred(x, y,
              [&](int32_t v) { return in.scale == out.scale ? std::abs(v) : rescale_double(std::abs(v), factor); });
}

/// The quotient is truncated, not rounded.
void square_root(const Tensor& x, Tensor& y) {
  const QuantParams in = per_tensor_params(x.quant()), out = per_tensor_params(y.quant());
  map_centred(x, y, [&](int32_t v) {
    const float root = std::sqrt(in.scale * static_cast<float>(std::max(v, 0)));
    return static_cast<int32_t>(std::min(root / out.scale, 1e9f));
  });
}

void inverse_square_root8(const Tensor& x, Tensor& y) {
  constexpr int kShift = 20;
  const QuantParams in = per_tensor_params(x.quant()), out = per_tensor_params(y.quant());
  FixedFactor factor = fixed_factor(1.0 / static_cast<double>(std::sqrt(in.scale) * out.scale));
  factor.shift -= kShift;
  map_centred(x, y, [&](int32_t v) -> int32_t {
    if (v <= 0) return 1 << 20;
    FixedFactor root = fixed_inverse_sqrt(v);
    root.shift += kShift;
    return rescale_double(rescale_double(1, root), factor);
  });
}

}  // namespace

bool unary_fixed(const UnaryAttrs& attrs, const Tensor& x, Tensor& y) {
  const DType dtype = x.dtype();
  const bool narrow = dtype == DType::kI8 || dtype == DType::kU8, wide = dtype == DType::kI16;
  if (y.dtype() != dtype || !(narrow || wide)) return false;
  constexpr float inf = std::numeric_limits<float>::infinity();
  switch (attrs.fn) {
    case Unary::kRelu:
      clamp_between(0, inf, x, y);
      return true;
    case Unary::kRelu6:
      clamp_between(0, 6, x, y);
      return true;
    case Unary::kReluN1:
      clamp_between(-1, 1, x, y);
      return true;
    case Unary::kClamp:
      clamp_between(static_cast<float>(attrs.a), static_cast<float>(attrs.b), x, y);
      return true;
    case Unary::kLeakyRelu:
      leaky_relu(attrs.a, x, y);
      return true;
    case Unary::kHardSwish:
      return narrow && hard_swish(x, y);
    case Unary::kAbs:
      magnitude(x, y);
      return true;
    case Unary::kSqrt:
      square_root(x, y);
      return true;
    case Unary::kRsqrt:
      if (dtype == DType::kI8)
        inverse_square_root8(x, y);
      else
        by_table(attrs, x, y);
      return true;
    case Unary::kSigmoid:
      if (wide)
        logistic16(x, y);
      else
        by_table(attrs, x, y);
      return true;
    case Unary::kTanh:
      if (wide)
        tanh16(x, y);
      else
        by_table(attrs, x, y);
      return true;
    case Unary::kExp:
    case Unary::kLog:
    case Unary::kElu:
    case Unary::kGelu:
    case Unary::kGeluTanh:
      by_table(attrs, x, y);
      return true;
    default:
      return false;
  }
}

}  // namespace smelt
