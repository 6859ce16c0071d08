#include "backends/cpu/gemm/strassen_f32.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/named_setting.h"
#include "backends/cpu/core/targets.h"
#include "backends/cpu/gemm/even_tiles.h"
#include "base/checked.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/strassen_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/half_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_MAX_BYTES >= 32
/// kDifference: the right operand is a difference, which the tile makes for those that follow.
template <int MR, bool kDifference>
void strassen_tile(const StrassenStep& step, const float* a, ptrdiff_t row, const char* ahead) {
  using DS = hn::ScalableTag<float>;
  using VS = hn::Vec<DS>;
  const DS d;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4;
  constexpr int kGroups = (MR + 2) / 3;
  const ptrdiff_t ahead_step = step.ahead_step, bytes = step.a_stride * 4;
  const float* HWY_RESTRICT b = kDifference ? step.b : step.difference;
  [[maybe_unused]] const float* HWY_RESTRICT subtrahend = step.subtrahend;
  [[maybe_unused]] float* HWY_RESTRICT difference = step.difference;
  const auto from_row = [row](const StrassenRows& rows) HWY_ATTR {
    return StrassenRows{rows.first + row * rows.stride, rows.stride};
  };
  const auto load = [&](const StrassenRows& rows, int m, int j)
                        HWY_ATTR { return hn::LoadU(d, rows.first + m * rows.stride + j * L); };
  const auto each = [&](auto&& body) HWY_ATTR {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) body(m, j);
  };
  const StrassenRows to = from_row(step.to), also = from_row(step.also);
#pragma GCC unroll 1
  for (int m = 0; m < MR; ++m) {
    __builtin_prefetch(to.first + m * to.stride, 1, 3);
    __builtin_prefetch(to.first + m * to.stride + L, 1, 3);
    __builtin_prefetch(also.first + m * also.stride, 1, 3);
    __builtin_prefetch(also.first + m * also.stride + L, 1, 3);
  }
  VS acc[MR][2];
  const StrassenRows begin = from_row(step.begin), start = from_row(step.start);
  each([&](int m, int j) HWY_ATTR { acc[m][j] = hn::Add(load(begin, m, j), load(start, m, j)); });
  const char* rows[kGroups];
  const char* next_a = reinterpret_cast<const char*>(a + MR * step.a_stride);  // the next tile's rows
#pragma GCC unroll 5
  for (int g = 0; g < kGroups; ++g) rows[g] = reinterpret_cast<const char*>(a + g * 3 * step.a_stride);
  const auto row_step = [&](int at) HWY_ATTR {
    VS bv[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      bv[j] = hn::Load(d, b + (at * 2 + j) * L);
      if constexpr (kDifference) {
        bv[j] = hn::Sub(bv[j], hn::Load(d, subtrahend + (at * 2 + j) * L));
        hn::Store(bv[j], d, difference + (at * 2 + j) * L);
      }
    }
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const VS av = hn::Set(d, *reinterpret_cast<const float*>(rows[m / 3] + bytes * (m % 3) + at * 4));
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) acc[m][j] = hn::MulAdd(av, bv[j], acc[m][j]);
    }
  };
  for (ptrdiff_t i = step.k; i > 0; i -= 2) {
    row_step(0);
    row_step(1);
    b += 4 * L;
    if constexpr (kDifference) {
      subtrahend += 4 * L;
      difference += 4 * L;
    }
    prefetch_lines(ahead);
    ahead += ahead_step;
    prefetch_lines(next_a);
    next_a += MR * 8;
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] += 8;
  }
  const VS lo = hn::Set(d, step.lo), hi = hn::Set(d, step.hi);
  const auto bounded = [&](VS v) HWY_ATTR { return clamp(v, lo, hi); };
  if (also.stride == 0) each([&](int m, int j) HWY_ATTR { acc[m][j] = bounded(acc[m][j]); });
  each([&](int m, int j) HWY_ATTR { hn::StoreU(acc[m][j], d, to.first + m * to.stride + j * L); });
  if (also.stride == 0) return;
  const StrassenRows addend = from_row(step.addend), also_start = from_row(step.also_start);
#pragma GCC unroll 1
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j)
      hn::StoreU(bounded(hn::Add(load(to, m, j), hn::Add(load(addend, m, j), load(also_start, m, j)))), d,
                 also.first + m * also.stride + j * L);
}

