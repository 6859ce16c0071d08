#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Transforms of Winograd's convolutions F(2x2, 3x3) and F(4x4, 3x3) in integers. A tile d of input pixels becomes
/// B'dB, a filter g becomes GgG', rows of G multiplied until they are integers; of their products m, summed over
/// channels, A'mA is `scale` times the output pixels. Elements of a tile go row by row. All of |d| at most 255 and of
/// |g| at most 128, transformed numbers fit 16 bits. Sums count modulo 2^32.
struct WinogradI8 {
  static constexpr int kMostPositions = 36;

  int tile = 0;                ///< output pixels along a side
  int64_t most_magnitude = 0;  ///< results of at most this magnitude are exact
  int64_t least_channels = 0;  ///< of input()
  /// u[p * step + i] = (GgG')[p] of weight i, n of them, whole vectors, for the positions p of the upper or the lower
  /// half of a tile, which begin with u. g[t * tap + i]: tap t of the 9.
  void (*filter)(const int8_t* g, int64_t tap, int64_t n, int half, int16_t* u, int64_t step) = nullptr;
  /// v[p * step + c] = (B'dB)[p] of channel c. d: bytes of the tile's input pixels, of which `zero` is subtracted.
  void (*input)(const uint8_t* const* d, int64_t channels, bool is_signed, int32_t zero, int16_t* v,
                int64_t step) = nullptr;
  /// Output pixels of the tile, row y and column x at to[(y * line + x * stride) + c] for `channels`, whole vectors:
  /// (A'mA)[y][x] / scale + bias[c]. m[p * step + c].
  void (*output)(const int32_t* m, int64_t step, const int32_t* bias, int64_t channels, int32_t* to, int64_t line,
                 int64_t stride) = nullptr;

  /// Input pixels along a side.
  int side() const { return tile + 2; }
  /// Elements of a transformed tile, each of which is a matrix product of its own.
  int64_t positions() const { return int64_t{side()} * side(); }
};

const WinogradI8& winograd_2x2_i8(Isa isa);
const WinogradI8& winograd_4x4_i8(Isa isa);

/// The largest magnitude of a product of a row of n weights with numbers of [-below, above].
int64_t largest_dot(Isa isa, const int8_t* weights, int64_t rows, int64_t n, int64_t below, int64_t above);

}  // namespace smelt
