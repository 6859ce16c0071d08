#include "ops/common/lookup.h"

#include <algorithm>
#include <cmath>

#include "tensor/numeric.h"

namespace smelt {

namespace {
/// std::round() without a call.
float round_away(float v) {
  if (!(std::fabs(v) < 0x1p23f)) return v;
  const auto whole = static_cast<float>(static_cast<int32_t>(v));
  const float rest = v - whole;
  return whole + static_cast<float>((rest >= 0.5f) - (rest <= -0.5f));
}
}  // namespace

std::array<uint8_t, 256> byte_table(DType dtype, float in_scale, int32_t in_zero, float out_scale, int32_t out_zero,
                                    const std::function<float(float)>& f) {
  std::array<uint8_t, 256> table{};
  const float inverse = 1 / out_scale;
  const auto lo = static_cast<int32_t>(int_min(dtype)), hi = static_cast<int32_t>(int_max(dtype));
  std::array<float, 256> results;
  for (int32_t v = lo; v <= hi; ++v)
    results[static_cast<size_t>(v - lo)] = f(in_scale * static_cast<float>(v - in_zero)) * inverse;
  const auto least = static_cast<double>(lo), most = static_cast<double>(hi);
  for (size_t i = 0; i < table.size(); ++i) {
    const auto rounded = static_cast<double>(round_away(results[i]) + static_cast<float>(out_zero));
    const double above = rounded < least ? least : rounded, clamped = above > most ? most : above;
    table[static_cast<uint8_t>(static_cast<int32_t>(i) + lo)] =
        static_cast<uint8_t>(clamped != clamped ? 0 : static_cast<int32_t>(clamped));
  }
  return table;
}

template <class T>
std::vector<int16_t> word_table(T in_scale, int32_t in_zero, T out_scale, int32_t out_zero,
                                const std::function<T(T)>& f) {
  constexpr int kSteps = 512;
  const T in_min = in_scale * static_cast<T>(INT16_MIN - in_zero),
          in_max = in_scale * static_cast<T>(INT16_MAX - in_zero);
  const T out_min = out_scale * static_cast<T>(INT16_MIN - out_zero);
  const T out_max = out_scale * static_cast<T>(INT16_MAX - out_zero);
  const T step = (in_max - in_min) / kSteps, half = step / 2, inverse = T(65536) / (out_max - out_min);
  const auto rounded = [](T v) {
    return static_cast<int16_t>(v != v ? T(0) : std::clamp(v, T(INT16_MIN), T(INT16_MAX)));
  };
  std::vector<int16_t> table(kSteps + 1);
  for (int i = 0; i < kSteps; ++i) {
    const T at = in_min + static_cast<T>(i) * step;
    const T sample = std::round(f(at) * inverse);
    const T next = f(in_min + static_cast<T>(i + 1) * step) * inverse;
    const T interpolated = std::round((next + sample) / 2);
    const T error = interpolated - std::round(f(at + half) * inverse);
    table[static_cast<size_t>(i)] = rounded(sample - std::round(error / 2));
  }
  table[kSteps] = rounded(std::round(f(in_max) * inverse));
  return table;
}
template std::vector<int16_t> word_table<float>(float, int32_t, float, int32_t, const std::function<float(float)>&);
template std::vector<int16_t> word_table<double>(double, int32_t, double, int32_t,
                                                 const std::function<double(double)>&);

int16_t look_up(int16_t value, const std::vector<int16_t>& table) {
  const auto index = static_cast<size_t>(256 + (value >> 7));
  const int32_t offset = value & 0x7f, slope = table[index + 1] - table[index];
  return static_cast<int16_t>(table[index] + ((slope * offset + 64) >> 7));
}

}  // namespace smelt
