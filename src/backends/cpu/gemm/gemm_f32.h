#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "backends/cpu/gemm/even_tiles.h"
#include "base/checked.h"

namespace smelt {

class EpilogueRun;
struct TileState;

/// Where the elements of a's rows lie: `count` runs of `length` neighbours, run r `at[r]` floats behind the row's
/// start.
struct GemmRuns {
  const ptrdiff_t* at;
  ptrdiff_t count, length;
  const ptrdiff_t* b_rows = nullptr;  ///< row of b that each run begins with; null: run after run
};

/// Rows of a and c: `count` strips of `rows` rows, strip i begins i * a_step floats behind a and i * c_step behind c.
struct GemmStrips {
  const float* a;
  float* c;
  ptrdiff_t lda, ldc;  ///< from row to row of a strip
  int64_t rows, count = 1, a_step = 0, c_step = 0;
};

/// Some rows of a panel of b, at most GemmF32::depth, whose results are as wide as the panel and lie behind each other.
struct GemmPanel {
  const float* rows;  ///< aligned to whole vectors
  int64_t k;          ///< rows
  int64_t width;      ///< columns, as quantized
  int64_t column;     ///< of the product that it begins with
};

/// Memory that is needed soon.
struct GemmAhead {
  const float* begin;
  int64_t floats;
};

/// What the tiles share that multiply with some rows of one panel of b.
struct GemmChunk {
  GemmRuns runs;
  const float* b;      ///< first row of the panel that is used
  const float* start;  ///< first addends of each row of c; null: what c holds
  ptrdiff_t lda, ldc;
  ptrdiff_t n;  ///< columns that are written
  float lo, hi;
  ptrdiff_t ahead_step;              ///< bytes by which a tile's prefetches advance with every two words of a row of a
  TileState* state;                  ///< what tiles of AMX keep in the processor
  ptrdiff_t a_step = 0, c_step = 0;  ///< from a strip to the next one
};

/// Float32 matrix product c = clamp(a b + bias) in tiles of mr rows by nr columns of b's panels.
///
/// b is packed in panels of nr = 2 * lanes columns (the last one of `lanes` columns when that is enough). A panel is
/// one row of bias and then k rows of b, each as wide as the panel; missing columns are zero.
///
/// The elements of a and of b's rows are words of 32 bits. A word is a float32, or two bfloat16 that are neighbours
/// along K, the first in the low half; k, lda and GemmRuns count words. c and bias are float32 in either case.
struct GemmF32 {
  /// One tile. a, c: its first rows. row_bias: one addend a row of c, instead of `start`; null: none. ahead: memory
  /// that is needed soon.
  using Tile = void (*)(const GemmChunk& chunk, const float* a, float* c, const float* row_bias, const char* ahead);
  int64_t mr = 0;
  int64_t lanes = 0;
  /// [0]: of a narrow panel, the only one; [1]: of wide ones; [2]: of a narrow one behind wide ones, which adds up as
  /// they do, so that equal columns of b give equal columns of c. Then [rows - 1].
  Tile tiles[3][32] = {};
  /// [rows - 1]: of wide panels of which 3/2 lanes at most are used, results equal to those of tiles[1]. Null: there
  /// are none.
  Tile shared_last[32] = {};
  /// [panel is behind wide ones][rows - 1]: of narrow panels of which lanes / 2 at most are used, results equal to
  /// those of tiles[0] and tiles[2]. Null: there are none.
  Tile half_used[2][32] = {};
  /// [panel is wide][rows - 1]: the same of as many rows of two strips at once. Null: there are none.
  Tile pairs[2][16] = {};
  /// One row of a times kRowPanels wide panels that are used to their last column, `panel_step` floats from each other;
  /// results equal to those of tiles[1][0]. Null: there is none.
  void (*row_panels)(const GemmChunk& chunk, const float* a, float* c, const float* row_bias,
                     ptrdiff_t panel_step) = nullptr;
  static constexpr int kRowPanels = 3;
  int64_t word = 1;                  ///< elements of K that a word holds
  int64_t depth = 384;               ///< rows of a panel that stay in a near cache
  int64_t block_floats = 96 * 1024;  ///< words of rows of a that stay in the level-2 cache
  /// The k elements of a row of a as words(k) words; what is missing of the last one is zero. `row` may be `a`.
  /// nullptr: a stays as it is.
  void (*to_words)(const float* a, int64_t k, float* row) = nullptr;
  /// As to_words for each of `rows` rows that lie behind each other, in a and as words; nullptr like that.
  void (*rows_to_words)(const float* a, int64_t rows, int64_t k, float* words) = nullptr;
  /// Word (i, j) of rows[i * w + j] from b[i * stride_k + j * stride_n] * alpha for i < k, j < used.
  void (*pack_columns)(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t used, float alpha,
                       float* rows, int64_t w) = nullptr;

