#include "backends/cpu/conv/winograd_i8.h"

#include <algorithm>
#include <cstdlib>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/winograd_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
HWY_INLINE V twice(V v) {
  return hn::Add(v, v);
}
template <int kBits, class V>
HWY_INLINE V times_power(V v) {
  return hn::ShiftLeft<kBits>(v);
}

/// F(2, 3) along one dimension, with the points 0, 1, -1 and infinity. The scale is 2.
struct IntegerWinograd2 {
  static constexpr int kTile = 2;

  static HWY_INLINE void filter(const VS* g, VS* u) {
    const VS ends = hn::Add(g[0], g[2]);
    u[0] = twice(g[0]);
    u[1] = hn::Add(ends, g[1]);
    u[2] = hn::Sub(ends, g[1]);
    u[3] = twice(g[2]);
  }
  static HWY_INLINE void input(const VS* d, VS* v) {
    v[0] = hn::Sub(d[0], d[2]);
    v[1] = hn::Add(d[1], d[2]);
    v[2] = hn::Sub(d[2], d[1]);
    v[3] = hn::Sub(d[1], d[3]);
  }
  static HWY_INLINE void output(const VI* m, VI* y) {
    y[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
    y[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
  }
  static constexpr int kScaleBits = 2;  // of both dimensions
  static HWY_INLINE VI without_odd_factor(VI v) { return v; }
};

/// F(4, 3) along one dimension, with the points 0, 1, -1, 2, -2 and infinity. Rows of G are multiplied by 4, 6, 6, 24,
/// 24 and 1, columns of A' by what is left of 24, the scale.
struct IntegerWinograd4 {
  static constexpr int kTile = 4;

  static HWY_INLINE void filter(const VS* g, VS* u) {
    const VS ends = hn::Add(g[0], g[2]), far = hn::Add(g[0], times_power<2>(g[2])), middle = twice(g[1]);
    u[0] = g[0];
    u[1] = hn::Neg(hn::Add(ends, g[1]));
    u[2] = hn::Sub(g[1], ends);
    u[3] = hn::Add(far, middle);
    u[4] = hn::Sub(far, middle);
    u[5] = g[2];
  }
  static HWY_INLINE void input(const VS* d, VS* v) {
    const VS even = hn::Sub(d[4], times_power<2>(d[2])), odd = hn::Sub(d[3], times_power<2>(d[1]));
    const VS near = hn::Sub(d[4], d[2]), twice_odd = twice(hn::Sub(d[3], d[1]));
    v[0] = hn::Add(times_power<2>(hn::Sub(d[0], d[2])), near);
    v[1] = hn::Add(even, odd);
    v[2] = hn::Sub(even, odd);
    v[3] = hn::Add(near, twice_odd);
    v[4] = hn::Sub(near, twice_odd);
    v[5] = hn::Add(times_power<2>(hn::Sub(d[1], d[3])), hn::Sub(d[5], d[3]));
  }
  static HWY_INLINE void output(const VI* m, VI* y) {
    const VI even = times_power<2>(hn::Add(m[1], m[2])), odd = times_power<2>(hn::Sub(m[1], m[2]));
    const VI far_even = hn::Add(m[3], m[4]), far_odd = twice(hn::Sub(m[3], m[4]));
    const VI first = hn::Add(times_power<2>(m[0]), twice(m[0]));
    const VI last = hn::Add(times_power<4>(m[5]), times_power<3>(m[5]));
    y[0] = hn::Add(hn::Add(first, even), far_even);
    y[1] = hn::Add(odd, far_odd);
    y[2] = hn::Add(even, times_power<2>(far_even));
    y[3] = hn::Add(hn::Add(odd, times_power<2>(far_odd)), last);
  }
  static constexpr int kScaleBits = 6;  // of both dimensions, whose scale is 9 * 64
  /// v / 9 of multiples of 9 modulo 2^32.
  static HWY_INLINE VI without_odd_factor(VI v) { return hn::Mul(v, hn::Set(DI(), 0x38e38e39)); }
};

/// Transforms a square of kIn x kIn vectors to rows [kFirst, kLast) of one of kOut x kOut: the columns first, then
/// their rows. V load(y, x); store(y, x, V), row by row.
template <int kIn, int kOut, class V, int kFirst = 0, int kLast = kOut, class Load, class Transform, class Store>
HWY_INLINE void transform_square(Load&& load, Transform&& transform, Store&& store) {
  V columns[kIn][kOut];
#pragma GCC unroll 6
  for (int x = 0; x < kIn; ++x) {
    V column[kIn];
#pragma GCC unroll 6
    for (int y = 0; y < kIn; ++y) column[y] = load(y, x);
    transform(column, columns[x]);
  }
#pragma GCC unroll 6
  for (int y = kFirst; y < kLast; ++y) {
    V row[kIn], made[kOut];
#pragma GCC unroll 6
    for (int x = 0; x < kIn; ++x) row[x] = columns[x][y];
    transform(row, made);
#pragma GCC unroll 6
    for (int x = 0; x < kOut; ++x) store(y, x, made[x]);
  }
}

template <class Scheme, int kHalf>
void transform_filter_half(const int8_t* g, int64_t tap, int64_t n, int16_t* u, int64_t step) {
  constexpr int kSide = Scheme::kTile + 2, kRows = kSide / 2;
  const DS d;
  const hn::Rebind<int8_t, DS> d8;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    int16_t* to = u + i;
    transform_square<3, kSide, VS, kHalf * kRows, (kHalf + 1) * kRows>(
        [&](int y, int x) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(d8, g + (y * 3 + x) * tap + i)); },
        [](const VS* from, VS* made) HWY_ATTR { Scheme::filter(from, made); },
        [&](int /*y*/, int /*x*/, VS v) HWY_ATTR {
          hn::StoreU(v, d, to);
          to += step;
        });
  }
}

