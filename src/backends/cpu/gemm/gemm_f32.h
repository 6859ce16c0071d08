#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Where the elements of a's rows lie: `count` runs of `length` neighbours, run r `at[r]` floats behind the row's
/// start.
struct GemmRuns {
  const ptrdiff_t* at;
  ptrdiff_t count, length;
};

/// Float32 matrix product c = clamp(a b + bias) in tiles of mr rows by nr columns of b's panels.
///
/// b is packed in panels of nr = 2 * lanes columns (the last one of `lanes` columns when that is enough). A panel is
/// one row of bias and then k rows of b, each as wide as the panel; missing columns are zero.
struct GemmF32 {
  /// One tile. a: starts of rows, `lda` apart. b: one panel. c: rows `ldc` apart, the first n columns of the panel
  /// are written. row_bias: one addend a row of c, instead of the panel's bias row; null: none.
  using Tile = void (*)(const GemmRuns& runs, const float* a, ptrdiff_t lda, const float* b, float* c, ptrdiff_t ldc,
                        ptrdiff_t n, const float* row_bias, float lo, float hi);
  int64_t mr = 0;
  int64_t lanes = 0;
  Tile tiles[2][16] = {};  ///< [panel width / lanes - 1][rows - 1]
  /// rows[i * w + j] = b[i * stride_k + j * stride_n] * alpha for i < k, j < used.
  void (*pack_columns)(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t used, float alpha,
                       float* rows, int64_t w) = nullptr;

  int64_t nr() const { return 2 * lanes; }
  int64_t panels(int64_t n) const { return (n + nr() - 1) / nr(); }
  /// Columns of panel p of n, as quantized.
  int64_t width(int64_t n, int64_t p) const { return n - p * nr() <= lanes ? lanes : nr(); }
  /// Floats of all panels of a k x n matrix.
  int64_t packed_size(int64_t k, int64_t n) const {
    return n == 0 ? 0 : (k + 1) * ((panels(n) - 1) * nr() + width(n, panels(n) - 1));
  }
  int64_t panel_offset(int64_t k, int64_t p) const { return p * (k + 1) * nr(); }
  /// Packs b[i * stride_k + j * stride_n] * alpha, and bias (null: zeros) * beta, into dst.
  void pack(const float* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t n, const float* bias, float* dst,
            float alpha = 1, float beta = 1) const;
  /// Rows [0, m) times the panels [first, last) of the packed b with n columns. c points at column 0 of panel 0.
  void run(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* packed, int64_t first,
           int64_t last, float* c, int64_t ldc, const float* row_bias, float lo, float hi) const;
  /// Height of tiles, none much lower than the others, that cover so many rows.
  int64_t even_height(int64_t rows) const {
    const int64_t tall = (rows + mr - 1) / mr;
    return (rows + tall - 1) / tall;
  }
  /// m rows, in tiles of `height`, times panel p of the packed b with n columns.
  void panel(const GemmRuns& runs, int64_t m, int64_t height, int64_t n, const float* a, int64_t lda,
             const float* packed, int64_t p, float* c, int64_t ldc, const float* row_bias, float lo, float hi) const;
};

const GemmF32& gemm_f32(Isa isa);

}  // namespace smelt
