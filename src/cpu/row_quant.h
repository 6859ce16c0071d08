#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "ops/common/hybrid.h"
#include "ops/node_spec.h"

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
/// A quantized value of one grid. Precondition: on_one_grid(t.quant).
Grid grid_of(const ValueType& t);

/// Whether QuantizeLinear or DequantizeLinear has one scale and zero point, known now.
bool one_known_grid(const NodeSpec& spec);

/// Vector versions of quantize_row (ops/common/hybrid.h), equal to it bit by bit, and of the rescaling of its products.
struct RowQuant {
  /// Smallest and largest of n > 0 values; NaN is ignored or spreads.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  /// y[j] (+)= float(sums[j] - zero * column_sums[j]) * row_scale * scales[j]; adds `bias` (null: none) and clamps when
  /// `last`.
  void (*rescale)(const int32_t* sums, int32_t zero, const int32_t* column_sums, float row_scale, const float* scales,
                  const float* bias, bool first, bool last, float lo, float hi, int64_t n, float* y);

  /// out[i] = clamp(round(x[i] / scale) + zero, low, high); NaN gives 0. Wide grids: 16-bit entries of out.
  void (*to_grid)(const float* x, int64_t n, const Grid& grid, uint8_t* out);
  /// out[i] = factor * (scale * (x[i] - zero)).
  void (*from_grid)(const uint8_t* x, int64_t n, const Grid& grid, float factor, float* out);

  RowGrid quantize_row(const float* x, int64_t n, bool asymmetric, int8_t* out) const;
};
const RowQuant& row_quant(Isa isa);

}  // namespace smelt
