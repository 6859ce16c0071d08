#include "backends/cpu/gemm/gemm_i8.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/pairs-inl.h"
#include "backends/cpu/gemm/constant_parts.h"

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

/// A vector of pairs of b, which lie as int16s or, kBytes, as bytes.
template <bool kBytes>
HWY_INLINE VI load_pairs(const char* b) {
  if constexpr (kBytes) {
    const hn::Rebind<int8_t, DS> d8;
    return hn::BitCast(DI(), hn::PromoteTo(DS(), hn::Load(d8, reinterpret_cast<const int8_t*>(b))));
  } else {
    return hn::Load(DI(), reinterpret_cast<const int32_t*>(b));
  }
}

template <int MR, int NV, bool kBytes>
void int16_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
                int32_t* HWY_RESTRICT result, const void* /*next*/, TileState& /*state*/) {
  const DI d;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4;
  constexpr ptrdiff_t kVector = L * (kBytes ? 2 : 4);  // bytes of b
  constexpr int kGroups = (MR + 2) / 3;
  const auto* addends = static_cast<const int32_t*>(panel);
  VI acc[MR][NV];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) acc[m][j] = hn::Load(d, addends + j * L);
  const auto* HWY_RESTRICT b = reinterpret_cast<const char*>(addends + NV * L);
  for (const void* const* last = a + chunks; a < last; ++a) {
    const char* rows[kGroups];
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] = static_cast<const char*>(*a) + g * 3 * lda;
    for (ptrdiff_t i = 0; i < steps; ++i) {
      Columns bv[NV];
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) bv[j] = columns(load_pairs<kBytes>(b + j * kVector));
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        int32_t pair;
        std::memcpy(&pair, rows[m / 3] + lda * (m % 3), 4);
        const Pair av = spread(pair);
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) acc[m][j] = multiply(av, bv[j], acc[m][j]);
      }
      b += NV * kVector;
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

#if HWY_ARCH_X86
using Pairs = hn::Full128<uint16_t>;
constexpr int64_t kColumnsAtOnce = 8, kPairsAtOnce = 8;

/// Pairs r of 8 columns in vector r, from pairs of column c in vector c.
HWY_INLINE void transpose_pairs(hn::Vec<Pairs> (&v)[8]) {
  const Pairs d;
  const hn::Repartition<uint32_t, Pairs> d32;
  const hn::Repartition<uint64_t, Pairs> d64;
  hn::Vec<decltype(d32)> t[8];
  hn::Vec<decltype(d64)> u[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = hn::BitCast(d32, hn::InterleaveLower(d, v[i], v[i + 1]));
    t[i + 1] = hn::BitCast(d32, hn::InterleaveUpper(d, v[i], v[i + 1]));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      u[i + 2 * j] = hn::BitCast(d64, hn::InterleaveLower(d32, t[i + j], t[i + j + 2]));
      u[i + 2 * j + 1] = hn::BitCast(d64, hn::InterleaveUpper(d32, t[i + j], t[i + j + 2]));
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = hn::BitCast(d, hn::InterleaveLower(d64, u[i], u[i + 4]));
    v[2 * i + 1] = hn::BitCast(d, hn::InterleaveUpper(d64, u[i], u[i + 4]));
  }
}

/// n of 16 bytes, the others `fill`.
HWY_INLINE hn::Vec<Pairs> load_first(const uint8_t* from, int64_t n, uint8_t fill) {
  const hn::Full128<uint8_t> d8;
  if (n >= 16) return hn::BitCast(Pairs(), hn::LoadU(d8, from));
  alignas(16) uint8_t bytes[16];
  std::memset(bytes, fill, sizeof bytes);
  if (n > 0) std::memcpy(bytes, from, static_cast<size_t>(n));
  return hn::BitCast(Pairs(), hn::Load(d8, bytes));
}

