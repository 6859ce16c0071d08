#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Some rows times the panels of one group of 4-bit weights, or of two.
///
/// A panel holds as many columns as a vector has lanes. For every block of k: the columns' scales, then for every 8
/// entries of k one vector, whose 4 bytes a column hold entries 0 to 3 in their low halves and 4 to 7 in their high
/// ones, counted from 0. The two panels of a group are interleaved, vector by vector. A tile of two groups reads them
/// side by side: the hardware follows each on its own, so that more of memory is on its way.
/// Rows of a are padded to 8 entries; what is behind the last one counts for nothing.
struct W4Tile {
  static constexpr int64_t kStep = 8;
  const void* a = nullptr;  ///< int8 or float32
  ptrdiff_t lda = 0;        ///< in elements
  ptrdiff_t blocks = 0;
  ptrdiff_t steps = 0, last_steps = 0;  ///< of a block, of the last one
  const char* panel = nullptr;          ///< the first one; the others of the group follow, a vector apart
  ptrdiff_t step_bytes = 0;             ///< from a vector of a panel to its next one
  ptrdiff_t group_bytes = 0;            ///< from a panel to the one of the next group
  const int16_t* zeros = nullptr;       ///< zero points [panel][block][lane]; null: 8
  const int32_t* less = nullptr;  ///< [row][block]: accumulators of int8 entries, negative, 8 times where zeros is null
  const float* row_scales = nullptr;  ///< [row][block]: of int8 entries; null: 1
  const float* real_acc = nullptr;    ///< [row][block]: of float32 entries
  float* out = nullptr;               ///< [row][panel][lane]
};

/// How rows of accumulators become rows of y.
struct W4Rows {
  const float* bias;   ///< null: none
  const float* zeros;  ///< what a row's zero point of one takes off; null: rows have none
  float low, high;
};

/// Products of rows with 4-bit weights in blocks of one scale each.
struct W4Gemm {
  using Tile = void (*)(const W4Tile&);
  static constexpr int64_t kMostRows = 8, kMostPairs = 2;
  static constexpr int64_t kOneRowPanels = 2 * kMostPairs;  ///< of a tile of one row, in one group or two
  int64_t lanes = 0;
  static constexpr int64_t kGroup = 2;          ///< panels of a group
  int64_t panels = 0;                           ///< of the largest tile of several rows
  int64_t rows = 0;                             ///< of the largest tile of int8 rows
  int64_t real_rows = 0;                        ///< of the largest tile of float32 rows
  Tile tiles[kMostPairs][kMostRows] = {};       ///< [panels / 2 - 1][rows - 1]
  Tile real_tiles[kMostPairs][kMostRows] = {};  ///< [panels / 2 - 1][rows - 1], of float32 rows
  /// y = clamp(scale * (accumulators - zero * zeros) + bias) for n columns.
  void (*store)(const W4Rows& by, const float* acc, float scale, float zero, int64_t n, float* y) = nullptr;
  /// Rows [0, k) of real weights, `stride` floats apart, of the tile's first panel.
  void (*unpack)(const W4Tile& t, int64_t k, float* rows, int64_t stride) = nullptr;
};
const W4Gemm& w4_gemm(Isa isa);

}  // namespace smelt
