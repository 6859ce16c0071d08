#include "backends/cpu/gemm/gemm_i8.h"

#include <cstring>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
using Pair = int16x4_t;
/// The columns' first and second numbers of a pair.
struct Columns {
  int16x4_t first, second;
};
HWY_INLINE Pair spread(int32_t pair) { return vreinterpret_s16_s32(vdup_n_s32(pair)); }
HWY_INLINE Columns columns(VI b) { return {vmovn_s32(b.raw), vshrn_n_s32(b.raw, 16)}; }
HWY_INLINE VI multiply(Pair a, const Columns& b, VI sum) {
  return VI{vmlal_lane_s16(vmlal_lane_s16(sum.raw, b.first, a, 0), b.second, a, 1)};
}
#else
using Pair = VS;
using Columns = VS;
HWY_INLINE Pair spread(int32_t pair) { return hn::BitCast(DS(), hn::Set(DI(), pair)); }
HWY_INLINE Columns columns(VI b) { return hn::BitCast(DS(), b); }
HWY_INLINE VI multiply(Pair a, Columns b, VI sum) { return add_pairs(sum, a, b); }
#endif

template <int MR, int NV>
void int16_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
                int32_t* HWY_RESTRICT result, const void* /*next*/, TileState& /*state*/) {
  const DI d;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4;
  constexpr int kGroups = (MR + 2) / 3;
  const auto* HWY_RESTRICT b = static_cast<const int32_t*>(panel);
  VI acc[MR][NV];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) acc[m][j] = hn::Load(d, b + j * L);
  b += NV * L;
  for (const void* const* last = a + chunks; a < last; ++a) {
    const char* rows[kGroups];
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] = static_cast<const char*>(*a) + g * 3 * lda;
    for (ptrdiff_t i = 0; i < steps; ++i) {
      Columns bv[NV];
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) bv[j] = columns(hn::Load(d, b + j * L));
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        int32_t pair;
        std::memcpy(&pair, rows[m / 3] + lda * (m % 3), 4);
        const Pair av = spread(pair);
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) acc[m][j] = multiply(av, bv[j], acc[m][j]);
      }
      b += NV * L;
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) rows[g] += 4;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) hn::Store(acc[m][j], d, result + m * 2 * L + j * L);
}

void int8_to_int16(const uint8_t* x, int64_t n, bool is_signed, int32_t zero, int16_t* out) {
  const DS d;
  const hn::Rebind<uint8_t, DS> d8;
  const hn::Rebind<int8_t, DS> di8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VS vz = hn::Set(d, static_cast<int16_t>(zero));
  int64_t i = 0;
  if (is_signed) {
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(hn::Sub(hn::PromoteTo(d, hn::LoadU(di8, reinterpret_cast<const int8_t*>(x + i))), vz), d, out + i);
    for (; i < n; ++i) out[i] = static_cast<int16_t>(static_cast<int8_t>(x[i]) - zero);
  } else {
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Sub(hn::PromoteTo(d, hn::LoadU(d8, x + i)), vz), d, out + i);
    for (; i < n; ++i) out[i] = static_cast<int16_t>(x[i] - zero);
  }
}

#if HWY_MAX_BYTES >= 64
constexpr int kRows = 12;
#elif HWY_ARCH_ARM_A64
constexpr int kRows = 8;
#else
constexpr int kRows = 6;
#endif

template <int MR>
void fill_tiles(GemmI8& g) {
  for (auto& tiles : g.tiles) {
    tiles[0][MR - 1] = int16_tile<MR, 1>;
    tiles[1][MR - 1] = int16_tile<MR, 2>;
  }
  if constexpr (MR > 1) fill_tiles<MR - 1>(g);
}

