#include "backends/cpu/elementwise/byte_sum.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace smelt {
namespace {

/// Fraction bits of t for factors of at most `most`, below 128.
int shift_for(double most) {
  int shift = 14;
  while (std::ldexp(most, shift) > INT16_MAX - 1) --shift;
  return shift;
}

std::optional<ByteSum> with_margin(double a, double b, double c, int shift, int64_t margin) {
  const int bits = shift + ByteSum::kLowBits;
  const auto scaled = [&](double v) { return static_cast<int64_t>(std::llrint(std::ldexp(v, bits))); };
  return ByteSum::exact(scaled(a), scaled(b), scaled(c + 0.5) + margin * (int64_t{1} << ByteSum::kLowBits), bits);
}

double larger(double a, double b) { return std::max(std::fabs(a), std::fabs(b)); }
bool fits(double a, double b, double c) { return larger(a, b) < 128 && std::fabs(c) < 0x1p15; }

}  // namespace

std::optional<ByteSum> ByteSum::exact(int64_t a, int64_t b, int64_t c, int bits) {
  constexpr int64_t kUnit = int64_t{1} << kLowBits, kMostConstant = int64_t{1} << 30;
  constexpr int64_t kMostFactor = INT16_MAX * kUnit;
  if (bits < kLowBits || bits > 31 + kLowBits || std::abs(a) > kMostFactor || std::abs(b) > kMostFactor) return {};
  const auto high_of = [](int64_t v) { return (v + kUnit / 2) >> kLowBits; };
  const auto pair = [](int64_t of_u, int64_t of_v) {
    return static_cast<int32_t>(static_cast<uint32_t>(of_v) << 16 | static_cast<uint16_t>(of_u));
  };
  ByteSum s;
  s.high = pair(high_of(a), high_of(b));
  s.low = pair(a - high_of(a) * kUnit, b - high_of(b) * kUnit);
  const int64_t constant = c >> kLowBits;
  if (std::abs(constant) > kMostConstant) return {};
  s.high_constant = static_cast<int32_t>(constant);
  s.low_constant = static_cast<int32_t>(c - constant * kUnit);
  s.shift = bits - kLowBits;
  return s;
}

std::optional<ByteSum> ByteSum::near(double a, double b, double c, double error) {
  if (!fits(a, b, c) || !(error < 1)) return {};
  // t is less than its real number by less than 1, and by the errors of a, b and c, together less than 0.02. Between
  // `margin` above a multiple of 2^shift and the next one there is no doubt.
  const int shift = shift_for(larger(a, b));
  const auto margin = static_cast<int64_t>(std::ceil(std::ldexp(error, shift) + 0.04));
  int bits = 1;
  while (int64_t{1} << bits < 2 * margin) ++bits;
  if (bits + 3 > shift) return {};
  auto s = with_margin(a, b, c, shift, margin);
  if (s) s->doubtful = (1 << shift) - (1 << bits);
  return s;
}

std::optional<ByteSum> ByteSum::nearest(double a, double b, double c) {
  return fits(a, b, c) ? with_margin(a, b, c, shift_for(larger(a, b)), 0) : std::nullopt;
}

}  // namespace smelt