/// Up to 8 columns, from column `column` of b on, of which `columns` are there: pairs of rows, `step` bytes apart.
void pack_pair_columns(const BytesOfB& b, int64_t column, int64_t columns, int64_t stored, int64_t step, char* to) {
  const hn::Full128<uint8_t> d8;
  const Pairs d;
  const uint8_t zero = b.is_signed ? 0 : 0x80;
  const auto flip = hn::Set(d, static_cast<uint16_t>(zero * 0x101));
  const auto store = [&](hn::Vec<Pairs> v) HWY_ATTR {
    v = hn::Xor(v, flip);
    if (stored == kColumnsAtOnce)
      hn::StoreU(v, d, reinterpret_cast<uint16_t*>(to));
    else
      hn::StoreU(hn::LowerHalf(v), hn::Half<Pairs>(), reinterpret_cast<uint16_t*>(to));
    to += step;
  };
  if (b.column_stride == 1) {
    for (int64_t i = 0; i < b.k; i += 2) {
      const uint8_t* from = b.data + i * b.row_stride + column;
      const auto row = [&](int64_t r) HWY_ATTR {
        const bool whole = columns == kColumnsAtOnce && i + r < b.k;
        if (!whole)
          return hn::LowerHalf(hn::BitCast(d8, load_first(from + r * b.row_stride, i + r < b.k ? columns : 0, zero)));
        return hn::LoadU(hn::Half<decltype(d8)>(), from + r * b.row_stride);
      };
      const auto first = hn::ZeroExtendVector(d8, row(0)), second = hn::ZeroExtendVector(d8, row(1));
      store(hn::BitCast(d, hn::InterleaveLower(d8, first, second)));
    }
    return;
  }
  for (int64_t i = 0; i < b.k; i += 2 * kPairsAtOnce) {
    hn::Vec<Pairs> v[8];
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) {
      const bool there = c < columns;
      v[c] = load_first(b.data + (column + (there ? c : 0)) * b.column_stride + i, there ? b.k - i : 0, zero);
    }
    transpose_pairs(v);
    const int64_t pairs = std::min(kPairsAtOnce, (b.k - i + 1) / 2);
    for (int64_t r = 0; r < pairs; ++r) store(v[r]);
  }
}

void pack_pairs(const GemmI8& g, const BytesOfB& b, const int32_t* bias, int32_t /*a_zero*/, void* packed) {
  for (int64_t p = 0; p < g.panels(b.n); ++p) {
    const int64_t w = g.width(b.n, p), first = p * g.nr(), used = std::min(w, b.n - first);
    auto* addends = reinterpret_cast<int32_t*>(static_cast<char*>(packed) + g.panel_offset(b.k, p));
    for (int64_t j = 0; j < w; ++j) addends[j] = bias && j < used ? bias[first + j] : 0;
    auto* to = reinterpret_cast<char*>(addends + w);
    for (int64_t c = 0; c < w; c += kColumnsAtOnce)
      pack_pair_columns(b, first + c, std::clamp<int64_t>(used - c, 0, kColumnsAtOnce), std::min(kColumnsAtOnce, w - c),
                        w * g.group_bytes, to + c * g.group_bytes);
  }
}
#endif

void add_vectors(const int32_t* x, int64_t n, int32_t* to) {
  const hn::ScalableTag<int32_t> d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, x + i)), d, to + i);
}

#if HWY_MAX_BYTES >= 64
constexpr int kRows = 12;
#elif HWY_ARCH_ARM_A64
constexpr int kRows = 8;
#else
constexpr int kRows = 6;
#endif

template <int MR, bool kBytes>
void fill_tiles(GemmI8& g) {
  for (auto& tiles : g.tiles) {
    tiles[0][MR - 1] = int16_tile<MR, 1, kBytes>;
    tiles[1][MR - 1] = int16_tile<MR, 2, kBytes>;
  }
  if constexpr (MR > 1) fill_tiles<MR - 1, kBytes>(g);
}

/// The form of panels whose pairs of int16s lie as bytes, still with the tiles of `g`.
GemmI8 of_byte_pairs(GemmI8 g) {
  g.group_bytes = 2;
#if HWY_ARCH_X86
  g.pack_bytes = pack_pairs;
#endif
  return g;
}

/// fits: b is of int8, so that tiles that multiply no slower for it widen bytes.
GemmI8 make_gemm_i8([[maybe_unused]] bool fits) {
  GemmI8 g;
  g.mr = kRows;
  g.lanes = HWY_MAX_BYTES / 4;
  fill_tiles<kRows, false>(g);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  if (fits) fill_tiles<kRows, true>(g = of_byte_pairs(g));
#endif
  g.prefetching_tiles = g.tiles;
  g.to_int16 = int8_to_int16;
  g.add = add_vectors;
  return g;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct Forms {
  GemmI8 bytes, int16s, byte_pairs;
};

int32_t sum_one_by_one(const uint8_t* x, int64_t n, bool is_signed) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<uint32_t>(is_signed ? static_cast<int32_t>(static_cast<int8_t>(x[i])) : x[i]);
  return static_cast<int32_t>(sum);
}

