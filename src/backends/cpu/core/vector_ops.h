#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Rows of n > 0 neighbours, `step` elements apart, and what is added to them, `added_step` apart; null: nothing is.
struct ScoreRows {
  int64_t step, rows, n;
  const float* added = nullptr;
  int64_t added_step = 0;
};

/// Vector loops over rows of numbers.
struct VectorOps {
  /// y[c] = max or sum over t of taps[t][c]; count > 0. NaN wins a maximum.
  void (*max_taps)(const float* const* taps, int64_t count, int64_t n, float* y);
  void (*sum_taps)(const float* const* taps, int64_t count, int64_t n, float* y);
  void (*max_taps_i8)(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, uint8_t* y);
  void (*sum_taps_i8)(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, int32_t* y);
  void (*add)(const float* x, int64_t n, float* y);  ///< y += x
  /// Copies lines of n elements that lie x_step and y_step apart.
  void (*copy_lines)(const float* x, int64_t x_step, int64_t lines, int64_t n, float* y, int64_t y_step);
  void (*softcap)(float* x, int64_t n, float cap);  ///< x = cap * tanh(x / cap)
  /// x = clamp(x * scale, lo, hi), NaN stays.
  void (*scale_clamp)(float* x, int64_t n, float scale, float lo, float hi);
  float (*reduce_max)(const float* x, int64_t n);  ///< NaN wins; n > 0
  /// y[r] = sum of row r of x [rows, n] / divisor; n > 0
  void (*mean_rows)(const float* x, int64_t rows, int64_t n, double divisor, float* y);
  double (*reduce_sum_squares)(const float* x, int64_t n);  ///< sum of squares
  /// Rows of n > 0 neighbours: y = softmax(beta * x), or its logarithm; beta >= 0.
  void (*softmax)(const float* x, int64_t rows, int64_t n, float beta, bool logarithm, float* y);
  /// x = e^(s - largest s) or softmax(s) of each row, s = x + added. factors[r]: what makes a softmax of row r, 1 / its
  /// sum or 1.
  void (*exponentials)(const ScoreRows& rows, float* x, float* factors);
  /// y = (x - mean) / sqrt(variance + epsilon) * scale + bias; rms: without the mean. scale and bias may be null.
  void (*layer_norm)(const float* x, int64_t n, double epsilon, bool rms, const float* scale, const float* bias,
                     float* y);
};
const VectorOps& vector_ops(Isa isa);

}  // namespace smelt
