#include "backends/cpu/elementwise/byte_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace smelt {
namespace {

constexpr double kMostFactor = 1024;

/// Fraction bits of t for factors of at most `most`, below kMostFactor.
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
bool fits(double a, double b, double c) { return larger(a, b) < kMostFactor && std::fabs(c) < 0x1p18; }

}  // namespace

std::optional<ByteSum> ByteSum::exact(int64_t a, int64_t b, int64_t c, int bits) {
  constexpr int64_t kUnit = int64_t{1} << kLowBits, kMostConstant = int64_t{1} << 30;
  constexpr int64_t kMost = INT16_MAX * kUnit;
  if (bits < kLowBits || bits > 31 + kLowBits || std::abs(a) > kMost || std::abs(b) > kMost) return {};
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

std::vector<uint8_t> lines_with_guesses(const ByteSum& sum, LeastNumbers search) {
  // t is the floor of a * u + b * v + c without their low 15 bits. A guess is where t modulo 2^shift is below the
  // lowest bit of `doubtful`: what is summed, moved up to the top of 32 bits, is below it moved likewise.
  constexpr int64_t kUnit = int64_t{1} << ByteSum::kLowBits;
  const int up = 32 - ByteSum::kLowBits - sum.shift;
  const auto whole = [up](int64_t high, int64_t low) { return static_cast<uint32_t>(high * kUnit + low) << up; };
  const auto first = [](int32_t pair) { return int64_t{static_cast<int16_t>(pair)}; };
  const uint32_t a = whole(first(sum.high), first(sum.low)), b = whole(sum.high >> 16, sum.low >> 16),
                 c = whole(sum.high_constant, sum.low_constant);
  const uint32_t limit = static_cast<uint32_t>(sum.doubtful & -sum.doubtful) << (ByteSum::kLowBits + up);
  std::vector<uint8_t> lines;
  Progressions of_line;
  of_line.step.fill(b);
  std::array<uint32_t, Progressions::kCount> least;
  for (uint32_t line = 0; line < 256; line += Progressions::kCount) {
    for (uint32_t i = 0; i < Progressions::kCount; ++i) of_line.first[i] = c + (line + i) * a;
    search(of_line, 256, least);
    for (uint32_t i = 0; i < Progressions::kCount; ++i)
      if (least[i] < limit) lines.push_back(static_cast<uint8_t>(line + i));
  }
  return lines;
}

}  // namespace smelt
