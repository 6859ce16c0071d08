// Tiles of AMX-BF16: two by two products of 16 rows by 16 columns, 16 words an instruction.
#if defined(__x86_64__)
#include <algorithm>
#include <limits>

#include "backends/cpu/core/amx-inl.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "backends/cpu/gemm/tile_state.h"

SMELT_BEFORE_AMX
namespace smelt {
namespace {

constexpr ptrdiff_t kSteps = amx::kTileRowBytes / 4;  // of an instruction, at most
constexpr ptrdiff_t kVector = 16;                     // floats, the columns of an instruction
constexpr ptrdiff_t kWidest = 2 * kVector;            // columns of a panel

/// What an instruction takes of a run of `words`: an even part, unless that makes a third more instructions than parts
/// of kSteps and a shorter last one.
ptrdiff_t part_of(ptrdiff_t words) {
  if (words <= kSteps) return std::max<ptrdiff_t>(1, words);
  const ptrdiff_t fewest = (words + kSteps - 1) / kSteps;
  for (ptrdiff_t parts = fewest; parts * 3 <= fewest * 4; ++parts)
    if (words % parts == 0) return words / parts;
  return kSteps;
}

/// Prepares the processor for tiles of `rows` rows and runs of `words`.
void prepare(TileState& state, ptrdiff_t rows, ptrdiff_t words) {
  if (state.rows == rows && state.steps == words) return;
  if (state.steps != words || state.product_steps == 0) state.product_steps = part_of(words);
  state.rows = rows;
  state.steps = words;
  state.release = [] { _tile_release(); };
  amx::configure(rows, state.product_steps);
}

/// Where a tile's blocks lie: so many rows each, the bottom one's so many floats behind the top one's in a, c and
/// the addends of rows.
struct Blocks {
  ptrdiff_t rows, a_step, c_step, bias_step;
};
constexpr ptrdiff_t kBlockOfSums = amx::kTileRows * kWidest;  ///< floats of a block's sums where they lie by themselves

/// Adds the products of the last `words` of a run, fewer than kSteps: a's and b's behind them are zero.
template <int NV, int kBlocks>
void add_last_products(const Blocks& blocks, const char* a, ptrdiff_t lda, const char* b, ptrdiff_t words) {
  constexpr ptrdiff_t kBlockBytes = amx::kTileRows * amx::kTileRowBytes;
  alignas(64) char ends[kBlocks * kBlockBytes], ends_of_b[kSteps * NV * 64];
  const auto some = static_cast<__mmask16>((1u << words) - 1);
  for (ptrdiff_t h = 0; h < kBlocks; ++h)
    for (ptrdiff_t r = 0; r < blocks.rows; ++r)
      _mm512_store_si512(ends + h * kBlockBytes + r * amx::kTileRowBytes,
                         _mm512_maskz_loadu_epi32(some, a + h * blocks.a_step * 4 + r * lda));
  for (ptrdiff_t i = 0; i < kSteps * NV; ++i)
    _mm512_store_si512(ends_of_b + i * 64, i < words * NV ? _mm512_load_si512(b + i * 64) : _mm512_setzero_si512());
  amx::order_memory();
  amx::add_products<amx::Product::kBf16, NV, kBlocks>(ends, ends + kBlockBytes * (kBlocks - 1), amx::kTileRowBytes,
                                                      ends_of_b);
}

/// The columns of vector j of which n are of c.
__mmask16 columns_of(ptrdiff_t j, ptrdiff_t n) {
  const ptrdiff_t left = std::clamp<ptrdiff_t>(n - j * kVector, 0, kVector);
  return static_cast<__mmask16>((1u << left) - 1);
}

/// What a block's sums begin with, where it does not lie in memory as tiles are loaded.
template <int NV>
void fill_start(const GemmChunk& chunk, const float* c, const float* row_bias, ptrdiff_t rows, float* start) {
  for (ptrdiff_t r = 0; r < rows; ++r)
    for (ptrdiff_t j = 0; j < NV; ++j)
      _mm512_store_ps(start + r * kWidest + j * kVector,
                      row_bias ? _mm512_set1_ps(row_bias[r])
                               : _mm512_maskz_loadu_ps(columns_of(j, chunk.n), c + r * chunk.ldc + j * kVector));
}

/// Writes a block's sums.
template <int NV>
void write_clamped(const GemmChunk& chunk, const float* sums, ptrdiff_t rows, float* c) {
  const __m512 lo = _mm512_set1_ps(chunk.lo), hi = _mm512_set1_ps(chunk.hi);
  __mmask16 columns[NV];
  for (int j = 0; j < NV; ++j) columns[j] = columns_of(j, chunk.n);
  for (ptrdiff_t r = 0; r < rows; ++r)
    for (ptrdiff_t j = 0; j < NV; ++j) {
      const __m512 sum = _mm512_load_ps(sums + r * kWidest + j * kVector);
      const __m512 at_least = _mm512_maskz_max_ps(columns[j], lo, sum);  // NaN stays
      const __m512 clamped = _mm512_maskz_min_ps(columns[j], hi, at_least);
      _mm512_mask_storeu_ps(c + r * chunk.ldc + j * kVector, columns[j], clamped);
    }
}

/// Adds the products of all runs to the sums.
template <int NV, int kBlocks>
void add_runs(const GemmChunk& chunk, const Blocks& blocks, const float* a, const char* ahead) {
  const GemmRuns& runs = chunk.runs;
  const ptrdiff_t step = chunk.state->product_steps, lda = chunk.lda * 4;
  const ptrdiff_t share = chunk.ahead_step * step / 2;  // of what is brought nearer
  const char* line = ahead;
  const auto* b = reinterpret_cast<const char*>(chunk.b);
  for (ptrdiff_t r = 0; r < runs.count; ++r) {
    if (runs.b_rows) b = reinterpret_cast<const char*>(chunk.b) + runs.b_rows[r] * NV * 64;
    const auto* row = reinterpret_cast<const char*>(a + runs.at[r]);
    ptrdiff_t left = runs.length;
    for (; left >= step; left -= step, row += step * 4, b += step * NV * 64) {
      amx::add_products<amx::Product::kBf16, NV, kBlocks>(row, row + blocks.a_step * 4, lda, b);
      for (ahead += share; line < ahead; line += 64) _mm_prefetch(line, _MM_HINT_T1);
    }
    if (left == 0) continue;
    add_last_products<NV, kBlocks>(blocks, row, lda, b, left);
    b += left * NV * 64;
  }
}

template <int NV, int kBlocks>
[[gnu::noinline]] void amx_tile(const GemmChunk& chunk, const Blocks& blocks, const float* a, float* c,
                                const float* row_bias, const char* ahead) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr ptrdiff_t kRowOfSums = kWidest * 4;
  const ptrdiff_t rows = blocks.rows, ldc = chunk.ldc * 4, c_step = blocks.c_step * 4;
  alignas(64) float sums[kBlocks * kBlockOfSums];
  auto* const sum_bytes = reinterpret_cast<char*>(sums);
  const bool whole = chunk.n >= NV * kVector;
  prepare(*chunk.state, rows, chunk.runs.length);
  if (!row_bias && chunk.start) {
    amx::load_sums<NV, kBlocks>(reinterpret_cast<const char*>(chunk.start), 0, 0);
  } else if (!row_bias && whole) {
    amx::load_sums<NV, kBlocks>(reinterpret_cast<const char*>(c), ldc, c_step);
  } else {
    for (ptrdiff_t h = 0; h < kBlocks; ++h)
      fill_start<NV>(chunk, c + h * blocks.c_step, row_bias ? row_bias + h * blocks.bias_step : nullptr, rows,
                     sums + h * kBlockOfSums);
    amx::order_memory();
    amx::load_sums<NV, kBlocks>(sum_bytes, kRowOfSums, kBlockOfSums * 4);
  }
  add_runs<NV, kBlocks>(chunk, blocks, a, ahead);
  if (whole && chunk.lo == -kInf && chunk.hi == kInf)
    return amx::store_sums<NV, kBlocks>(reinterpret_cast<char*>(c), ldc, c_step);
  amx::store_sums<NV, kBlocks>(sum_bytes, kRowOfSums, kBlockOfSums * 4);
  for (ptrdiff_t h = 0; h < kBlocks; ++h)
    write_clamped<NV>(chunk, sums + h * kBlockOfSums, rows, c + h * blocks.c_step);
}

/// Rows of one strip: a block of at most 16, or two of the same height that may share a row.
template <int kRows, int NV>
void tile_of_rows(const GemmChunk& chunk, const float* a, float* c, const float* row_bias, const char* ahead) {
  constexpr int kBlocks = kRows > amx::kTileRows ? 2 : 1;
  constexpr ptrdiff_t kHeight = (kRows + kBlocks - 1) / kBlocks, kBottom = kRows - kHeight;
  amx_tile<NV, kBlocks>(chunk, {kHeight, kBottom * chunk.lda, kBottom * chunk.ldc, kBottom}, a, c, row_bias, ahead);
}

/// Rows of two strips, as many of each.
template <int kRows, int NV>
void tile_of_strips(const GemmChunk& chunk, const float* a, float* c, const float* row_bias, const char* ahead) {
  amx_tile<NV, 2>(chunk, {kRows, chunk.a_step, chunk.c_step, 0}, a, c, row_bias, ahead);
}

template <int kRows>
void fill_pairs(GemmF32& g) {
  g.pairs[0][kRows - 1] = tile_of_strips<kRows, 1>;
  g.pairs[1][kRows - 1] = tile_of_strips<kRows, 2>;
  if constexpr (kRows > 1) fill_pairs<kRows - 1>(g);
}

/// Tiles of `kFewest` to kRows rows.
template <int kFewest, int kRows>
void fill(GemmF32& g) {
  g.tiles[0][kRows - 1] = g.tiles[2][kRows - 1] = tile_of_rows<kRows, 1>;
  g.tiles[1][kRows - 1] = tile_of_rows<kRows, 2>;
  if constexpr (kRows > kFewest) fill<kFewest, kRows - 1>(g);
}

}  // namespace

void fill_amx_tiles(GemmF32& words, bool one_order) {
  constexpr int kFewest = 3;  // fewer read b no faster by AMX
  words.mr = 2 * amx::kTileRows;
  words.depth = 2048;
  words.block_floats = 256 * 1024;  // processors with AMX have a second cache of 2 MiB
  fill_pairs<amx::kTileRows>(words);
  one_order ? fill<1, 2 * amx::kTileRows>(words) : fill<kFewest, 2 * amx::kTileRows>(words);
}

}  // namespace smelt
SMELT_AFTER_AMX
#endif