  int64_t nr() const { return 2 * lanes; }
  int64_t words(int64_t k) const { return (k + word - 1) / word; }
  /// Rows of k words that are made words at a time for a product with n columns: a block of run(), or where b stays in
  /// the level-2 cache fewer, whose results stay there, too.
  int64_t words_block(int64_t k, int64_t n) const {
    if (k * n > block_floats / 2) return block_floats / std::clamp<int64_t>(k, 1, depth);
    return block_floats * 3 / 4 / std::max<int64_t>(1, k + n);
  }
  int64_t panels(int64_t n) const { return ceil_div_by_power(n, nr()); }
  /// Columns of panel p of n, as quantized.
  int64_t width(int64_t n, int64_t p) const { return n - p * nr() <= lanes ? lanes : nr(); }
  /// Words of all panels of a matrix of k words by n columns.
  int64_t packed_size(int64_t k, int64_t n) const {
    return n == 0 ? 0 : (k + 1) * ((panels(n) - 1) * nr() + width(n, panels(n) - 1));
  }
  /// The tiles for a panel of that width from that column on, of which `used` columns are written.
  const Tile* tiles_of(int64_t width, int64_t column, int64_t used) const {
    if (width > lanes) return shared_last[0] && used <= lanes * 3 / 2 ? shared_last : tiles[1];
    return half_used[0][0] && used <= lanes / 2 ? half_used[column > 0] : tiles[column > 0 ? 2 : 0];
  }
  int64_t panel_offset(int64_t k, int64_t p) const { return p * (k + 1) * nr(); }
  /// Packs b[i * stride_k + j * stride_n] * alpha for the k elements i, and bias (null: zeros) * beta, into dst.
  void pack(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t n, const float* bias, float* dst,
            float alpha = 1, float beta = 1) const;
  /// Rows [0, m) times the panels [first, last) of the packed b with n columns. c points at column 0 of panel 0.
  /// epilogue: computed on blocks of rows of c; null: none.
  void run(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* packed, int64_t first,
           int64_t last, float* c, int64_t ldc, const float* row_bias, float lo, float hi,
           const EpilogueRun* epilogue = nullptr) const;
  /// Strips of rows times the panels [first, last) of the packed b, which has n columns and k rows. c points at column
  /// 0 of panel 0. What a panel has for a part of K stays in the level-1 cache while all rows pass by: b is read once.
  void product(const GemmStrips& strips, const GemmRuns& runs, int64_t k, int64_t n, const float* packed, int64_t first,
               int64_t last, const float* row_bias, float lo, float hi) const;
  /// The m rows of a times the rows of one panel: c = start + a b, or c += a b where `start` is null.
  void panel_product(int64_t m, const float* a, int64_t lda, const GemmPanel& panel, const float* start, float* c,
                     GemmAhead ahead) const;

 private:
  /// True if tiles of two strips multiply them.
  bool joins(const GemmStrips& strips) const { return pairs[0][0] && strips.count > 1 && strips.rows * 2 <= mr; }
  void chunk_times_rows(const GemmChunk& chunk, const GemmStrips& strips, const EvenTiles& of_strip, int64_t width,
                        int64_t offset, int64_t column, const float* row_bias, const float* next) const;
};

const GemmF32& gemm_f32(Isa isa);

/// The product of operands that are rounded to bfloat16, to the nearest, ties to even, with sums of float32: words of
/// two. Subnormal operands and results count as zero. Precondition: isa has kBf16.
///
/// Error: a result is within (2^-7 + (k + 2) 2^-22) S of the exact one, S = sum |a| |b| over k, since both operands
/// are rounded by at most 2^-8 and each of the sums by 2^-23.
const GemmF32& gemm_bf16(Isa isa);

#if defined(__x86_64__)
/// Tiles of AMX for bfloat16, in gemm_bf16_amx.cc. one_order: for few rows, too.
void fill_amx_tiles(GemmF32& words, bool one_order);
#endif

}  // namespace smelt
