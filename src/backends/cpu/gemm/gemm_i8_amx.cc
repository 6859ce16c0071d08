// Tiles of AMX: two by two products of 16 rows by 16 columns, 16 groups an instruction.
#if defined(__x86_64__)
#include <algorithm>

#include "backends/cpu/core/amx-inl.h"
#include "backends/cpu/gemm/gemm_i8.h"

SMELT_BEFORE_AMX
namespace smelt {
namespace {

constexpr ptrdiff_t kSteps = amx::kTileRowBytes / 4;  // of an instruction, at most

/// Prepares the processor for tiles of `rows` rows and chunks of `steps` groups. Instructions take a part of a chunk
/// each that divides it, or 16 groups and the last of a chunk fewer.
void prepare(TileState& state, ptrdiff_t rows, ptrdiff_t steps) {
  if (state.rows == rows && state.steps == steps) return;
  const ptrdiff_t parts = (steps + kSteps - 1) / kSteps;
  state.rows = rows;
  state.steps = steps;
  state.product_steps = parts > 0 && steps % parts == 0 ? steps / parts : kSteps;
  state.release = [] { _tile_release(); };
  amx::configure(rows, state.product_steps);
}

/// The last groups of a chunk's rows behind zeros, kTileRowBytes a row.
void copy_ends(const char* ends, ptrdiff_t lda, ptrdiff_t rows, ptrdiff_t groups, char* to) {
  const __mmask64 last = ~uint64_t{0} << ((kSteps - groups) * 4);
  for (ptrdiff_t r = 0; r < rows; ++r, ends += lda, to += amx::kTileRowBytes)
    _mm512_store_si512(to, _mm512_maskz_loadu_epi8(last, ends + groups * 4 - amx::kTileRowBytes));
}

/// A tile of kRows rows: a block of at most 16, or two of the same height that may share a row.
template <bool kSigned, int kRows, int NV>
void amx_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
              int32_t* result, const void* /*next*/, TileState& state) {
  constexpr int kBlocks = kRows > amx::kTileRows ? 2 : 1;
  constexpr ptrdiff_t kHeight = (kRows + kBlocks - 1) / kBlocks, kBottom = kRows - kHeight;
  constexpr ptrdiff_t kRowOfSums = 2 * amx::kTileRowBytes;
  constexpr auto kProduct = kSigned ? amx::Product::kInt8 : amx::Product::kUint8;
  prepare(state, kHeight, steps);
  const auto* b = static_cast<const char*>(panel);
  amx::load_sums<NV, kBlocks>(b + (kSigned ? NV * 64 : 0), 0, 0);  // the addends in every row
  b += 2 * NV * 64;
  const ptrdiff_t step = state.product_steps, share = (state.ahead_a_step * step + 63) / 64 * 64;
  for (const void* const* last = a + chunks; a < last; ++a) {
    const auto* row = static_cast<const char*>(*a);
    ptrdiff_t i = 0;
    for (; i + step <= steps; i += step, row += step * 4, b += step * NV * 64) {
      amx::add_products<kProduct, NV, kBlocks>(row, row + kBottom * lda, lda, b);
      for (const char* const end = std::min(state.ahead + share, state.ahead_end); state.ahead < end; state.ahead += 64)
        _mm_prefetch(state.ahead, _MM_HINT_T1);
    }
    if (i == steps) continue;
    const ptrdiff_t left = steps - i;
    alignas(64) char ends[kRows * amx::kTileRowBytes];
    copy_ends(row, lda, kRows, left, ends);
    amx::order_memory();
    amx::add_products<kProduct, NV, kBlocks>(ends, ends + kBottom * amx::kTileRowBytes, amx::kTileRowBytes,
                                             b - (kSteps - left) * NV * 64);
    b += left * NV * 64;
  }
  amx::store_sums<NV, kBlocks>(result, kRowOfSums, kBottom * kRowOfSums);
}

template <bool kSigned, int kRows>
void fill(GemmI8& g) {
  g.tiles[kSigned][0][kRows - 1] = amx_tile<kSigned, kRows, 1>;
  g.tiles[kSigned][1][kRows - 1] = amx_tile<kSigned, kRows, 2>;
  if constexpr (kRows > kVnniRowsBesideAmx + 1) fill<kSigned, kRows - 1>(g);
}

}  // namespace

void fill_amx_tiles(GemmI8& bytes) {
  bytes.mr = 2 * amx::kTileRows;
  bytes.addend_rows = 2;
  bytes.block_bytes = 1024 * 1024;  // processors with AMX have a second cache of 2 MiB
  bytes.flips_int8 = false;
  bytes.half_used = {};
  fill_vnni_tiles_for_amx(bytes);
  fill<false, 2 * amx::kTileRows>(bytes);
  fill<true, 2 * amx::kTileRows>(bytes);
  bytes.prefetching_tiles = bytes.tiles;
}

}  // namespace smelt
SMELT_AFTER_AMX
#endif
