#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Transforms of Winograd's F(2x2, 3x3) in integers: a tile d of 4x4 input pixels becomes B'dB, a filter g becomes
/// 4 GgG', whose products, summed over channels, give 4 times the 2x2 output pixels. Elements of a tile go row by row.
/// All of |d| at most 255 and of |g| at most 128, transformed numbers fit 16 bits.
struct WinogradI8 {
  static constexpr int kTile = 2, kSide = 4, kPositions = 16;

  /// u[p * step + i] = (4 GgG')[p] of weight i, n of them, whole vectors. g[t * tap + i]: tap t of the 9.
  void (*filter)(const int8_t* g, int64_t tap, int64_t n, int16_t* u, int64_t step) = nullptr;
  /// v[p * step + c] = (B'dB)[p] of channel c, at least least_channels. d: bytes of the tile's input pixels, of which
  /// `zero` is subtracted.
  void (*input)(const uint8_t* const* d, int64_t channels, bool is_signed, int32_t zero, int16_t* v,
                int64_t step) = nullptr;
  /// Output pixels of the tile's rows, row[y][x * stride + c] for `channels`, whole vectors: (A'mA)[y][x] / 4 +
  /// bias[c], modulo 2^32. m[p * step + c].
  void (*output)(const int32_t* m, int64_t step, const int32_t* bias, int64_t channels, int32_t* const* row,
                 int64_t stride) = nullptr;
  int64_t least_channels = 0;
};

const WinogradI8& winograd_i8(Isa isa);

}  // namespace smelt
