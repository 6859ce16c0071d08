#include "backends/cpu/conv/winograd_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

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

ConvShape shape_of(int64_t size, int64_t c_in, int64_t c_out) {
  ConvShape g;
  g.c_in = c_in;
  g.c_out = c_out;
  for (const int d : {1, 2}) {
    g.in[d] = g.out[d] = size;
    g.kernel[d] = 3;
    g.pad[d] = 1;
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

}  // namespace
}  // namespace smelt
