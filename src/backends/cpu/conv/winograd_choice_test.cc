#include "backends/cpu/conv/winograd_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace smelt {
namespace {

/// Microseconds that bench/kernels/winograd.py measured: AMD EPYC (Zen 5), AVX-512, one core, 2026-11-23.
constexpr struct {
  int64_t size, c_in, c_out;
  double direct, f2, f4;
} kMeasured[] = {
    {4, 16, 16, 0.5566, 0.8257, 1.075},  {4, 64, 64, 7.063, 7.851, 22.4},   {4, 256, 256, 103.2, 78.46, 180.6},
    {7, 8, 8, 0.7793, 1.908, 1.477},     {7, 32, 32, 4.075, 4.312, 5.634},  {7, 128, 128, 66.69, 53.18, 74.88},
    {7, 256, 256, 269.9, 191.8, 300.4},  {7, 512, 512, 1161, 688.3, 1199},  {8, 384, 384, 865.6, 504.9, 1021},
    {10, 128, 128, 131.8, 79.38, 127.6}, {10, 256, 256, 519.2, 263.1, 407}, {10, 512, 512, 2143, 970.8, 1541},
    {14, 8, 8, 2.479, 5.465, 4.913},     {14, 16, 16, 4.683, 6.419, 6.816}, {14, 32, 128, 74.61, 59.51, 57.95},
    {14, 256, 256, 996.2, 537.9, 500.3}, {14, 512, 512, 4156, 2218, 1958},  {17, 96, 96, 208.1, 138.7, 115.5},
    {17, 128, 32, 95.72, 73.7, 74.68},   {28, 3, 32, 6.461, 18.72, 11.48},  {28, 16, 16, 21.74, 29.29, 18.93},
    {28, 32, 32, 60.85, 53.13, 39.95},   {28, 128, 128, 961, 518.4, 334.7}, {28, 256, 256, 3891, 1902, 1219},
    {56, 8, 8, 37.04, 75.31, 48.03},     {56, 16, 64, 252.5, 212.9, 136},   {56, 64, 64, 974.9, 580.2, 375.6},
    {56, 128, 128, 3877, 2041, 1287},    {112, 3, 32, 104.2, 327.6, 211.2}, {112, 16, 64, 972.9, 811.5, 510.9},
    {112, 64, 8, 1099, 1035, 538.6},     {112, 64, 64, 3922, 2338, 1387},
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
