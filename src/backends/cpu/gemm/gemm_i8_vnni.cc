// Tiles of AVX-512 VNNI.
#if defined(__x86_64__)
#include "backends/cpu/core/prefetch.h"
#include "backends/cpu/core/vnni-inl.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/pack_bytes_vnni.h"

SMELT_BEFORE_VNNI
namespace smelt {
namespace {

struct Int8Products {
  static __m512i spread(int group) { return _mm512_set1_epi32(group); }
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
  static __m256i spread_half(int group) { return _mm256_set1_epi32(group); }
};
/// int8 values count from -128.
struct SignedInt8Products : Int8Products {
  static __m512i spread(int group) {
    return _mm512_xor_si512(_mm512_set1_epi32(group), _mm512_set1_epi32(static_cast<int>(0x80808080u)));
  }
  static __m256i spread_half(int group) {
    return _mm256_xor_si256(_mm256_set1_epi32(group), _mm256_set1_epi32(static_cast<int>(0x80808080u)));
  }
};
struct Int16Products {
  static __m512i spread(int group) { return _mm512_set1_epi32(group); }
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpwssd_epi32(sum, a, b); }
};

/// Tiles of less rows read b as fast as the hardware brings it.
constexpr int kFewestRowsToPrefetch = 6;

/// Accumulators that depend on each other's last result only every so many steps: a product takes several cycles, of
/// which two begin in each.
constexpr int kChains = 8;

/// A tile of so few rows that its accumulators would wait for each other: the steps of a chunk take turns with several
/// sets of them.
template <class P, int MR, int NV, int kAddendRows>
void low_vnni_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
                   int32_t* __restrict result, const void* /*next*/, TileState& /*state*/) {
  constexpr int kSets = kChains / (MR * NV);
  const auto* b = static_cast<const char*>(panel);
  __m512i acc[kSets][MR][NV];
#pragma GCC unroll 8
  for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) acc[s][m][j] = s == 0 ? _mm512_load_si512(b + j * 64) : _mm512_setzero_si512();
  b += kAddendRows * NV * 64;
  for (const void* const* last = a + chunks; a < last; ++a) {
    const auto* row = static_cast<const char*>(*a);
    const auto step = [&](int s) {
#pragma GCC unroll 4
      for (int m = 0; m < MR; ++m) {
        int group;
        __builtin_memcpy(&group, row + lda * m, 4);
        const __m512i av = P::spread(group);
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) acc[s][m][j] = P::multiply(acc[s][m][j], av, _mm512_load_si512(b + j * 64));
      }
      b += NV * 64;
      row += 4;
    };
    ptrdiff_t i = 0;
    for (; i + kSets <= steps; i += kSets)
#pragma GCC unroll 8
      for (int s = 0; s < kSets; ++s) step(s);
    for (; i < steps; ++i) step(0);
  }
#pragma GCC unroll 4
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) {
#pragma GCC unroll 8
      for (int s = 1; s < kSets; ++s) acc[0][m][j] = _mm512_add_epi32(acc[0][m][j], acc[s][m][j]);
      _mm512_store_si512(result + m * 32 + j * 16, acc[0][m][j]);
    }
}

