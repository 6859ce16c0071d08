#include "backends/cpu/conv/winograd_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/cpu/conv/seen_taps.h"
#include "backends/cpu/conv/winograd_f32.h"
#include "backends/cpu/core/named_setting.h"
#include "base/checked.h"

namespace smelt {
namespace {

constexpr NamedSetting<WinogradSetting> kSettings[] = {
    {"0", {0, false}}, {"2", {2, false}}, {"4", {4, false}}, {"always2", {2, true}}, {"always4", {4, true}}};

// Nanoseconds, fitted to the times of 135 shapes that bench/kernels/winograd.py prints on an AMD EPYC (Zen 5), AVX-512,
// one core, 2026-11-23; `filter` and `few` to those that winograd_choice_test.cc holds, of 2026-11-26.

constexpr double kTileRows = 14;  ///< of a matrix product
constexpr double kGain = 0.95;    ///< least share of the other's time that pays for a larger error

/// Channels in whole vectors of 16.
double vectors(int64_t channels) { return static_cast<double>(round_up(channels, 16)); }

/// Of the taps of a dilated convolution along dimension d, those that lie in the image: the direct one leaves out the
/// others.
double share_of_taps(const ConvShape& g, int d) {
  if (g.dilation[d] == 1) return 1;
  int64_t inside = 0;
  for (int64_t k = 0; k < g.kernel[d]; ++k) {
    const auto [begin, end] = seen(g, d, k);
    inside += std::max<int64_t>(0, end - begin);
  }
  return static_cast<double>(inside) / static_cast<double>(g.kernel[d] * g.out[d]);
}

/// Of a direct convolution: `product` of a product, as many as `overhead` more for each tile; `copy` of an element of
/// the image.
struct DirectTimes {
  double product, overhead, copy, tile, node;
};
constexpr DirectTimes kDirect{0.0044, 13.5, 0.22, 8, 60};

double direct_time(const ConvShape& g, const DirectTimes& times) {
  const auto pixels = static_cast<double>(g.batch * g.out_pixels());
  const double taps = static_cast<double>(g.k()) * share_of_taps(g, 1) * share_of_taps(g, 2);
  const double products = taps * vectors(g.c_out), tiles = std::ceil(pixels / kTileRows);
  return times.product * products * (pixels + times.overhead * tiles) +
         times.copy * pixels * static_cast<double>(g.c_in) + times.tile * tiles + times.node;
}

/// Of a tile of a side: `transform` of an element of a transformed tile, `tile` for its addresses; `filter` of a
/// filter, `few` where tiles are so few that the transformed one stays in registers; `product` and `overhead` as of
/// DirectTimes.
struct WinogradTimes {
  int side;
  double transform, tile, filter, few, product = 0.0083, overhead = 2.5, node = 100;
};

double winograd_time(const ConvShape& g, const WinogradTimes& times) {
  const auto tiles = static_cast<double>(g.batch * winograd_tiles(g, 1, times.side) * winograd_tiles(g, 2, times.side));
  const auto positions = static_cast<double>((times.side + 2) * (times.side + 2));
  const double filters = static_cast<double>(g.c_in) * vectors(g.c_out);
  return times.product * positions * filters * (tiles + times.overhead * std::ceil(tiles / kTileRows)) +
         times.transform * positions * tiles * (vectors(g.c_in) + vectors(g.c_out)) + times.tile * tiles +
         (tiles == kFewTiles ? times.few : times.filter) * filters + times.node;
}

}  // namespace

Result<WinogradSetting> winograd_setting_named(const char* name) {
  return setting_named("SMELT_CPU_WINOGRAD", kSettings, name, WinogradSetting{});
}

Result<WinogradSetting> winograd_setting() { return winograd_setting_named(std::getenv("SMELT_CPU_WINOGRAD")); }

bool has_winograd_form(const ConvShape& g) {
  return has_dilated_winograd_form(g) && g.groups == 1 && g.dilation[1] == 1 && g.dilation[2] == 1;
}

bool has_dilated_winograd_form(const ConvShape& g) {
  return g.planar() && g.kernel[1] == 3 && g.kernel[2] == 3 && g.stride[1] == 1 && g.stride[2] == 1;
}

int64_t winograd_phases(const ConvShape& g, int d) { return std::min(g.dilation[d], g.out[d]); }

int64_t winograd_tiles(const ConvShape& g, int d, int64_t side) {
  const int64_t phases = winograd_phases(g, d);
  return phases * ceil_div(ceil_div(g.out[d], phases), side);
}

int winograd_tile(const ConvShape& g, const WinogradSetting& setting, double direct_share) {
  if (setting.always) return setting.largest_tile;
  double least = direct_share * direct_time(g, kDirect);
  int tile = 0;
  for (const WinogradTimes& times : {WinogradTimes{2, 0.07, 45, 0.8, 0.8}, WinogradTimes{4, 0.11, 75, 1.5, 0.8}}) {
    if (times.side > setting.largest_tile) break;
    if (const double time = winograd_time(g, times); time < kGain * least) {
      least = time;
      tile = times.side;
    }
  }
  return tile;
}

bool takes_winograd_bf16(const ConvShape& g, const WinogradSetting& setting) {
  if (setting.always) return setting.largest_tile == 2;
  // Fitted to the times of 50 shapes that bench/kernels/winograd.py --bf16 prints on an AMD EPYC (Zen 5), one core,
  // 2026-11-28. F(4x4, 3x3) in float32 takes at most a tenth less where this one takes less than the direct one.
  constexpr DirectTimes kDirectBf16{0.0011, 34.5, 0.045, 29, 39};
  constexpr WinogradTimes kWinogradBf16{2, 0.034, 47, 0.18, 0.18, 0.004, 0, 224};
  return setting.largest_tile >= 2 && winograd_time(g, kWinogradBf16) < kGain * direct_time(g, kDirectBf16);
}

}  // namespace smelt
