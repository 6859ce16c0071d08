#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt {

/// Products of int8 rows with weights of 4 bits in blocks of one scale each, by AVX-512 VNNI, in
/// matmul_w4_vnni.cc.
///
/// Weights lie in panels of 16 columns: for every 8 entries of k one vector, whose 4 bytes a column hold entries 0 to 3
/// in their low halves and 4 to 7 in their high ones, counted from -8. Rows of a are 8 * steps long.
struct W4Tile {
  static constexpr int64_t kColumns = 16, kStep = 8, kMostRows = 4, kMostPanels = 4;
  const int8_t* a = nullptr;
  ptrdiff_t lda = 0;
  const int32_t* sums = nullptr;  ///< [row][block]: of the row's entries
  ptrdiff_t blocks = 0;
  ptrdiff_t steps = 0, last_steps = 0;  ///< of a block, of the last one
  const char* panel = nullptr;
  ptrdiff_t panel_bytes = 0;  ///< from one to the next
  const float* scales = nullptr;
  ptrdiff_t scales_step = 0;  ///< from one block to the next
  float* out = nullptr;       ///< [row][kMostPanels * kColumns]
};

using W4Function = void (*)(const W4Tile&);
/// 1 to kMostRows rows; 1 to kMostPanels panels, 2 at most of several rows.
W4Function w4_tile_vnni(int64_t rows, int64_t panels);
/// Sums of `blocks` blocks of n entries each, the last of `last` entries.
void w4_sums_vnni(const int8_t* a, int64_t blocks, int64_t n, int64_t last, int32_t* sums);
/// y = clamp(scale * (sums - zero * zeros) + bias); bias may be null.
void w4_store_vnni(const float* sums, float scale, float zero, const float* zeros, const float* bias, float low,
                   float high, int64_t n, float* y);

}  // namespace smelt