/// A row times kPanels panels, `panel_bytes` from each other. The hardware follows each panel on its own, so that
/// several side by side keep more of memory on its way. far: the panels lie beyond the level-2 cache.
template <int kPanels>
void row_of_panels(const GemmI8& g, const void* row, __m512i flip, const char* b, ptrdiff_t panel_bytes,
                   ptrdiff_t steps, bool far, int32_t* __restrict result) {
  constexpr int kSets = kChains / (kPanels * 2);
  constexpr ptrdiff_t kAhead = 2048;
  const auto* a = static_cast<const char*>(row);
  __m512i acc[kSets][kPanels][2];
#pragma GCC unroll 4
  for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j)
        acc[s][p][j] = s == 0 ? _mm512_load_si512(b + p * panel_bytes + j * 64) : _mm512_setzero_si512();
  b += g.addend_rows * 2 * 64;
  const auto step = [&](int s) {
    int group;
    __builtin_memcpy(&group, a, 4);
    const __m512i av = _mm512_xor_si512(_mm512_set1_epi32(group), flip);
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j)
        acc[s][p][j] = _mm512_dpbusd_epi32(acc[s][p][j], av, _mm512_load_si512(b + p * panel_bytes + j * 64));
    a += 4;
    b += 2 * 64;
  };
  ptrdiff_t i = 0;
  for (; i + kSets <= steps; i += kSets) {
    if (far)
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 8
        for (int line = 0; line < kSets * 2; ++line)
          _mm_prefetch(b + p * panel_bytes + kAhead + line * 64, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int s = 0; s < kSets; ++s) step(s);
  }
  for (; i < steps; ++i) step(0);
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
#pragma GCC unroll 4
      for (int s = 1; s < kSets; ++s) acc[0][p][j] = _mm512_add_epi32(acc[0][p][j], acc[s][p][j]);
      _mm512_store_si512(result + (p * 2 + j) * 16, acc[0][p][j]);
    }
}

void vnni_row_tile(const GemmI8& g, const void* row, bool is_signed, const void* panels, ptrdiff_t count,
                   ptrdiff_t steps, int32_t* __restrict result) {
  // Beyond the level-2 cache some hardware does not bring panels as fast as memory allows.
  constexpr ptrdiff_t kLarge = 128 * 1024;
  constexpr int kTogether = kChains / 2;
  const bool far = count * steps * 128 >= kLarge && streams_by_prefetch();
  const __m512i flip = _mm512_set1_epi32(is_signed ? static_cast<int>(0x80808080u) : 0);
  const ptrdiff_t panel_bytes = (g.addend_rows + steps) * 2 * 64;
  const auto* b = static_cast<const char*>(panels);
  for (; count >= kTogether; count -= kTogether, b += kTogether * panel_bytes, result += kTogether * 32)
    row_of_panels<kTogether>(g, row, flip, b, panel_bytes, steps, far, result);
  for (; count > 0; --count, b += panel_bytes, result += 32)
    row_of_panels<1>(g, row, flip, b, panel_bytes, steps, far, result);
}

template <class P, int MR, int NV, bool kPrefetches, int kAddendRows = 1>
void vnni_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
               int32_t* __restrict result, const void* next, TileState& /*state*/) {
  constexpr int kGroups = (MR + 2) / 3;
  const auto* b = static_cast<const char*>(panel);
  const auto* ahead = static_cast<const char*>(next);
  __m512i acc[MR][NV];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) acc[m][j] = _mm512_load_si512(b + j * 64);
  b += kAddendRows * NV * 64;
  for (const void* const* last = a + chunks; a < last; ++a) {
    const char* rows[kGroups];
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] = static_cast<const char*>(*a) + g * 3 * lda;
    for (ptrdiff_t i = 0; i < steps; ++i) {
      __m512i bv[NV];
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) bv[j] = _mm512_load_si512(b + j * 64);
      if constexpr (kPrefetches)
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        int group;
        __builtin_memcpy(&group, rows[m / 3] + lda * (m % 3), 4);
        const __m512i av = P::spread(group);
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) acc[m][j] = P::multiply(acc[m][j], av, bv[j]);
      }
      b += NV * 64;
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) rows[g] += 4;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) _mm512_store_si512(result + m * 32 + j * 16, acc[m][j]);
}