void strassen_operands(const float* upper, const float* lower, int64_t half, float* operands, int64_t stride,
                       float largest[2]) {
  using DS = hn::ScalableTag<float>;
  const DS d;
  auto most_upper = hn::Zero(d), most_lower = hn::Zero(d), not_finite = hn::Zero(d);
  each_vector(half, [&](auto part, int64_t i) HWY_ATTR {
    const auto a11 = part.load(upper + i), a12 = part.load(upper + half + i), a21 = part.load(lower + i),
               a22 = part.load(lower + half + i);
    const auto s1 = hn::Add(a21, a22), s2 = hn::Sub(s1, a11);
    part.store(s1, operands + i);
    part.store(a11, operands + stride + i);
    part.store(a12, operands + 2 * stride + i);
    part.store(s2, operands + 3 * stride + i);
    part.store(hn::Sub(a11, a21), operands + 4 * stride + i);
    part.store(a22, operands + 5 * stride + i);
    part.store(hn::Sub(a12, s2), operands + 6 * stride + i);
    most_upper = hn::Max(most_upper, hn::Max(hn::Abs(a11), hn::Abs(a12)));
    most_lower = hn::Max(most_lower, hn::Max(hn::Abs(a21), hn::Abs(a22)));
    const auto zero = hn::Zero(d);
    for (const auto a : {a11, a12, a21, a22}) not_finite = hn::MulAdd(a, zero, not_finite);
  });
  const bool finite = hn::AllTrue(d, hn::Eq(not_finite, hn::Zero(d)));
  largest[0] = finite ? hn::GetLane(hn::MaxOfLanes(d, most_upper)) : std::numeric_limits<float>::infinity();
  largest[1] = finite ? hn::GetLane(hn::MaxOfLanes(d, most_lower)) : std::numeric_limits<float>::infinity();
}

void largest_of_columns(const float* panel, int64_t k, float* largest) {
  using DS = hn::ScalableTag<float>;
  const DS d;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4;
  const auto zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  for (ptrdiff_t j = 0; j < 2 * L; j += L) {
    auto most = zero, not_finite = zero;
    for (int64_t i = 0; i < k; ++i) {
      const auto b = hn::Load(d, panel + i * 2 * L + j);
      most = hn::Max(most, hn::Abs(b));
      not_finite = hn::MulAdd(b, zero, not_finite);
    }
    hn::StoreU(hn::IfThenElse(hn::Eq(not_finite, zero), most, infinity), d, largest + j);
  }
}

template <int MR, int kLowest>
void fill_strassen_tiles(StrassenKernels& s) {
  s.of_b[MR - 1] = &strassen_tile<MR, false>;
  s.of_difference[MR - 1] = &strassen_tile<MR, true>;
  if constexpr (MR > kLowest) fill_strassen_tiles<MR - 1, kLowest>(s);
}
#endif

StrassenKernels make_strassen_kernels() {
  StrassenKernels s;
#if HWY_MAX_BYTES >= 32
  constexpr bool kWide = HWY_MAX_BYTES >= 64;
  constexpr int kHighest = kWide ? 14 : 6, kLowest = kWide ? 12 : 5;
  s.lowest = kLowest;
  // By the times that bench/kernels/strassen.py prints on an AMD EPYC (Zen 5), one core, 2026-11-27.
  s.least_rows = kWide ? 84 : 60;
  s.least_share = kWide ? 128 : 100;
  fill_strassen_tiles<kHighest, kLowest>(s);
  s.operands = strassen_operands;
  s.largest_of_columns = largest_of_columns;
#endif
  return s;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const StrassenKernels& strassen_kernels(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_strassen_kernels)(); });
}

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
/// Of a block, whose operands come from the level-3 cache, each once a pair of panels.
constexpr int64_t kMostRows = 512;
constexpr int64_t kMostTiles = 64;  ///< of half a block

constexpr NamedSetting<StrassenSetting> kStrassenSettings[] = {
    {"0", StrassenSetting::kNever}, {"1", StrassenSetting::kWhereItGains}, {"always", StrassenSetting::kWhereItCan}};

constexpr int64_t kFewPairs = 4;  ///< of panels, which pay for the operands

alignas(64) constexpr float kZeros[32] = {};  ///< of a panel's width

/// Finite, and none more than kUneven times the other.
bool alike(float x, float y) {
  constexpr float kLargest = 1e15f;  // sums of products of two such numbers are finite
  return x <= StrassenF32::kUneven * y && y <= StrassenF32::kUneven * x && x <= kLargest;
}

