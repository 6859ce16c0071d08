#include "backends/cpu/conv/winograd_i8.h"

#include <algorithm>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/winograd_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// 2 G g: 3 taps to 4 numbers.
HWY_INLINE void filter_line(const VS* g, VS* u) {
  const VS ends = hn::Add(g[0], g[2]);
  u[0] = hn::Add(g[0], g[0]);
  u[1] = hn::Add(ends, g[1]);
  u[2] = hn::Sub(ends, g[1]);
  u[3] = hn::Add(g[2], g[2]);
}

/// B' d: 4 pixels to 4 numbers.
HWY_INLINE void input_line(const VS* d, VS* v) {
  v[0] = hn::Sub(d[0], d[2]);
  v[1] = hn::Add(d[1], d[2]);
  v[2] = hn::Sub(d[2], d[1]);
  v[3] = hn::Sub(d[1], d[3]);
}

/// A' m: 4 products to 2 pixels.
HWY_INLINE void output_line(const VI* m, VI* y) {
  y[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
  y[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
}

void winograd_i8_filter(const int8_t* g, int64_t tap, int64_t n, int16_t* u, int64_t step) {
  const DS d;
  const hn::Rebind<int8_t, DS> d8;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    VS t[3][4];  // columns of 2 Gg
#pragma GCC unroll 3
    for (int x = 0; x < 3; ++x) {
      VS column[3];
#pragma GCC unroll 3
      for (int y = 0; y < 3; ++y) column[y] = hn::PromoteTo(d, hn::LoadU(d8, g + (y * 3 + x) * tap + i));
      filter_line(column, t[x]);
    }
    int16_t* to = u + i;
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      const VS row[3] = {t[0][y], t[1][y], t[2][y]};
      VS made[4];
      filter_line(row, made);
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x, to += step) hn::StoreU(made[x], d, to);
    }
  }
}

template <class T>
void input_of(const uint8_t* const* pixels, int64_t channels, int32_t zero, int16_t* v, int64_t step) {
  const DS d;
  const hn::Rebind<T, DS> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VS vz = hn::Set(d, static_cast<int16_t>(zero));
  for (int64_t next = 0; next < channels; next += lanes) {
    const int64_t c = std::min(next, channels - lanes);
    VS t[4][4];  // columns of B'd
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      VS column[4];
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y)
        column[y] = hn::Sub(hn::PromoteTo(d, hn::LoadU(d8, reinterpret_cast<const T*>(pixels[y * 4 + x] + c))), vz);
      input_line(column, t[x]);
    }
    int16_t* to = v + c;
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      const VS row[4] = {t[0][y], t[1][y], t[2][y], t[3][y]};
      VS made[4];
      input_line(row, made);
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x, to += step) hn::StoreU(made[x], d, to);
    }
  }
}

void winograd_i8_input(const uint8_t* const* d, int64_t channels, bool is_signed, int32_t zero, int16_t* v,
                       int64_t step) {
  (is_signed ? input_of<int8_t> : input_of<uint8_t>)(d, channels, zero, v, step);
}

void winograd_i8_output(const int32_t* m, int64_t step, const int32_t* bias, int64_t channels, int32_t* const* row,
                        int64_t stride) {
  const DI d;
  for (int64_t c = 0; c < channels; c += static_cast<int64_t>(hn::Lanes(d))) {
    VI t[4][2];  // columns of A'm
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      VI column[4];
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y) column[y] = hn::LoadU(d, m + (y * 4 + x) * step + c);
      output_line(column, t[x]);
    }
    const VI addend = hn::LoadU(d, bias + c);
#pragma GCC unroll 2
    for (int y = 0; y < 2; ++y) {
      const VI line[4] = {t[0][y], t[1][y], t[2][y], t[3][y]};
      VI made[2];
      output_line(line, made);
#pragma GCC unroll 2
      for (int x = 0; x < 2; ++x) hn::StoreU(hn::Add(hn::ShiftRight<2>(made[x]), addend), d, row[y] + x * stride + c);
    }
  }
}

WinogradI8 make_winograd_i8() {
  return {winograd_i8_filter, winograd_i8_input, winograd_i8_output, static_cast<int64_t>(hn::Lanes(DS()))};
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const WinogradI8& winograd_i8(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_winograd_i8)(); });
}

}  // namespace smelt
#endif