template <class Scheme>
void transform_filter(const int8_t* g, int64_t tap, int64_t n, int half, int16_t* u, int64_t step) {
  (half == 0 ? transform_filter_half<Scheme, 0> : transform_filter_half<Scheme, 1>)(g, tap, n, u, step);
}

template <class Scheme, class T>
void transform_input_of(const uint8_t* const* pixels, int64_t channels, int32_t zero, int16_t* v, int64_t step) {
  constexpr int kSide = Scheme::kTile + 2;
  const DS d;
  const hn::Rebind<T, DS> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VS vz = hn::Set(d, static_cast<int16_t>(zero));
  for (int64_t next = 0; next < channels; next += lanes) {
    const int64_t c = std::min(next, channels - lanes);
    int16_t* to = v + c;
    transform_square<kSide, kSide, VS>(
        [&](int y, int x) HWY_ATTR {
          const auto bytes = hn::LoadU(d8, reinterpret_cast<const T*>(pixels[y * kSide + x] + c));
          return hn::Sub(hn::PromoteTo(d, bytes), vz);
        },
        [](const VS* from, VS* made) HWY_ATTR { Scheme::input(from, made); },
        [&](int /*y*/, int /*x*/, VS made) HWY_ATTR {
          hn::StoreU(made, d, to);
          to += step;
        });
  }
}

template <class Scheme>
void transform_input(const uint8_t* const* d, int64_t channels, bool is_signed, int32_t zero, int16_t* v,
                     int64_t step) {
  (is_signed ? transform_input_of<Scheme, int8_t> : transform_input_of<Scheme, uint8_t>)(d, channels, zero, v, step);
}

template <class Scheme>
void transform_output(const int32_t* m, int64_t step, const int32_t* bias, int64_t channels, int32_t* to, int64_t line,
                      int64_t stride) {
  constexpr int kTile = Scheme::kTile, kSide = kTile + 2;
  const DI d;
  for (int64_t c = 0; c < channels; c += static_cast<int64_t>(hn::Lanes(d))) {
    const VI addend = hn::LoadU(d, bias + c);
    transform_square<kSide, kTile, VI>(
        [&](int y, int x) HWY_ATTR { return hn::LoadU(d, m + (y * kSide + x) * step + c); },
        [](const VI* from, VI* made) HWY_ATTR { Scheme::output(from, made); },
        [&](int y, int x, VI sum) HWY_ATTR {
          const VI whole = hn::ShiftRight<Scheme::kScaleBits>(Scheme::without_odd_factor(sum));
          hn::StoreU(hn::Add(whole, addend), d, to + y * line + x * stride + c);
        });
  }
}

template <class Scheme>
WinogradI8 make_winograd_i8() {
  return {Scheme::kTile,
          (int64_t{1} << (31 - Scheme::kScaleBits)) - 1,
          static_cast<int64_t>(hn::Lanes(DS())),
          transform_filter<Scheme>,
          transform_input<Scheme>,
          transform_output<Scheme>};
}

WinogradI8 make_winograd_2x2_i8() { return make_winograd_i8<IntegerWinograd2>(); }
WinogradI8 make_winograd_4x4_i8() { return make_winograd_i8<IntegerWinograd4>(); }

int64_t largest_of_rows(const int8_t* weights, int64_t rows, int64_t n, int64_t below, int64_t above) {
  const hn::ScalableTag<int8_t> d;
  const hn::ScalableTag<uint8_t> du;
  const hn::ScalableTag<uint64_t> d64;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto sum_of = [&](auto sums) HWY_ATTR {
    HWY_ALIGN uint64_t parts[HWY_MAX_BYTES / 8];
    hn::Store(sums, d64, parts);
    int64_t sum = 0;
    for (size_t j = 0; j < hn::Lanes(d64); ++j) sum += static_cast<int64_t>(parts[j]);
    return sum;
  };
  int64_t most = 0;
  for (int64_t r = 0; r < rows; ++r, weights += n) {
    auto positive_sums = hn::Zero(d64), negative_sums = hn::Zero(d64);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const auto w = hn::LoadU(d, weights + i);
      positive_sums = hn::Add(positive_sums, hn::SumsOf8(hn::BitCast(du, hn::Max(w, hn::Zero(d)))));
      negative_sums = hn::Add(negative_sums, hn::SumsOf8(hn::BitCast(du, hn::Neg(hn::Min(w, hn::Zero(d))))));
    }
    int64_t positive = sum_of(positive_sums), negative = sum_of(negative_sums);
    for (; i < n; ++i) (weights[i] < 0 ? negative : positive) += std::abs(int{weights[i]});
    most = std::max({most, positive * above + negative * below, positive * below + negative * above});
  }
  return most;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const WinogradI8& winograd_2x2_i8(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_winograd_2x2_i8)(); });
}

const WinogradI8& winograd_4x4_i8(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_winograd_4x4_i8)(); });
}

int64_t largest_dot(Isa isa, const int8_t* weights, int64_t rows, int64_t n, int64_t below, int64_t above) {
  return SMELT_FOR_LEVEL(isa, largest_of_rows)(weights, rows, n, below, above);
}

}  // namespace smelt
#endif
