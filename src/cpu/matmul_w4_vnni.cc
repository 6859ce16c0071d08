// Tiles of products with 4-bit weights.
#if defined(__x86_64__)
#include "cpu/matmul_w4.h"
#include "cpu/vnni-inl.h"

SMELT_BEFORE_VNNI
namespace smelt {
namespace {

inline __m512i spread(const int8_t* from) {
  int group;
  __builtin_memcpy(&group, from, 4);
  return _mm512_set1_epi32(group);
}

template <int MR, int NV>
void w4_tile(const W4Tile& t) {
  const __m512i low_half = _mm512_set1_epi8(15), high_half = _mm512_set1_epi8(-16);
  __m512 total[MR][NV];
#pragma GCC unroll 4
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) total[m][j] = _mm512_setzero_ps();
  const int8_t* a = t.a;
  const char* panel = t.panel;
  const float* scales = t.scales;
  for (ptrdiff_t b = 0; b < t.blocks; ++b, scales += t.scales_step) {
    __m512i low[MR][NV], high[MR][NV];  // of the halves of bytes; `high` counts sixteenths
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        low[m][j] = _mm512_set1_epi32(-8 * t.sums[m * t.blocks + b]);
        high[m][j] = _mm512_setzero_si512();
      }
    const char* const end = panel + 64 * (b + 1 < t.blocks ? t.steps : t.last_steps);
    for (; panel < end; panel += 64, a += W4Tile::kStep) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        const __m512i w = _mm512_load_si512(panel + j * t.panel_bytes);
        const __m512i w_low = _mm512_and_si512(w, low_half), w_high = _mm512_and_si512(w, high_half);
#pragma GCC unroll 4
        for (int m = 0; m < MR; ++m) {
          low[m][j] = _mm512_dpbusd_epi32(low[m][j], w_low, spread(a + m * t.lda));
          high[m][j] = _mm512_dpbusd_epi32(high[m][j], w_high, spread(a + m * t.lda + 4));
        }
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        const __m512i sum = _mm512_add_epi32(low[m][j], _mm512_srai_epi32(high[m][j], 4));
        total[m][j] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(scales + j * W4Tile::kColumns), total[m][j]);
      }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j)
      _mm512_storeu_ps(t.out + (m * W4Tile::kMostPanels + j) * W4Tile::kColumns, total[m][j]);
}

}  // namespace

W4Function w4_tile_vnni(int64_t rows, int64_t panels) {
  static constexpr W4Function kOneRow[] = {w4_tile<1, 1>, w4_tile<1, 2>, w4_tile<1, 3>, w4_tile<1, 4>};
  static constexpr W4Function kRows[][2] = {
      {w4_tile<2, 1>, w4_tile<2, 2>}, {w4_tile<3, 1>, w4_tile<3, 2>}, {w4_tile<4, 1>, w4_tile<4, 2>}};
  return rows == 1 ? kOneRow[panels - 1] : kRows[rows - 2][panels - 1];
}

void w4_sums_vnni(const int8_t* a, int64_t blocks, int64_t n, int64_t last, int32_t* sums) {
  const __m256i one = _mm256_set1_epi8(1);
  for (int64_t b = 0; b < blocks; ++b, a += n) {
    const int64_t here = b + 1 < blocks ? n : last;
    __m256i total = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 32 <= here; i += 32)
      total = _mm256_dpbusd_epi32(total, one, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i)));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    int32_t sum = _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
    for (; i < here; ++i) sum += a[i];
    sums[b] = sum;
  }
}

void w4_store_vnni(const float* sums, float scale, float zero, const float* zeros, const float* bias, float low,
                   float high, int64_t n, float* y) {
  const __m512 scales = _mm512_set1_ps(scale), minus = _mm512_set1_ps(-zero);
  const __m512 lo = _mm512_set1_ps(low), hi = _mm512_set1_ps(high);
  for (int64_t j = 0; j < n; j += 16) {
    const auto some = static_cast<__mmask16>(n - j >= 16 ? 0xffff : (1 << (n - j)) - 1);
    __m512 v = _mm512_fmadd_ps(minus, _mm512_maskz_loadu_ps(some, zeros + j), _mm512_maskz_loadu_ps(some, sums + j));
    v = _mm512_mul_ps(v, scales);
    if (bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(some, bias + j));
    _mm512_mask_storeu_ps(y + j, some, _mm512_min_ps(hi, _mm512_max_ps(lo, v)));
  }
}

}  // namespace smelt
SMELT_AFTER_VNNI
#endif