/// The additions of a are shared by the columns, those of c by k steps, those of b by the rows.
bool gains(const StrassenKernels& kernels, StrassenF32::Task task, int64_t k, int64_t nr) {
  const int64_t n = task.columns;
  return task.rows >= kernels.least_rows && n >= 2 * kFewPairs * nr && n * k >= kernels.least_share * (n + k);
}

}  // namespace

Result<StrassenSetting> strassen_setting_named(const char* name) {
  return setting_named("SMELT_CPU_STRASSEN", kStrassenSettings, name, StrassenSetting::kWhereItGains);
}

Result<StrassenSetting> strassen_setting() { return strassen_setting_named(std::getenv("SMELT_CPU_STRASSEN")); }

/// A block of rows of a and c, and a part of K.
struct StrassenF32::Block {
  const float* a;  ///< its first element
  int64_t lda;
  float* c;  ///< its first row, column 0 of panel 0
  int64_t ldc;
  int64_t rows, height;  ///< all; of a half. What is left over lies behind the halves
  int64_t at, half;      ///< first row of b; rows of a half of K
  bool begins;           ///< the first part of K
  float lo, hi;          ///< of the results of this part
  const float* operands;
  float *differences, *sums;  ///< of panels, two; of results, two
  const bool* uneven;         ///< tiles of a half
};

std::unique_ptr<StrassenF32> StrassenF32::make(StrassenSetting setting, const GemmF32& gemm, Isa isa, Task task,
                                               int64_t n, int64_t k) {
  const StrassenKernels& kernels = strassen_kernels(isa);
  if (setting == StrassenSetting::kNever || kernels.lowest == 0 || gemm.word != 1 || isa.has(IsaFeature::kOneOrder) ||
      k == 0 || k % 4 != 0)
    return nullptr;
  if (setting == StrassenSetting::kWhereItGains && !gains(kernels, task, k, gemm.nr())) return nullptr;
  // Other tasks may have a tile more.
  const int64_t rows = std::min(task.rows + gemm.mr, kMostRows / (2 * gemm.mr) * 2 * gemm.mr);
  return std::unique_ptr<StrassenF32>(new StrassenF32(gemm, kernels, n, k, rows));
}

StrassenF32::StrassenF32(const GemmF32& gemm, const StrassenKernels& kernels, int64_t n, int64_t k, int64_t rows)
    : gemm_(gemm), kernels_(kernels), n_(n), k_(k), rows_(rows) {
  const int64_t parts = std::max<int64_t>(1, (k + gemm.depth) / (2 * gemm.depth));
  half_ = round_up(ceil_div(k, 2 * parts), 2);
  evenness_ = std::make_unique<std::atomic<Evenness>[]>(static_cast<size_t>(gemm.panels(n) / 2 + 1));
}

/// Rows of a half of a block, as many as its tiles can have; 0: it is multiplied as defined.
int64_t StrassenF32::height(int64_t rows) const {
  // Of an odd number one tile is left.
  for (int64_t height = (rows % 2 == 0 ? rows : rows - (gemm_.mr - 1)) / 2; height >= kernels_.lowest; --height)
    if (EvenTiles(height, gemm_.mr).height >= kernels_.lowest) return height;
  return 0;
}

bool StrassenF32::are_even(const float* packed, int64_t panel) const {
  std::atomic<Evenness>& known = evenness(panel);
  if (const Evenness e = known.load(std::memory_order_relaxed); e != kUnknown) return e == kEven;
  constexpr int64_t kWidest = 32;
  float largest[2][kWidest];
  const float* columns[2];
  for (int64_t i = 0; i < 2; ++i) {
    columns[i] = packed + gemm_.panel_offset(k_, panel + i) + gemm_.nr();
    kernels_.largest_of_columns(columns[i], k_, largest[i]);
  }
  const bool same = std::equal(columns[0], columns[0] + k_ * gemm_.nr(), columns[1]);  // so are their results
  const bool even = !same && std::equal(largest[0], largest[0] + gemm_.nr(), largest[1], alike);
  known.store(even ? kEven : kNotEven, std::memory_order_relaxed);
  return even;
}

