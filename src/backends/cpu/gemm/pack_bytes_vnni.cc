#if defined(__x86_64__)
#include "backends/cpu/gemm/pack_bytes_vnni.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/core/vnni-inl.h"

SMELT_BEFORE_VNNI
namespace smelt {
namespace {

constexpr int64_t kColumns = 16;  // of a vector of groups
constexpr int64_t kGroup = 4;     // rows of b

__mmask64 first_bytes(int64_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << std::max<int64_t>(n, 0)) - 1; }
__mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>(first_bytes(std::min<int64_t>(n, 16))); }

/// Vectors of 32-bit lanes, lane c of vector r in lane r of vector c afterwards.
void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88), odd = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
    const __m512i even2 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88),
                  odd2 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(even, even2, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    t[12 + j] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
  }
  std::copy_n(t, 16, r);
}

/// Where the groups of up to 16 columns go, `step` bytes apart, and the sums of the columns.
struct GroupWriter {
  char* to;
  int64_t step;
  __m512i sums = _mm512_setzero_si512();

  void put(__m512i groups) {
    sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), groups);
    _mm512_store_si512(to, groups);
    to += step;
  }
};

/// Columns that lie side by side: bytes of four rows become groups.
void pack_rows(const BytesOfB& b, int64_t column, int64_t columns, GroupWriter& out) {
  const __mmask16 lanes = first_lanes(columns);
  const __m128i flip = _mm_set1_epi8(b.is_signed ? 0 : static_cast<char>(0x80));
  const uint8_t* row = b.data + column;
  const auto load = [&](int64_t i) {
    if (i >= b.k) return _mm512_setzero_si512();
    const __m128i v = _mm_maskz_loadu_epi8(lanes, row + i * b.row_stride);
    return _mm512_cvtepu8_epi32(_mm_maskz_mov_epi8(lanes, _mm_xor_si128(v, flip)));
  };
  for (int64_t i = 0; i < b.k; i += kGroup) {
    const __m512i low = _mm512_or_si512(load(i), _mm512_slli_epi32(load(i + 1), 8));
    const __m512i high = _mm512_or_si512(load(i + 2), _mm512_slli_epi32(load(i + 3), 8));
    out.put(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

/// Columns whose elements lie side by side: 16 groups of each are transposed.
void pack_columns(const BytesOfB& b, int64_t column, int64_t columns, GroupWriter& out) {
  const __m512i flip = _mm512_set1_epi8(b.is_signed ? 0 : static_cast<char>(0x80));
  for (int64_t i = 0; i < b.k; i += 64) {
    const __mmask64 bytes = first_bytes(b.k - i);
    __m512i r[16];
#pragma GCC unroll 16
    for (int c = 0; c < 16; ++c) {
      const __mmask64 here = c < columns ? bytes : 0;
      const uint8_t* from = b.data + (c < columns ? column + c : column) * b.column_stride + i;
      r[c] = _mm512_maskz_mov_epi8(here, _mm512_xor_si512(_mm512_maskz_loadu_epi8(here, from), flip));
    }
    transpose(r);
    const int64_t groups = std::min<int64_t>(16, (b.k - i + kGroup - 1) / kGroup);
    for (int64_t g = 0; g < groups; ++g) out.put(r[g]);
  }
}

}  // namespace

void pack_bytes_vnni(const GemmI8& gemm, const BytesOfB& b, const int32_t* bias, int32_t a_zero, void* packed) {
  const __m512i zero = _mm512_set1_epi32(gemm.less - a_zero);
  for (int64_t p = 0; p < gemm.panels(b.n); ++p) {
    char* panel = static_cast<char*>(packed) + gemm.panel_offset(b.k, p);
    const int64_t width = gemm.width(b.n, p);
    for (int64_t at = 0; at < width; at += kColumns, panel += kColumns * kGroup) {
      const int64_t column = p * gemm.nr() + at, columns = std::min(kColumns, b.n - column);
      GroupWriter out{panel + gemm.addend_rows * width * kGroup, width * kGroup};
      b.column_stride == 1 ? pack_rows(b, column, columns, out) : pack_columns(b, column, columns, out);
      const __m512i biases =
          bias ? _mm512_maskz_loadu_epi32(first_lanes(columns), bias + column) : _mm512_setzero_si512();
      const __m512i addends = _mm512_add_epi32(_mm512_mullo_epi32(out.sums, zero), biases);
      _mm512_store_si512(panel, addends);
      if (gemm.addend_rows > 1)
        _mm512_store_si512(panel + width * kGroup, _mm512_add_epi32(addends, _mm512_slli_epi32(out.sums, 7)));
    }
  }
}

int32_t sum_bytes_vnni(const uint8_t* x, int64_t n, bool is_signed) {
  const __m512i flip = _mm512_set1_epi8(is_signed ? static_cast<char>(0x80) : 0);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 here = first_bytes(n - i);
    const __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(here, x + i), flip);
    sum = _mm512_add_epi64(sum, _mm512_sad_epu8(_mm512_maskz_mov_epi8(here, v), _mm512_setzero_si512()));
  }
  alignas(64) int64_t lanes[8];
  _mm512_store_si512(lanes, sum);
  return static_cast<int32_t>(std::accumulate(lanes, lanes + 8, is_signed ? -128 * n : 0));
}

void add_to_rows_vnni(const int32_t* addends, int64_t rows, int64_t stride, int64_t n, int32_t* acc) {
  for (int64_t r = 0; r < rows; ++r, acc += stride) {
    const __m512i v = _mm512_set1_epi32(addends[r]);
    for (int64_t j = 0; j < n; j += 16) {
      const __m512i sum = _mm512_add_epi32(_mm512_load_si512(acc + j), v);
      _mm512_store_si512(acc + j, sum);
    }
  }
}

}  // namespace smelt
SMELT_AFTER_VNNI
#endif
