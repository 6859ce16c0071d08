#include "bench/kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/core/pack_cache.h"
#include "backends/cpu/core/targets.h"
#include "base/checked.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kernels/peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/core/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 10;  ///< of dependent sums: enough for two units of five cycles, few enough for 16 registers

/// Runs `rounds` products and sums of a vector in each chain. Returns the operations.
double multiply_add_f32(int64_t rounds) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.5f);
  hn::Vec<decltype(d)> sums[kChains];
#pragma GCC unroll 10
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(d, 1.0f + 0.01f * static_cast<float>(i));  // no two are one
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (auto& sum : sums) sum = hn::MulAdd(sum, factor, factor);
  }
  auto total = sums[0];
#pragma GCC unroll 10
  for (const auto& sum : sums) total = hn::Add(total, sum);
  // What the loop gives must be used; no sum is negative.
  return hn::GetLane(total) < 0 ? 0 : 2.0 * kChains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

/// The sum of whole vectors of memory.
float sum_of_memory(const float* x, size_t n, bench::Reading by) {
  const hn::ScalableTag<float> d;
  constexpr size_t kSums = 4;
  const size_t lanes = hn::Lanes(d), part = n / by.places / lanes * lanes;
  hn::Vec<decltype(d)> sums[kSums];
#pragma GCC unroll 4
  for (auto& sum : sums) sum = hn::Zero(d);
  for (size_t i = 0; i + kSums * lanes <= part; i += kSums * lanes)
    for (size_t p = 0; p < by.places; ++p) {
      const float* const from = x + p * part + i;
      for (size_t line = 0; by.ahead > 0 && line < kSums * lanes; line += 16)
        __builtin_prefetch(from + by.ahead + line);
#pragma GCC unroll 4
      for (size_t s = 0; s < kSums; ++s) sums[s] = hn::Add(sums[s], hn::Load(d, from + s * lanes));
    }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt::bench {
namespace {

constexpr int kRepetitions = 20;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// 1e9 operations a second, the fastest of the repetitions. work() returns its operations.
template <class Work>
double best_rate(Work&& work) {
  double best = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double operations = work();
    best = std::max(best, operations * 1e-9 / seconds_since(start));
  }
  return best;
}

#if defined(__x86_64__)
SMELT_BEFORE_VNNI
double dot_i8(int64_t rounds) {
  constexpr int kSums = 10, kBytes = 64;
  const __m512i a = _mm512_set1_epi32(1);
  __m512i sums[kSums];
#pragma GCC unroll 10
  for (__m512i& sum : sums) sum = a;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, a);
      __asm__ volatile("" : "+v"(sum));  // sums of equal products are not joined
    }
  }
  return 2.0 * kBytes * kSums * static_cast<double>(rounds);
}
SMELT_AFTER_VNNI

SMELT_BEFORE_AMX
double tiles_i8(int64_t rounds) {
  constexpr ptrdiff_t kProducts = 4;
  amx::configure(amx::kTileRows, amx::kTileRowBytes / 4);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return 2.0 * kProducts * amx::kTileRows * amx::kTileRows * amx::kTileRowBytes * static_cast<double>(rounds);
}
SMELT_AFTER_AMX
#endif

}  // namespace

double peak_f32(Isa isa) {
  return of_level(
      isa, [](Isa level) { return best_rate([&] { return SMELT_FOR_LEVEL(level, multiply_add_f32)(200'000); }); });
}

double peak_i8([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa.has(IsaFeature::kAmx)) return of_level(isa, [](Isa) { return best_rate([] { return tiles_i8(50'000); }); });
  if (isa.has(IsaFeature::kVnni)) return of_level(isa, [](Isa) { return best_rate([] { return dot_i8(200'000); }); });
#endif
  return 0;
}

double share_of_bandwidth(size_t blocks, size_t bytes, const std::function<void()>& work) {
  constexpr size_t kLine = 64, kLeastBytes = 1 << 22;  ///< kLeastBytes: of a turn
  constexpr int kMostTurns = 60, kLeastTurns = 5;
  constexpr double kSeconds = 1;
  const size_t n = round_up(std::max<size_t>(bytes, 1), kLine) / sizeof(float);
  std::vector<std::unique_ptr<AlignedBuffer>> memory;
  for (size_t i = 0; i < blocks; ++i) {
    memory.push_back(std::make_unique<AlignedBuffer>(n * sizeof(float)));
    std::fill_n(memory.back()->data<float>(), n, 1.0f);
  }
  const size_t times = kLeastBytes / (blocks * n * sizeof(float)) + 1;
  volatile float used = 0;
  double fastest_read = 0, fastest_work = 0;
  const auto turn = [&](double& fastest, auto&& once) {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < times; ++i) once();
    const double seconds = seconds_since(start);
    if (fastest == 0 || seconds < fastest) fastest = seconds;
  };
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kMostTurns && (i < kLeastTurns || seconds_since(begin) < kSeconds); ++i) {
    turn(fastest_work, work);
    for (const auto& [ahead, places] : {std::pair<size_t, size_t>{0, 1}, {2048, 1}, {0, 4}, {2048, 4}})
      turn(fastest_read, [&, ahead = ahead, places = places] {
        for (const auto& block : memory)
          used = SMELT_FOR_LEVEL(best_isa(), sum_of_memory)(block->data<float>(), n, {ahead, places});
      });
  }
  return fastest_read / fastest_work;
}

}  // namespace smelt::bench
#endif