/// Panels `panel` and the next one; rows [row, row + rows) of the block.
void StrassenF32::as_defined(const Block& block, const float* packed, int64_t panel, int64_t row, int64_t rows) const {
  constexpr ptrdiff_t kStart = 0;
  const EvenTiles tiles(rows, gemm_.mr);
  for (int64_t p = panel; p < panel + 2; ++p) {
    const float* const bias = packed + gemm_.panel_offset(k_, p);
    const GemmChunk chunk{{&kStart, 1, 2 * block.half},
                          bias + (1 + block.at) * gemm_.nr(),
                          block.begins ? bias : nullptr,
                          block.lda,
                          block.ldc,
                          gemm_.nr(),
                          block.lo,
                          block.hi,
                          0,
                          nullptr};
    for (int64_t t = 0, i = row; t < tiles.count; i += tiles.rows(t++))
      gemm_.tiles[1][tiles.rows(t) - 1](chunk, block.a + i * block.lda, block.c + i * block.ldc + p * gemm_.nr(),
                                        nullptr, reinterpret_cast<const char*>(bias));
  }
}

/// C11 = A11 B11 + A12 B21, and with U = A11 B11 + S2 T2, V = U + S3 T3, W = S1 T1: C12 = U + W + S4 B22,
/// C21 = V + A22 T4, C22 = V + W; S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2, T1 = B12 - B11,
/// T2 = B22 - T1, T3 = B22 - B12, T4 = B21 - T2. Winograd's form of Strassen's algorithm; Higham, Accuracy and
/// Stability of Numerical Algorithms, section 23.1.
void StrassenF32::times_pair(const Block& block, const float* packed, int64_t panel) const {
  const int64_t nr = gemm_.nr(), half = block.half, stride = apart<float>(half), size = block.height * stride;
  const float* const left = packed + gemm_.panel_offset(k_, panel);
  const float* const right = packed + gemm_.panel_offset(k_, panel + 1);
  const EvenTiles tiles(block.height, gemm_.mr);
  const auto rows_of = [&](const float* bias) { return bias + (1 + block.at) * nr; };
  const float *const b11 = rows_of(left), *const b12 = rows_of(right), *const b21 = b11 + half * nr,
                     *const b22 = b12 + half * nr;
  const int64_t two_panels = 2 * (k_ + 1) * nr;  // those behind them are read next
  float *const t0 = block.differences, *const t1 = t0 + half * nr;
  const StrassenRows none{const_cast<float*>(kZeros), 0}, u{block.sums, nr}, w{block.sums + block.height * nr, nr};
  float* const upper = block.c + panel * nr;
  float* const lower = upper + block.height * block.ldc;
  const StrassenRows c11{upper, block.ldc}, c12{upper + nr, block.ldc}, c21{lower, block.ldc},
      c22{lower + nr, block.ldc};
  // Results begin with the bias, which is only read.
  const auto start = [&](const StrassenRows& c, const float* bias) {
    return block.begins ? StrassenRows{const_cast<float*>(bias), 0} : c;
  };
  const float lo = block.lo, hi = block.hi;
  const struct {
    const float *b, *subtrahend;
    float* difference;
    StrassenRows begin, start, to, also_start, also;
    float lo, hi;
    const float* ahead;
  } products[kOperands] = {{b12, b11, t0, none, none, w, none, none, -kInf, kInf, b21},
                           {b11, nullptr, nullptr, none, none, u, none, none, -kInf, kInf, b22},
                           {b21, nullptr, nullptr, u, start(c11, left), c11, none, none, lo, hi, b22},
                           {b22, t0, t1, u, none, u, start(c12, right), c12, -kInf, kInf, b12},
                           {b22, b12, t0, u, none, u, start(c22, right), c22, lo, hi, b21},
                           {b21, t1, t0, u, start(c21, left), c21, none, none, lo, hi, b11 + two_panels},
                           {b22, nullptr, nullptr, c12, none, c12, none, none, lo, hi, b12 + two_panels}};
  const ptrdiff_t ahead_step = std::min<int64_t>(128, ceil_div(8 * nr, tiles.count));
  const float* a = block.operands;
  for (const auto& p : products) {
    const StrassenStep step{.b = p.b,
                            .subtrahend = p.subtrahend,
                            .difference = p.subtrahend ? p.difference : const_cast<float*>(p.b),
                            .k = half,
                            .a_stride = stride,
                            .begin = p.begin,
                            .start = p.start,
                            .to = p.to,
                            .addend = w,
                            .also_start = p.also_start,
                            .also = p.also,
                            .lo = p.lo,
                            .hi = p.hi,
                            .ahead_step = ahead_step};
    const StrassenKernels::Tile* tile = p.subtrahend ? kernels_.of_difference : kernels_.of_b;
    const char* ahead = reinterpret_cast<const char*>(p.ahead);
    for (int64_t t = 0, row = 0; t < tiles.count; row += tiles.rows(t++)) {
      if (block.uneven[t]) continue;
      tile[tiles.rows(t) - 1](step, a + row * stride, row, ahead);
      tile = kernels_.of_b;
      ahead += ahead_step * half / 2;
    }
    a += size;
  }
  for (int64_t t = 0, row = 0; t < tiles.count; row += tiles.rows(t++)) {
    if (!block.uneven[t]) continue;
    as_defined(block, packed, panel, row, tiles.rows(t));
    as_defined(block, packed, panel, block.height + row, tiles.rows(t));
  }
  if (const int64_t paired = 2 * block.height; block.rows > paired)
    as_defined(block, packed, panel, paired, block.rows - paired);
}

