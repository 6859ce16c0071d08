#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Winograd's transforms for tiles of output pixels of a 3x3 convolution. A tile d of input pixels becomes B'dB, a
/// filter g becomes GgG'; their products m, summed over channels, give A'mA. All tiles go row by row.
struct WinogradTransforms {
  int tile = 0;  ///< output pixels along a side
  /// u[p * step + c] = (GgG')[p] of channel c. g[t * tap + c]: tap t of the 9.
  void (*filter)(const float* g, int64_t tap, int64_t channels, float* u, int64_t step) = nullptr;
  /// v[p * step + c] = (B'dB)[p] of channel c. d: the tile's input pixels. Where products are of bfloat16: words of
  /// two channels, v[p * step + c / 2]; `channels` is then a multiple of 16.
  void (*input)(const float* const* d, int64_t channels, float* v, int64_t step) = nullptr;
  /// y[q][c] = clamp((A'mA)[q] + bias[c]) of channel c, m[p * step + c]. y: the output pixels; nullptr: outside the
  /// image. False if one of (A'mA)[q] is not finite.
  bool (*output)(const float* m, int64_t step, const float* bias, int64_t channels, float lo, float hi,
                 float* const* y) = nullptr;
  /// Products of kFewTiles tiles, whose filters stay in registers: m[p * m_step + t * width + o] is the sum over k of
  /// v[(p * kFewTiles + t) * kFewChannels + k] (GgG')[p], where `begins`, else what m holds and that sum. g as for
  /// filter(), k * width + o its channel; k below `channels`, kFewChannels at most; width: whole vectors. ahead: taps
  /// that follow. nullptr: registers are too few.
  void (*few)(const float* g, int64_t tap, int64_t channels, int64_t width, const float* v, bool begins, float* m,
              int64_t m_step, const float* ahead) = nullptr;
  /// Sum of x[i] * y[i].
  float (*dot)(const float* x, const float* y, int64_t n) = nullptr;

  /// Input pixels along a side.
  int side() const { return tile + 2; }
  /// Elements of a transformed tile, each of which is a matrix product of its own.
  int positions() const { return side() * side(); }
};

constexpr int kMaxWinogradTile = 4, kMaxWinogradPositions = 36;
constexpr int kFewTiles = 4, kFewChannels = 32;

/// F(2x2, 3x3), with the points 0, 1, -1 and infinity.
const WinogradTransforms& winograd_2x2_f32(Isa isa);
/// F(4x4, 3x3), with the points 0, 5/8, -5/8, 3/2, -3/2 and infinity.
const WinogradTransforms& winograd_4x4_f32(Isa isa);
/// F(2x2, 3x3) of words for gemm_bf16(). Precondition: isa has kBf16.
const WinogradTransforms& winograd_2x2_bf16(Isa isa);

}  // namespace smelt