Forms make_forms(Isa isa) {
  Forms f;
  f.int16s = SMELT_FOR_LEVEL(isa, make_gemm_i8)(false);
  f.bytes = SMELT_FOR_LEVEL(isa, make_gemm_i8)(true);
  f.int16s.sum_bytes = f.bytes.sum_bytes = sum_one_by_one;
#if defined(__x86_64__)
  if (isa.has(IsaFeature::kVnni)) fill_vnni_tiles(f.bytes, f.int16s);
  if (isa.has(IsaFeature::kAmx)) fill_amx_tiles(f.bytes);
#elif defined(__aarch64__)
  if (isa.has(IsaFeature::kDot)) fill_dot_tiles(f.bytes);
#endif
  f.byte_pairs = SMELT_FOR_LEVEL(isa, of_byte_pairs)(f.int16s);
  f.byte_pairs.tiles = f.byte_pairs.prefetching_tiles = {};
  return f;
}

const Forms& forms(Isa isa) {
  return of_level(isa, [](Isa level) { return make_forms(level); });
}

}  // namespace

const GemmI8& gemm_i8(Isa isa, bool fits) { return fits ? forms(isa).bytes : forms(isa).int16s; }

const GemmI8& byte_pairs_i8(Isa isa) { return forms(isa).byte_pairs; }

namespace {

/// One column of a panel of `w`: groups of kGroup numbers, w of them apart. Returns the sum of its values.
template <class Quantized, int64_t kGroup, class W>
uint32_t pack_column(const W* column, int64_t k, int64_t w, char* to) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += static_cast<uint32_t>(static_cast<int32_t>(column[i]));
  Quantized group[kGroup];
  int64_t i = 0;
  for (; i + kGroup <= k; i += kGroup, to += w * static_cast<int64_t>(sizeof group)) {
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
    if (used < w) std::memset(addends, 0, static_cast<size_t>(g.column_bytes(k) * w));
    for (int64_t j = 0; j < used; ++j) {
      const W* column = weights + (first + j) * k;
      char* const to = groups + j * g.group_bytes;
      const uint32_t sum = g.bytes              ? pack_column<int8_t, 4>(column, k, w, to)
                           : g.group_bytes == 2 ? pack_column<int8_t, 2>(column, k, w, to)
                                                : pack_column<int16_t, 2>(column, k, w, to);
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
    pack_constant_bytes(*this, {reinterpret_cast<const uint8_t*>(weights), 1, k, k, n, true}, bias, a_zero, packed);
  else
    pack_panels(*this, weights, k, n, bias, a_zero, packed);
}

int64_t GemmI8::row_times_panels(int64_t n, int64_t k, const void* a, bool a_signed, const void* packed, int64_t p,
                                 int64_t last, int32_t* acc) const {
  constexpr int64_t kMost = 16;
  if (!row_tile) return 0;
  const int64_t end = std::min(p + kMost, last), count = width(n, end - 1) > lanes ? end - p : end - p - 1;
  if (count > 0)
    row_tile(*this, a, a_signed, static_cast<const char*>(packed) + panel_offset(k, p), count, steps(k), acc);
  return count;
}

void GemmI8::run_calling(int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, bool a_signed, const void* packed,
                         int64_t first, int64_t last, Done done) const {
  run_inlined(m, n, k, a, lda, a_signed, packed, first, last,
              [&](int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t columns) {
                done.call(done.f, acc, row, rows, column, columns);
              });
}

void GemmI8::convert(const uint8_t* x, int64_t ldx, int64_t rows, int64_t k, bool is_signed, int32_t zero, void* a,
                     int64_t lda, bool flipped) const {
  if (ldx == k && lda == k * (bytes ? 1 : 2)) {  // no gaps: one long row
    k *= rows;
    rows = 1;
  }
  for (int64_t r = 0; r < rows; ++r) {
    char* to = static_cast<char*>(a) + r * lda;
    if (!bytes)
      to_int16(x + r * ldx, k, is_signed, zero, reinterpret_cast<int16_t*>(to));
    else
      copy_bytes(x + r * ldx, k, flipped, reinterpret_cast<uint8_t*>(to));
  }
}

}  // namespace smelt
#endif