/// Those pairs of the panels [first, last) whose columns are alike. Both numbers are multiples of two.
void StrassenF32::times_even_pairs(const GemmStrips& strip, const float* packed, int64_t first, int64_t last, float lo,
                                   float hi, float* scratch) const {
  const int64_t height = this->height(strip.rows);
  const EvenTiles tiles(height, gemm_.mr);
  float *const differences = scratch + operands_floats(), *const sums = differences + 2 * half_ * gemm_.nr();
  for (int64_t at = 0; at < k_; at += 2 * half_) {
    const int64_t half = std::min(half_, (k_ - at) / 2), stride = apart<float>(half);
    bool uneven[kMostTiles] = {};
    for (int64_t t = 0, i = 0; t < tiles.count; ++t)
      for (const int64_t end = i + tiles.rows(t); i < end; ++i) {
        float largest[2];
        const float* const upper = strip.a + i * strip.lda + at;
        kernels_.operands(upper, upper + height * strip.lda, half, scratch + i * stride, height * stride, largest);
        uneven[t] = uneven[t] || !alike(largest[0], largest[1]);
      }
    const bool ends = at + 2 * half_ >= k_;
    const Block block{strip.a + at, strip.lda,         strip.c,          strip.ldc, strip.rows,  height, at,    half,
                      at == 0,      ends ? lo : -kInf, ends ? hi : kInf, scratch,   differences, sums,   uneven};
    for (int64_t p = first; p < last; p += 2)
      if (are_even(packed, p)) times_pair(block, packed, p);
  }
}

void StrassenF32::run(int64_t m, const float* a, int64_t lda, const float* packed, int64_t first, int64_t last,
                      float* c, int64_t ldc, float lo, float hi, const EpilogueRun* epilogue, float* scratch) const {
  const int64_t nr = gemm_.nr();
  // Whole pairs, which begin with a panel of even number.
  const int64_t begin = std::min(round_up(first, 2), last), end = std::max(begin, std::min(last, n_ / nr) / 2 * 2);
  // Pairs that nothing is known of are looked at when their products are made: they are near then.
  bool any = false;
  for (int64_t p = begin; p < end; p += 2) any = any || evenness(p).load(std::memory_order_relaxed) != kNotEven;
  const int64_t step = std::min(rows_, round_up(ceil_div(m, ceil_div(m, rows_)), 2 * gemm_.mr));
  for (int64_t row = 0; row < m; row += step, a += step * lda, c += step * ldc) {
    const GemmStrips strip{a, c, lda, ldc, std::min(step, m - row)};
    const auto as_defined = [&](int64_t from, int64_t to) {
      if (from < to) gemm_.run(strip.rows, n_, k_, a, lda, packed, from, to, c, ldc, nullptr, lo, hi);
    };
    if (!any || height(strip.rows) == 0) {
      as_defined(first, last);
    } else {
      times_even_pairs(strip, packed, begin, end, lo, hi, scratch);
      as_defined(first, begin);
      for (int64_t p = begin; p < end; p += 2)
        if (!are_even(packed, p)) as_defined(p, p + 2);
      as_defined(end, last);
    }
    if (epilogue) (*epilogue)(c + first * nr, strip.rows, std::min(n_, last * nr) - first * nr, ldc);
  }
}

}  // namespace smelt
#endif
