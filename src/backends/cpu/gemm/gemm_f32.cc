#include "backends/cpu/gemm/gemm_f32.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/prefetch.h"
#include "backends/cpu/core/targets.h"
#include "backends/cpu/gemm/tile_state.h"
#include "base/checked.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/turn-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_row-inl.h"
#include "backends/cpu/gemm/gemm_tile-inl.h"
#include "backends/cpu/gemm/half_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// Words are floats.
struct FloatWords {
  template <class Vec>
  static HWY_INLINE Vec multiply_add(Vec a, Vec b, Vec sum) {
    return hn::MulAdd(a, b, sum);
  }
};

/// Rows [0, k) of the first `used` columns of a panel of width w.
void pack_columns(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t used, float alpha, float* rows,
                  int64_t w) {
  const D d;
  if (stride_n == 1) {
    for (int64_t i = 0; i < k; ++i, rows += w, b += stride_k)
      each_vector(used, [&](auto part, int64_t j)
                            HWY_ATTR { part.store(hn::Mul(part.load(b + j), hn::Set(part.d, alpha)), rows + j); });
    return;
  }
  constexpr int64_t kBlock = 64;  // rows that stay in the level-1 cache while all columns pass by
  for (int64_t i0 = 0; i0 < k; i0 += kBlock) {
    const int64_t end = std::min(k, i0 + kBlock), blocked_end = stride_k == 1 ? i0 + (end - i0) / 4 * 4 : i0;
    int64_t j = 0;
    const auto several = [&](auto tag) HWY_ATTR {
      const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
      for (; j + lanes <= used && blocked_end > i0; j += lanes) {
        for (int64_t i = i0; i < blocked_end; i += 4)
          turn_columns(tag, b + j * stride_n + i, stride_n, alpha, rows + i * w + j, w);
        for (int64_t i = blocked_end; i < end; ++i)
          for (int64_t c = j; c < j + lanes; ++c) rows[i * w + c] = b[c * stride_n + i] * alpha;
      }
    };
    several(d);
    several(hn::CappedTag<float, 4>());
    for (; j < used; ++j)
      for (int64_t i = i0; i < end; ++i) rows[i * w + j] = b[j * stride_n + i * stride_k] * alpha;
  }
}

#if HWY_MAX_BYTES >= 64
constexpr int kRows = 14;
#else
constexpr int kRows = 6;
#endif

constexpr int accumulators(int tile) { return tile >= 8 ? 1 : 8 / tile >= 4 ? 4 : 2; }

/// `one_order`: low tiles add up as high ones do.
template <class Words, int MR>
void fill_tiles(GemmF32& g, bool one_order) {
  g.tiles[0][MR - 1] = one_order ? &gemm_tile<MR, 1, 1, Words> : &gemm_tile<MR, 1, accumulators(MR), Words>;
  g.tiles[1][MR - 1] = one_order ? &gemm_tile<MR, 2, 1, Words> : &gemm_tile<MR, 2, accumulators(MR * 2), Words>;
  g.tiles[2][MR - 1] = one_order ? &gemm_tile<MR, 1, 1, Words> : &gemm_tile<MR, 1, accumulators(MR * 2), Words>;
  if constexpr (MR > 1) fill_tiles<Words, MR - 1>(g, one_order);
}

/// Rows of a panel of `width` floats that a chunk has. Where 384 do not stay in the level-1 cache they come from the
/// level-2 cache for each tile, and as well come twice as many: results are read and written half as often.
int64_t chunk_depth(int64_t width) {
  constexpr int64_t kDepth = 384;
  const int64_t level1 = level1_cache_bytes();
  return level1 > 0 && level1 < kDepth * width * int64_t{sizeof(float)} ? 2 * kDepth : kDepth;
}

template <class Words>
GemmF32 make_gemm(bool one_order) {
  GemmF32 g;
  g.mr = kRows;
  g.lanes = HWY_MAX_BYTES / 4;
  g.depth = chunk_depth(g.nr());
  fill_tiles<Words, kRows>(g, one_order);
#if HWY_MAX_BYTES >= 64
  if (!one_order) g.row_panels = &gemm_row<GemmF32::kRowPanels, accumulators(2), Words>;
#endif
  return g;
}

