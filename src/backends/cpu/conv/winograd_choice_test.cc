#include "backends/cpu/conv/winograd_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/conv/winograd_choice_i8.h"

namespace smelt {
namespace {

/// Microseconds that bench/kernels/winograd.py measured: AMD EPYC (Zen 5), AVX-512, one core, 2026-11-26.
constexpr struct {
  int64_t size, c_in, c_out;
  double direct, f2, f4;
} kMeasured[] = {
    {4, 16, 16, 0.5294, 0.9276, 1.289},  {4, 64, 64, 6.364, 7.583, 12.43},    {4, 256, 256, 97.81, 105.8, 162.5},
    {7, 8, 8, 0.7712, 1.907, 0.9916},    {7, 32, 32, 3.912, 4.749, 3.255},    {7, 128, 128, 62.93, 54.2, 41.38},
    {7, 256, 256, 246, 212.5, 158.9},    {7, 512, 512, 1012, 838.9, 643.8},   {8, 384, 384, 724.8, 505.8, 362.7},
    {10, 128, 128, 125.4, 76.76, 84.11}, {10, 256, 256, 504.5, 296.4, 317.3}, {10, 512, 512, 2023, 1200, 1310},
    {14, 8, 8, 2.325, 4.859, 4.208},     {14, 16, 16, 4.335, 5.625, 5.006},   {14, 32, 128, 60.72, 43.13, 38.52},
    {14, 256, 256, 971.4, 546.3, 495.1}, {14, 512, 512, 3960, 2129, 1944},    {17, 96, 96, 203.6, 130.1, 104.3},
    {17, 128, 32, 94.24, 66.03, 57.35},  {28, 3, 32, 6.237, 18.44, 12.21},    {28, 16, 16, 17.15, 20.92, 13.09},
    {28, 32, 32, 59.77, 45.2, 29.48},    {28, 128, 128, 931.1, 484.6, 315.6}, {28, 256, 256, 3763, 1889, 1190},
    {56, 8, 8, 36.53, 72.76, 44.26},     {56, 16, 64, 241.7, 211.2, 141.5},   {56, 64, 64, 968.5, 589.4, 374.9},
    {56, 128, 128, 3804, 1990, 1173},    {112, 3, 32, 103.2, 303.1, 218.5},   {112, 16, 64, 973.1, 820.1, 553.4},
    {112, 64, 8, 1078, 840.1, 519.2},    {112, 64, 64, 3848, 2569, 1429},
};

/// Microseconds that bench/kernels/winograd.py --int8 measured: AMD EPYC (Zen 5), AVX-512 VNNI, one core, 2026-11-27.
constexpr struct {
  int64_t size, c_in, c_out;
  double direct, f2, f4;
} kMeasuredBytes[] = {
    {8, 64, 64, 5.253, 7.062, 6.905},    {8, 256, 256, 79.22, 106.9, 110.9},  {10, 128, 128, 33.22, 39.91, 41.51},
    {14, 32, 32, 4.28, 6.476, 5.773},    {14, 64, 128, 30.25, 37.02, 33.55},  {14, 128, 128, 63.64, 69.29, 63.55},
    {14, 256, 256, 243.9, 259, 235.9},   {14, 512, 512, 941.6, 1005, 930.8},  {17, 64, 64, 24.02, 31.39, 26.95},
    {17, 256, 256, 355.9, 404.3, 324.9}, {20, 32, 64, 16.75, 23.19, 16.28},   {20, 64, 64, 30.88, 36.86, 24.77},
    {20, 256, 256, 481.8, 480.4, 322.4}, {28, 32, 32, 16.25, 24.18, 16.48},   {28, 64, 32, 30.89, 39.39, 26.2},
    {28, 64, 64, 61.61, 72.8, 47.97},    {28, 128, 128, 246.6, 250.4, 161.8}, {28, 384, 384, 2073, 2073, 1281},
    {40, 96, 96, 276.4, 298.1, 193.3},   {40, 256, 256, 1910, 1934, 1195},    {56, 32, 64, 124.4, 179.1, 118.2},
    {56, 64, 64, 242.5, 293.6, 188.8},   {56, 64, 128, 475.5, 550.6, 362.8},  {56, 128, 128, 993.1, 1006, 712.7},
    {112, 32, 32, 260.5, 412.9, 294.2},  {112, 64, 32, 482.1, 620.3, 417.7},  {112, 128, 128, 4240, 4308, 2658},
};

/// Microseconds that bench/kernels/winograd.py --dilation measured: AMD EPYC (Zen 5), AVX-512, one core, 2026-11-28.
constexpr struct {
  int64_t dilation, size, c_in, c_out;
  double direct, f2, f4;
} kMeasuredDilated[] = {
    {2, 14, 64, 64, 62.14, 51.74, 36.34}, {2, 14, 256, 256, 961.8, 709.3, 485.7}, {2, 20, 160, 64, 300.4, 171.9, 155.2},
    {2, 28, 64, 64, 239.5, 145.9, 123.1}, {2, 28, 256, 256, 3800, 1905, 1555},    {4, 14, 64, 64, 63.51, 50.19, 36.42},
    {4, 14, 512, 512, 4776, 2994, 2321},  {4, 20, 64, 64, 99.26, 107, 117.8},     {4, 20, 256, 256, 1538, 1421, 1513},
    {4, 28, 256, 256, 3742, 2474, 1460},  {4, 33, 256, 256, 5364, 3893, 3223},    {6, 14, 64, 64, 42.57, 106.6, 67.85},
    {6, 20, 256, 256, 1273, 1393, 894.2}, {6, 33, 256, 256, 5502, 3123, 3181},    {12, 14, 256, 256, 247.2, 1406, 3182},
    {12, 20, 256, 256, 789, 1441, 3214},  {12, 33, 256, 256, 3034, 5634, 3250},
};

/// Microseconds that bench/kernels/winograd.py --groups 4 measured: AMD EPYC (Zen 5), AVX-512, one core, 2026-11-29.
constexpr struct {
  int64_t size, channels;  ///< channels: in and out, of a group
  double direct, f2, f4;
} kMeasuredGroups[] = {
    {7, 8, 2.181, 7.158, 3.595},   {14, 8, 6.638, 18.38, 17.58},   {28, 8, 24.76, 68.59, 47.25},
    {56, 8, 90.76, 296.9, 208.7},  {7, 16, 5.439, 9.089, 4.755},   {14, 16, 18.28, 22.55, 21.01},
    {28, 16, 73.97, 84.45, 56.22}, {56, 16, 296.2, 350.7, 221.6},  {7, 24, 12.91, 17.63, 11.52},
    {14, 24, 38.72, 44.74, 40.32}, {28, 24, 147.1, 175.8, 115.3},  {56, 24, 574.7, 688.2, 453},
    {7, 32, 16.52, 19.95, 13.28},  {14, 32, 66.43, 51.44, 47.94},  {28, 32, 253.7, 198.6, 129.8},
    {56, 32, 985.6, 787.8, 467.1}, {7, 48, 38.71, 41.15, 27.92},   {14, 48, 149.8, 102.7, 92.93},
    {28, 48, 580.6, 393.7, 255.2}, {56, 48, 2335, 1658, 985.7},    {7, 64, 65.32, 63.47, 46.48},
    {14, 64, 256.8, 162.8, 147},   {28, 64, 1011, 600.3, 387.3},   {56, 64, 3908, 2568, 1471},
    {7, 112, 196.2, 175.3, 131.4}, {14, 112, 767.2, 452.1, 404.1}, {28, 112, 3041, 1651, 1045},
};

/// Microseconds that bench/kernels/winograd.py --bf16 measured: AMD EPYC (Zen 5), one core, 2026-11-28.
constexpr struct {
  int64_t size, c_in, c_out;
  double direct, f2;
} kMeasuredBf16[] = {
    {4, 16, 16, 0.3252, 0.6279}, {4, 64, 64, 3.663, 2.646},    {4, 256, 256, 55.68, 27.89},
    {7, 16, 16, 0.7164, 1.615},  {7, 128, 128, 29.58, 20.93},  {7, 512, 512, 489.7, 297.9},
    {10, 64, 64, 14.6, 10.14},   {10, 256, 256, 231.2, 116.8}, {14, 16, 16, 2.251, 4.188},
    {14, 32, 128, 29.32, 23.55}, {14, 64, 64, 28.98, 19.64},   {14, 128, 32, 29.49, 18.8},
    {14, 256, 256, 450, 222.6},  {14, 512, 512, 1840, 892.6},  {28, 16, 16, 8.879, 16.16},
    {28, 32, 32, 30.21, 28.63},  {28, 64, 64, 117, 78.16},     {28, 128, 128, 471.9, 261.6},
    {56, 16, 16, 36.26, 66.15},  {56, 64, 64, 466.4, 313.2},   {56, 64, 16, 135.6, 123.8},
    {112, 32, 32, 487.1, 444.2}, {112, 64, 64, 1874, 1299},    {112, 128, 128, 7411, 4868},
};

ConvShape shape_of(int64_t size, int64_t c_in, int64_t c_out, int64_t dilation = 1) {
  ConvShape g;
  g.c_in = c_in;
  g.c_out = c_out;
  for (const int d : {1, 2}) {
    g.in[d] = g.out[d] = size;
    g.kernel[d] = 3;
    g.pad[d] = g.dilation[d] = dilation;
  }
  return g;
}

TEST(WinogradChoice, TakesLittleMoreThanTheLeastTime) {
  for (const auto& m : kMeasured) {
    const int tile = winograd_tile(shape_of(m.size, m.c_in, m.c_out), {});
    const double time = tile == 0 ? m.direct : tile == 2 ? m.f2 : m.f4;
    const double least = std::min({m.direct, m.f2, m.f4}), noise = 2;
    EXPECT_LE(time, 1.1 * least + noise) << m.size << ' ' << m.c_in << ' ' << m.c_out;
  }
}

TEST(WinogradChoice, OfDilatedConvolutionsToo) {
  for (const auto& m : kMeasuredDilated) {
    const int tile = winograd_tile(shape_of(m.size, m.c_in, m.c_out, m.dilation), {});
    const double time = tile == 0 ? m.direct : tile == 2 ? m.f2 : m.f4;
    EXPECT_LE(time, 1.1 * std::min({m.direct, m.f2, m.f4})) << m.dilation << ' ' << m.size << ' ' << m.c_in;
  }
}

TEST(WinogradChoice, OfGroupsToo) {
  for (const auto& m : kMeasuredGroups) {
    ConvShape g = shape_of(m.size, m.channels, m.channels);
    g.groups = 4;
    const int tile = winograd_tile(g, {});
    const double time = tile == 0 ? m.direct : tile == 2 ? m.f2 : m.f4;
    EXPECT_LE(time, 1.1 * std::min({m.direct, m.f2, m.f4}) + 1) << m.size << ' ' << m.channels;
  }
}

TEST(WinogradChoice, InBfloat16TakesLittleMoreThanTheLeastTime) {
  for (const auto& m : kMeasuredBf16) {
    const double time = takes_winograd_bf16(shape_of(m.size, m.c_in, m.c_out), {}) ? m.f2 : m.direct;
    EXPECT_LE(time, 1.12 * std::min(m.direct, m.f2)) << m.size << ' ' << m.c_in << ' ' << m.c_out;
  }
  const ConvShape g = shape_of(14, 64, 64);
  EXPECT_FALSE(takes_winograd_bf16(g, *winograd_setting_named("0")));
  EXPECT_FALSE(takes_winograd_bf16(g, *winograd_setting_named("always4")));
  EXPECT_TRUE(takes_winograd_bf16(shape_of(4, 16, 16), *winograd_setting_named("always2")));
}

TEST(WinogradChoice, SettingLimitsTheTile) {
  const ConvShape g = shape_of(56, 64, 64);
  EXPECT_EQ(winograd_tile(g, *winograd_setting_named(nullptr)), 4);
  EXPECT_EQ(winograd_tile(g, *winograd_setting_named("4")), 4);
  EXPECT_EQ(winograd_tile(g, *winograd_setting_named("2")), 2);
  EXPECT_EQ(winograd_tile(g, *winograd_setting_named("0")), 0);
  const ConvShape small = shape_of(4, 3, 8);
  EXPECT_EQ(winograd_tile(small, *winograd_setting_named("4")), 0);
  EXPECT_EQ(winograd_tile(small, *winograd_setting_named("always2")), 2);
  EXPECT_EQ(winograd_tile(small, *winograd_setting_named("always4")), 4);
}

TEST(WinogradChoice, AFasterDirectConvolutionIsPreferred) {
  EXPECT_NE(winograd_tile(shape_of(14, 32, 128), {}), 0);
  EXPECT_EQ(winograd_tile(shape_of(14, 32, 128), {}, 0.55), 0);
  EXPECT_EQ(winograd_tile(shape_of(112, 64, 64), {}, 0.55), 4);
}

TEST(WinogradChoice, OtherSettingsAreErrors) {
  for (const char* name : {"", "3", "44", "always"}) {
    const auto setting = winograd_setting_named(name);
    ASSERT_FALSE(setting.ok()) << name;
    EXPECT_EQ(setting.error().message(),
              std::string("SMELT_CPU_WINOGRAD is ") + name + "; it may be 0, 2, 4, always2, always4");
  }
}

int byte_tile(const ConvShape& g, const WinogradSetting& setting, bool exact = true) {
  const WinogradI8* w =
      winograd_transforms_i8(g, Isa::kVnni, kAmdVnniTimesI8, setting, [&](const WinogradI8&) { return exact; });
  return w ? w->tile : 0;
}

bool has_vnni() { return best_isa().has(IsaFeature::kVnni); }

TEST(WinogradChoiceI8, TakesLittleMoreThanTheLeastTime) {
  if (!has_vnni()) GTEST_SKIP() << "the estimate is of tiles of AVX-512 VNNI";
  for (const auto& m : kMeasuredBytes) {
    const int tile = byte_tile(shape_of(m.size, m.c_in, m.c_out), {});
    const double time = tile == 0 ? m.direct : tile == 2 ? m.f2 : m.f4;
    EXPECT_LE(time, 1.1 * std::min({m.direct, m.f2, m.f4})) << m.size << ' ' << m.c_in << ' ' << m.c_out;
  }
}

TEST(WinogradChoiceI8, SettingAndExactnessLimitTheTile) {
  if (!has_vnni()) GTEST_SKIP() << "the estimate is of tiles of AVX-512 VNNI";
  const ConvShape g = shape_of(56, 64, 64);
  EXPECT_EQ(byte_tile(g, {}), 4);
  EXPECT_EQ(byte_tile(g, {.largest_tile = 2, .always = true}), 2);
  EXPECT_EQ(byte_tile(g, {.largest_tile = 0}), 0);
  EXPECT_EQ(byte_tile(g, {}, false), 0);
}

TEST(WinogradChoiceI8, LevelsHaveTimesOfTheirOwn) {
#if defined(__x86_64__)
  EXPECT_EQ(winograd_times_i8(Isa::kAvx2), &kPairTimesI8);
  EXPECT_EQ(winograd_times_i8(Isa::kAmx), nullptr);
#else
  EXPECT_EQ(winograd_times_i8(Isa::kBaseline), nullptr);
#endif
}

}  // namespace
}  // namespace smelt
