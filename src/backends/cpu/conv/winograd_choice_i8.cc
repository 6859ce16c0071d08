#include "backends/cpu/conv/winograd_choice_i8.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace smelt {
namespace {

double direct_time(const ConvShape& g, const GemmI8& gemm, const WinogradTimesI8& times) {
  const auto out = static_cast<double>(round_up(g.c_out, gemm.lanes));
  return static_cast<double>(g.batch * g.out_pixels() * g.k()) * (out * times.product + times.patch);
}

double winograd_time(const ConvShape& g, const GemmI8& gemm, const WinogradI8& w, const WinogradTimesI8& times) {
  const WinogradTimesI8::Transforms& each = w.tile == 2 ? times.small : times.large;
  const auto in = static_cast<double>(g.c_in), out = static_cast<double>(round_up(g.c_out, gemm.lanes));
  const auto tiles = static_cast<double>(g.batch * ceil_div(g.out[1], w.tile) * ceil_div(g.out[2], w.tile));
  const double blocks = std::ceil(tiles / static_cast<double>(winograd_block_tiles_i8(g, w, gemm)));
  const double products = static_cast<double>(w.positions()) * in * out * times.transformed_product;
  return tiles * (products + in * each.input + out * each.output) + blocks * in * out * each.filter;
}

bool applies(const ConvShape& g, const WinogradI8& transforms) {
  return has_winograd_form(g) && g.c_in % 2 == 0 && g.c_in >= transforms.least_channels;
}

}  // namespace

const WinogradTimesI8* winograd_times_i8([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa.has(IsaFeature::kAmx)) return nullptr;
  if (!isa.has(IsaFeature::kVnni)) return &kPairTimesI8;
  return __builtin_cpu_is("amd") ? &kAmdVnniTimesI8 : &kIntelVnniTimesI8;
#else
  return nullptr;
#endif
}

int64_t winograd_block_tiles_i8(const ConvShape& g, const WinogradI8& transforms, const GemmI8& gemm) {
  constexpr int64_t kMost = 192, kNumbers = 2 * 1024 * 1024;
  return std::clamp(kNumbers / (g.c_in * transforms.positions()), gemm.mr * 8, kMost) / gemm.mr * gemm.mr;
}

const WinogradI8* winograd_transforms_i8(const ConvShape& g, Isa isa, const WinogradTimesI8& times,
                                         const WinogradSetting& setting,
                                         const std::function<bool(const WinogradI8&)>& is_exact) {
  constexpr double kGain = 0.9;
  const GemmI8& gemm = gemm_i8(isa, false);
  const WinogradI8* best = nullptr;
  double least = kGain * direct_time(g, gemm, times);
  for (const WinogradI8* w : {&winograd_2x2_i8(isa), &winograd_4x4_i8(isa)}) {
    if (w->tile > setting.largest_tile || !applies(g, *w)) continue;
    const double time = winograd_time(g, gemm, *w, times);
    if ((!setting.always && time >= least) || !is_exact(*w)) continue;
    best = w;
    least = time;
  }
  return best;
}

}  // namespace smelt