#if HWY_MAX_BYTES >= 64
/// Lower ones, which gain little, and some of which add up in another order, are those of other panels.
template <int MR>
void fill_half_tiles(GemmF32& g) {
  constexpr int kLowest = 9;  // the even tiles of many rows
  static_assert(accumulators(kLowest * 2) == 1);
  g.shared_last[MR - 1] = g.tiles[1][MR - 1];
  for (int i = 0; i < 2; ++i) g.half_used[i][MR - 1] = g.tiles[2 * i][MR - 1];
  if constexpr (MR >= kLowest) {
    g.shared_last[MR - 1] = &gemm_half_tile<MR>;
    for (auto& tiles : g.half_used) tiles[MR - 1] = &gemm_tile<MR, 1, 1, FloatWords, hn::Half<D>>;
  }
  if constexpr (MR > 1) fill_half_tiles<MR - 1>(g);
}
#endif

GemmF32 make_gemm_f32(bool one_order) {
  GemmF32 g = make_gemm<FloatWords>(one_order);
#if HWY_MAX_BYTES >= 64
  fill_half_tiles<kRows>(g);
#endif
  g.pack_columns = pack_columns;
  return g;
}

#if HWY_TARGET == HWY_AVX3
// AVX-512 BF16, which neither Highway's target nor its attributes have.
struct Bf16Pairs {
  static HWY_INLINE V multiply_add(V a, V b, V sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
  static HWY_INLINE V make(V first, V second) {  // 32 neighbours
    V words;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(words.raw) : "v"(second.raw), "v"(first.raw));
    return words;
  }
};

void row_to_bf16(const float* a, int64_t k, float* row) {
  const D d;
  int64_t i = 0;
  for (; i + 32 <= k; i += 32)
    hn::StoreU(Bf16Pairs::make(hn::LoadU(d, a + i), hn::LoadU(d, a + i + 16)), d, row + i / 2);
  if (i == k) return;
  const V words = Bf16Pairs::make(load_first(d, a + i, k - i), load_first(d, a + i + 16, k - i - 16));
  hn::BlendedStore(words, hn::FirstN(d, static_cast<size_t>((k - i + 1) / 2)), d, row + i / 2);
}

/// Rows of 1, 3, 7 or 15 elements, as many at once as two vectors of words' elements hold.
void short_rows_to_bf16(const float* a, int64_t rows, int64_t k, float* words) {
  const D d;
  const hn::RebindToSigned<D> di;
  HWY_ALIGN int32_t from[32];
  uint32_t used = 0;  // elements that no row lacks
  for (int64_t i = 0; i < 32; ++i) {
    const int64_t row = i / (k + 1), column = i % (k + 1);
    from[i] = static_cast<int32_t>(column < k ? row * k + column : 0);
    used |= column < k ? 1u << i : 0;
  }
  const auto gather = [&](V first, V second, int half) HWY_ATTR {
    const __m512i index = hn::Load(di, from + half * 16).raw;
    const auto columns = static_cast<__mmask16>(used >> (half * 16));
    return V{_mm512_maskz_permutex2var_ps(columns, first.raw, index, second.raw)};
  };
  const int64_t most = 32 / (k + 1);
  const auto behind = hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, most * k - 16)));
  for (; rows >= most; rows -= most, a += most * k, words += 16) {
    const V first = hn::LoadU(d, a), second = hn::MaskedLoad(behind, d, a + 16);
    hn::StoreU(Bf16Pairs::make(gather(first, second, 0), gather(first, second, 1)), d, words);
  }
  const V first = load_first(d, a, rows * k), second = load_first(d, a + 16, rows * k - 16);
  const auto written = hn::FirstN(d, static_cast<size_t>(rows * (k + 1) / 2));
  hn::BlendedStore(Bf16Pairs::make(gather(first, second, 0), gather(first, second, 1)), written, d, words);
}

