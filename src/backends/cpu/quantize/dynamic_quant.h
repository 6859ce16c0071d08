#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "ops/common/dynamic_quant.h"
#include "ops/core/node_spec.h"

namespace smelt {

/// A grid of 8-bit integers, or of 16-bit ones.
struct Grid {
  float scale = 1;
  int32_t zero = 0, low = -128, high = 127;
  bool is_signed = true;
  bool wide = false;        ///< 16 bits
  bool away = false;        ///< ties away from zero, else to even
  bool reciprocal = false;  ///< x * (1 / scale) instead of x / scale
  bool factor = false;      ///< x * scale
};

/// The entries that an integer type has, on a grid of scale 1.
Grid grid_of(DType dtype);
/// A quantized value of one grid. Precondition: is_per_tensor(t.quant).
Grid grid_of(const ValueType& t);

/// Whether QuantizeLinear or DequantizeLinear has one scale and zero point, known now.
bool one_known_grid(const NodeSpec& spec);

/// How columns of sums become real numbers.
struct SumScales {
  const int32_t* column_sums;  ///< null: zero points are 0
  const float* scales;
  const float* bias;               ///< null: none
  bool first = true, last = true;  ///< of the addends of an output: else it is added to; at the end bias and clamp
  float lo, hi;

  SumScales columns(int64_t from) const {
    SumScales s = *this;
    if (s.column_sums) s.column_sums += from;
    s.scales += from;
    if (s.bias) s.bias += from;
    return s;
  }
};

/// Vector versions of quantize_row (ops/common/dynamic_quant.h), equal to it bit by bit, and of the rescaling of its
/// products.
struct RowQuant {
  /// Smallest and largest of n > 0 values; NaN is ignored or spreads.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  /// Rows of n sums, `stride` apart, to rows of y, `y_stride` apart:
  /// y[j] (+)= float(sums[j] - zero_point * column_sums[j]) * scale * scales[j]. grids: of the rows, `grid_step` apart.
  void (*rescale)(const SumScales& by, const int32_t* sums, int64_t stride, int64_t rows, const QuantParams* grids,
                  int64_t grid_step, int64_t n, float* y, int64_t y_stride);

  /// out[i] = clamp(round(x[i] / scale) + zero, low, high); NaN gives 0. Wide grids: 16-bit entries of out.
  void (*to_grid)(const float* x, int64_t n, const Grid& grid, uint8_t* out);
  /// out[i] = factor * (scale * (x[i] - zero)).
  void (*from_grid)(const uint8_t* x, int64_t n, const Grid& grid, float factor, float* out);

  /// Rows of n values to rows of `out`, `stride` apart, and their grids.
  void (*quantize_rows)(const float* x, int64_t rows, int64_t n, bool asymmetric, int8_t* out, int64_t stride,
                        QuantParams* grids);

  /// Blocks of a row of n values, each on its own grid: as quantize_block (ops/common/dynamic_quant.h), and sums of
  /// what is stored.
  void (*quantize_blocks)(const float* x, int64_t n, int64_t block, int8_t* out, float* scales, int32_t* sums);
  /// Sums of blocks of n stored values.
  void (*sum_blocks)(const int8_t* x, int64_t n, int64_t block, int32_t* sums);
  void (*sum_real_blocks)(const float* x, int64_t n, int64_t block, float* sums);

  QuantParams quantize_row(const float* x, int64_t n, bool asymmetric, int8_t* out) const {
    QuantParams grid;
    quantize_rows(x, 1, n, asymmetric, out, n, &grid);
    return grid;
  }
};
const RowQuant& row_quant(Isa isa);

}  // namespace smelt