GemmI8 make_gemm_i8() {
  GemmI8 g;
  g.mr = kRows;
  g.lanes = HWY_MAX_BYTES / 4;
  fill_tiles<kRows>(g);
  g.prefetching_tiles = g.tiles;
  g.to_int16 = int8_to_int16;
  return g;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct Forms {
  GemmI8 bytes, int16s;
};

Forms make_forms(Isa isa) {
  Forms f;
  f.int16s = f.bytes = SMELT_FOR_LEVEL(isa, make_gemm_i8)();
#if defined(__x86_64__)
  if (isa.has(IsaFeature::kVnni)) fill_vnni_tiles(f.bytes, f.int16s);
  if (isa.has(IsaFeature::kAmx)) fill_amx_tiles(f.bytes);
#elif defined(__aarch64__)
  if (isa.has(IsaFeature::kDot)) fill_dot_tiles(f.bytes);
#endif
  return f;
}

}  // namespace

const GemmI8& gemm_i8(Isa isa, bool fits) {
  const Forms& f = of_level(isa, [](Isa level) { return make_forms(level); });
  return fits ? f.bytes : f.int16s;
}

namespace {

/// One column of a panel of `w`: groups of 4 bytes, w of them apart. Returns the sum of its values.
template <class Quantized, class W>
uint32_t pack_column(const W* column, int64_t k, int64_t w, char* to) {
  constexpr int64_t kGroup = 4 / sizeof(Quantized);
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += static_cast<uint32_t>(static_cast<int32_t>(column[i]));
  Quantized group[kGroup];
  int64_t i = 0;
  for (; i + kGroup <= k; i += kGroup, to += w * 4) {
    for (int64_t j = 0; j < kGroup; ++j) group[j] = static_cast<Quantized>(column[i + j]);
    std::memcpy(to, group, sizeof group);
  }
  if (i < k) {
    for (int64_t j = 0; j < kGroup; ++j) group[j] = i + j < k ? static_cast<Quantized>(column[i + j]) : Quantized{0};
    std::memcpy(to, group, sizeof group);
  }
  return sum;
}

template <class W>
void pack_panels(const GemmI8& g, const W* weights, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero,
                 void* packed) {
  const uint32_t zero = g.bytes ? static_cast<uint32_t>(a_zero - g.less) : 0u;
  for (int64_t p = 0; p < g.panels(n); ++p) {
    const int64_t w = g.width(n, p), first = p * g.nr(), used = std::min(w, n - first);
    auto* addends = reinterpret_cast<uint32_t*>(static_cast<char*>(packed) + g.panel_offset(k, p));
    char* groups = reinterpret_cast<char*>(addends + g.addend_rows * w);
    if (used < w) std::memset(addends, 0, static_cast<size_t>((g.steps(k) + g.addend_rows) * w * 4));
    for (int64_t j = 0; j < used; ++j) {
      const W* column = weights + (first + j) * k;
      const uint32_t sum = g.bytes ? pack_column<int8_t>(column, k, w, groups + j * 4)
                                   : pack_column<int16_t>(column, k, w, groups + j * 4);
      addends[j] = (bias ? static_cast<uint32_t>(bias[first + j]) : 0u) - sum * zero;
      if (g.addend_rows > 1) addends[w + j] = addends[j] + sum * 128u;
    }
  }
}

}  // namespace

void GemmI8::pack(const int16_t* weights, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero,
                  void* packed) const {
  pack_panels(*this, weights, k, n, bias, a_zero, packed);
}

void GemmI8::pack(const int8_t* weights, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero,
                  void* packed) const {
  if (pack_bytes)
    pack_bytes(*this, {reinterpret_cast<const uint8_t*>(weights), 1, k, k, n, true}, bias, a_zero, packed);
  else
    pack_panels(*this, weights, k, n, bias, a_zero, packed);
}

void GemmI8::convert(const uint8_t* x, int64_t ldx, int64_t rows, int64_t k, bool is_signed, int32_t zero, void* a,
                     int64_t lda) const {
  if (ldx == k && lda == k * (bytes ? 1 : 2)) {  // no gaps: one long row
    k *= rows;
    rows = 1;
  }
  for (int64_t r = 0; r < rows; ++r) {
    char* to = static_cast<char*>(a) + r * lda;
    if (!bytes)
      to_int16(x + r * ldx, k, is_signed, zero, reinterpret_cast<int16_t*>(to));
    else
      std::memcpy(to, x + r * ldx, static_cast<size_t>(k));
  }
}

}  // namespace smelt
#endif