void rows_to_bf16(const float* a, int64_t rows, int64_t k, float* words) {
  if (k == 1 || k == 3 || k == 7 || k == 15) return short_rows_to_bf16(a, rows, k, words);
  for (int64_t r = 0; r < rows; ++r) row_to_bf16(a + r * k, k, words + r * ((k + 1) / 2));
}

/// Two rows of a block are one row of words.
void pack_columns_bf16(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t used, float alpha,
                       float* rows, int64_t w) {
  constexpr int64_t kBlock = 32, kWidest = 32;
  HWY_ALIGN float block[kBlock * kWidest];
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> all;
  const hn::Half<decltype(all)> half;
  for (int64_t i = 0; i < k; i += kBlock) {
    const int64_t n = std::min(kBlock, k - i);
    if (used < w || n % 2 != 0) std::fill_n(block, round_up(n, 2) * w, 0.0f);
    pack_columns(b + i * stride_k, stride_k, stride_n, n, used, alpha, block, w);
    for (int64_t r = 0; r < n; r += 2, rows += w)
      for (int64_t j = 0; j < w; j += 16) {
        const V pair = Bf16Pairs::make(hn::Load(d, block + r * w + j), hn::Load(d, block + (r + 1) * w + j));
        const auto first = hn::PromoteTo(du, hn::LowerHalf(half, hn::BitCast(all, pair)));
        const auto second = hn::PromoteTo(du, hn::UpperHalf(half, hn::BitCast(all, pair)));
        hn::StoreU(hn::BitCast(d, hn::Or(first, hn::ShiftLeft<16>(second))), d, rows + j);
      }
  }
}

GemmF32 make_gemm_bf16(bool one_order) {
  GemmF32 g = make_gemm<Bf16Pairs>(one_order);
  g.word = 2;
  g.to_words = row_to_bf16;
  g.rows_to_words = rows_to_bf16;
  g.pack_columns = pack_columns_bf16;
  return g;
}
#endif

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const GemmF32& gemm_f32(Isa isa) {
  return of_level(isa,
                  [](Isa level) { return SMELT_FOR_LEVEL(level, make_gemm_f32)(level.has(IsaFeature::kOneOrder)); });
}

#if defined(__x86_64__)
const GemmF32& gemm_bf16(Isa isa) {
  return of_level(isa, [](Isa level) {
    const bool one_order = level.has(IsaFeature::kOneOrder);
    GemmF32 g = N_AVX3::make_gemm_bf16(one_order);
    if (level.has(IsaFeature::kAmx)) fill_amx_tiles(g, one_order);
    return g;
  });
}
#else
const GemmF32& gemm_bf16(Isa isa) { return gemm_f32(isa); }  // kBf16 is of x86
#endif

void GemmF32::pack(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t n, const float* bias,
                   float* dst, float alpha, float beta) const {
  for (int64_t p = 0; p < panels(n); ++p) {
    const int64_t w = width(n, p), first = p * nr(), used = std::min(w, n - first);
    for (int64_t j = 0; j < w; ++j) dst[j] = bias && j < used ? bias[first + j] * beta : 0.0f;
    float* rows = dst + w;
    if (used < w) std::fill_n(rows, words(k) * w, 0.0f);
    pack_columns(b + first * stride_n, stride_k, stride_n, k, used, alpha, rows, w);
    dst += (words(k) + 1) * w;
  }
}