/// vnni_tile() of one vector of columns whose upper half is empty: processors that split 512 bits take half the time.
template <class P, int MR>
void half_vnni_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
                    int32_t* __restrict result, const void* /*next*/, TileState& /*state*/) {
  constexpr int kGroups = (MR + 2) / 3;
  const auto* b = static_cast<const char*>(panel);
  const auto load = [&] { return _mm256_load_si256(reinterpret_cast<const __m256i*>(b)); };
  __m256i acc[MR];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) acc[m] = load();
  b += 64;
  for (const void* const* last = a + chunks; a < last; ++a) {
    const char* rows[kGroups];
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] = static_cast<const char*>(*a) + g * 3 * lda;
    for (ptrdiff_t i = 0; i < steps; ++i, b += 64) {
      const __m256i bv = load();
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        int group;
        __builtin_memcpy(&group, rows[m / 3] + lda * (m % 3), 4);
        acc[m] = _mm256_dpbusd_epi32(acc[m], P::spread_half(group), bv);
      }
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) rows[g] += 4;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) _mm256_store_si256(reinterpret_cast<__m256i*>(result + m * 32), acc[m]);
}

template <class P, int MR, int NV, bool kPrefetches, int kAddendRows>
constexpr GemmI8::Tile tile_of() {
  if constexpr (2 * MR * NV <= kChains)
    return low_vnni_tile<P, MR, NV, kAddendRows>;
  else
    return vnni_tile<P, MR, NV, kPrefetches, kAddendRows>;
}

template <class P, int MR, int kAddendRows = 1>
void fill(GemmI8& g, bool sign) {
  constexpr bool kPrefetches = MR >= kFewestRowsToPrefetch;
  g.tiles[sign][0][MR - 1] = tile_of<P, MR, 1, false, kAddendRows>();
  g.tiles[sign][1][MR - 1] = tile_of<P, MR, 2, false, kAddendRows>();
  g.prefetching_tiles[sign][0][MR - 1] = g.tiles[sign][0][MR - 1];  // of the last panel
  g.prefetching_tiles[sign][1][MR - 1] = tile_of<P, MR, 2, kPrefetches, kAddendRows>();
  if constexpr (MR > 1) fill<P, MR - 1, kAddendRows>(g, sign);
}

template <class P, int MR>
void fill_half_used(GemmI8& g, bool sign) {
  constexpr int kLowest = 9;  // the even tiles of many rows
  if constexpr (MR >= kLowest)
    g.half_used[sign][MR - 1] = half_vnni_tile<P, MR>;
  else
    g.half_used[sign][MR - 1] = g.tiles[sign][0][MR - 1];
  if constexpr (MR > 1) fill_half_used<P, MR - 1>(g, sign);
}

void flip_sign_bits(const uint8_t* x, int64_t n, uint8_t* out) {
  const __m512i bits = _mm512_set1_epi8(static_cast<char>(0x80));
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) _mm512_storeu_si512(out + i, _mm512_xor_si512(_mm512_loadu_si512(x + i), bits));
  const __mmask64 rest = (__mmask64{1} << (n - i)) - 1;
  _mm512_mask_storeu_epi8(out + i, rest, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, x + i), bits));
}

}  // namespace

void fill_vnni_tiles(GemmI8& bytes, GemmI8& int16s) {
  bytes.mr = int16s.mr = 14;
  bytes.lanes = int16s.lanes = 16;
  bytes.bytes = true;
  bytes.pack_bytes = pack_bytes_vnni;
  bytes.flip = flip_sign_bits;
  bytes.sum_bytes = sum_bytes_vnni;
  // Intel's two ports for 512 bits do the products; AMD has others for what flips the bits in tiles.
  bytes.flips_int8 = __builtin_cpu_is("intel") != 0;
  fill<Int8Products, 14>(bytes, false);
  fill<SignedInt8Products, 14>(bytes, true);
  fill_half_used<Int8Products, 14>(bytes, false);
  fill_half_used<SignedInt8Products, 14>(bytes, true);
  for (const bool sign : {false, true}) fill<Int16Products, 14>(int16s, sign);
  bytes.row_tile = vnni_row_tile;
}

void fill_vnni_tiles_for_amx(GemmI8& bytes) {
  fill<Int8Products, kVnniRowsBesideAmx, 2>(bytes, false);
  fill<SignedInt8Products, kVnniRowsBesideAmx, 2>(bytes, true);
}

}  // namespace smelt
SMELT_AFTER_VNNI
#endif