namespace {

constexpr int64_t kMostBytes = 128;  ///< that a tile prefetches with two rows of b
constexpr int64_t kLarge = 8192;     ///< rows of panels, about 1 MiB, that one row reads ahead

/// How K is split: chunks of `runs` whole runs, or of `length` elements of one run.
struct Split {
  int64_t runs, length;
  Split(const GemmRuns& whole, int64_t depth) : runs(whole.count), length(whole.length) {
    const auto chunks = [&](int64_t k) { return (k + depth / 2) / depth; };
    const int64_t all = chunks(whole.count * whole.length);
    if (all <= 1) return;
    if (const int64_t n = chunks(length); n > 1) {
      runs = 1;
      length = round_up((length + n - 1) / n, 4);
    } else {
      runs = (runs + all - 1) / all;
    }
  }
};

/// product() of one strip that is one tile high: without any division, for products of a few elements.
[[gnu::always_inline]] inline void tile_row(const GemmF32& g, const GemmStrips& strip, const GemmRuns& runs, int64_t k,
                                            int64_t n, const float* packed, int64_t first, int64_t last,
                                            const float* row_bias, float lo, float hi) {
  TileState state;
  const bool far = strip.rows > 1 || (k * (last - first) >= kLarge && streams_by_prefetch());
  int64_t p = first;
  if (strip.rows == 1 && g.row_panels && runs.count == 1 && !runs.b_rows)
    for (const int64_t whole = std::min(last, n / g.nr()); p + GemmF32::kRowPanels <= whole; p += GemmF32::kRowPanels) {
      const float* const panel = packed + g.panel_offset(k, p);
      const GemmChunk chunk{runs, panel + g.nr(), panel, 0, 0, 0, lo, hi, far ? kMostBytes : 0, nullptr};
      g.row_panels(chunk, strip.a + runs.at[0], strip.c + p * g.nr(), row_bias, g.panel_offset(k, 1));
    }
  for (; p < last; ++p) {
    const int64_t w = g.width(n, p), column = p * g.nr();
    const float* const panel = packed + g.panel_offset(k, p);
    const float* const next = p + 1 < last ? panel + (k + 1) * w : nullptr;
    const int64_t ahead = next && far ? kMostBytes : 0;
    const GemmChunk chunk{runs, panel + w, panel, strip.lda, strip.ldc, std::min(g.nr(), n - column),
                          lo,   hi,        ahead, &state};
    g.tiles_of(w, column, chunk.n)[strip.rows - 1](chunk, strip.a, strip.c + column, row_bias,
                                                   reinterpret_cast<const char*>(next ? next : panel));
  }
}

}  // namespace

void GemmF32::run(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* packed, int64_t first,
                  int64_t last, float* c, int64_t ldc, const float* row_bias, float lo, float hi,
                  const EpilogueRun* epilogue) const {
  // A block of rows stays in the level-2 cache while all panels pass by.
  constexpr ptrdiff_t kStart = 0;
  const int64_t column = first * nr(), columns = std::min(n, last * nr()) - column;  // of the epilogue
  const GemmRuns whole{&kStart, 1, k};
  if (m <= mr && m > 0) {
    tile_row(*this, {a, c, lda, ldc, m}, whole, k, n, packed, first, last, row_bias, lo, hi);
    if (epilogue) (*epilogue)(c + column, m, columns, ldc);
    return;
  }
  const int64_t deep = std::clamp<int64_t>(k, 1, depth);
  int64_t block = m;
  if (m * deep > block_floats) {
    const int64_t tall = std::max<int64_t>(1, block_floats / (deep * mr)) * mr, blocks = (m + tall - 1) / tall;
    block = round_up((m + blocks - 1) / blocks, mr);
  }
  // What the epilogue works on stays there, too, unless b would be read too often for that.
  if (epilogue && k * n <= block_floats) block = std::min(block, round_up(ceil_div(block_floats, n), mr));
  for (int64_t row = 0; row < m; row += block) {
    const int64_t rows = std::min(block, m - row);
    product({a + row * lda, c + row * ldc, lda, ldc, rows}, whole, k, n, packed, first, last,
            row_bias ? row_bias + row : nullptr, lo, hi);
    if (epilogue) (*epilogue)(c + row * ldc + column, rows, columns, ldc);
  }
}

void GemmF32::product(const GemmStrips& strips, const GemmRuns& runs, int64_t k, int64_t n, const float* packed,
                      int64_t first, int64_t last, const float* row_bias, float lo, float hi) const {
  if (strips.count == 1 && strips.rows <= mr)
    return tile_row(*this, strips, runs, k, n, packed, first, last, row_bias, lo, hi);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const EvenTiles of_strip(strips.rows, mr);
  const int64_t tall = joins(strips) ? (strips.count + 1) / 2 : strips.count * of_strip.count;
  const Split split(runs, depth);
  TileState state;
  // The tiles of a panel ask for the next panel's chunk by turns, as much at each step of two rows of b.
  const int64_t ahead = std::min(kMostBytes, 2 * nr() * int64_t{sizeof(float)} / tall);
  for (int64_t r = 0; r < runs.count; r += split.runs)
    for (int64_t at = 0; at < runs.length || at == 0; at += split.length) {
      const bool begins = r == 0 && at == 0, ends = r + split.runs >= runs.count && at + split.length >= runs.length;
      const GemmRuns part{runs.at + r, std::min(split.runs, runs.count - r), std::min(split.length, runs.length - at),
                          runs.b_rows ? runs.b_rows + r : nullptr};
      const int64_t row = 1 + at + (runs.b_rows ? 0 : r * runs.length);  // of the panel, behind its bias
      for (int64_t p = first; p < last; ++p) {
        const int64_t w = width(n, p);
        const float* const panel = packed + panel_offset(k, p);
        const float* next = p + 1 < last ? packed + panel_offset(k, p + 1) + row * width(n, p + 1) : nullptr;
        chunk_times_rows(
            {part, panel + row * w, begins ? panel : nullptr, strips.lda, strips.ldc, std::min(nr(), n - p * nr()),
             ends ? lo : -kInf, ends ? hi : kInf, next ? ahead : 0, &state, strips.a_step, strips.c_step},
            strips, of_strip, w, at, p * nr(), begins ? row_bias : nullptr, next ? next : panel);
      }
      if (split.length == 0) break;
    }
}

void GemmF32::panel_product(int64_t m, const float* a, int64_t lda, const GemmPanel& panel, const float* start,
                            float* c, GemmAhead ahead) const {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr ptrdiff_t kStart = 0;
  const EvenTiles tiles(m, mr);
  const int64_t steps = std::max<int64_t>(1, panel.k / 2 * tiles.count);
  const int64_t ahead_step = std::min(kMostBytes, ceil_div(ahead.floats * int64_t{sizeof(float)}, steps));
  TileState state;
  const GemmChunk chunk{{&kStart, 1, panel.k}, panel.rows, start, lda,        panel.width,
                        panel.width,           -kInf,      kInf,  ahead_step, &state};
  const Tile* tile = tiles_of(panel.width, panel.column, panel.width);
  const char* next = reinterpret_cast<const char*>(ahead.begin ? ahead.begin : panel.rows);
  for (int64_t t = 0; t < tiles.count; ++t, next += ahead_step * (panel.k / 2)) {
    const int64_t rows = tiles.rows(t);
    tile[rows - 1](chunk, a, c, nullptr, next);
    a += rows * lda;
    c += rows * panel.width;
  }
}

/// `offset`: of the chunk in the rows of a; `column`: of the panel in c; `next`: where the prefetches begin.
void GemmF32::chunk_times_rows(const GemmChunk& chunk, const GemmStrips& strips, const EvenTiles& of_strip,
                               int64_t width, int64_t offset, int64_t column, const float* row_bias,
                               const float* next) const {
  const Tile* tile = tiles_of(width, column, chunk.n);
  const char* ahead = reinterpret_cast<const char*>(next);
  const int64_t share = chunk.ahead_step * (chunk.runs.count * chunk.runs.length / 2);
  int64_t s = 0;
  for (; joins(strips) && s + 1 < strips.count; s += 2, ahead += share)
    pairs[width > lanes][strips.rows - 1](chunk, strips.a + s * strips.a_step + offset,
                                          strips.c + s * strips.c_step + column, row_bias, ahead);
  for (; s < strips.count; ++s) {
    const float* a = strips.a + s * strips.a_step + offset;
    float* c = strips.c + s * strips.c_step + column;
    for (int64_t t = 0, i = 0; t < of_strip.count; ++t, ahead += share) {
      const int64_t rows = of_strip.rows(t);
      tile[rows - 1](chunk, a + i * strips.lda, c + i * strips.ldc, row_bias ? row_bias + i : nullptr, ahead);
      i += rows;
    }
  }
}

}  // namespace smelt
#endif
