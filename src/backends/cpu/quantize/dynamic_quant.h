#pragma once

#include <cmath>
#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "ops/common/dynamic_quant.h"
#include "ops/core/node_spec.h"

namespace smelt {

/// A quantization parameters of 8-bit integers, or of 16-bit ones.
struct QuantRule {
  float scale = 1;
  int32_t zero = 0, low = -128, high = 127;
  bool is_signed = true;
  bool wide = false;        ///< 16 bits
  bool away = false;        ///< ties away from zero, else to even
  bool reciprocal = false;  ///< x * (1 / scale) instead of x / scale
  bool factor = false;      ///< x * scale
  bool in_range = false;    ///< every x is a number, and saturation to the type is all that its integer needs
};

/// The entries that an integer type has, on a quantization parameters of scale 1.
QuantRule quant_rule(DType dtype);
/// A quantized value of one set of quantization parameters. Precondition: is_per_tensor(t.quant).
QuantRule quant_rule(const ValueType& t);

/// The rule of a row that is quantized at run time, x * factor to int8 from `low` on.
inline QuantRule row_rule(float factor, int32_t zero, int32_t low) {
  const bool in_range = std::isfinite(factor);  // that of subnormal numbers is not
  return {.scale = factor, .zero = zero, .low = low, .away = true, .factor = true, .in_range = in_range};
}

/// The type of a float32 value once it is quantized at run time: int8, its scale and zero point not known yet.
ValueType dynamically_quantized(const ValueType& x);

/// True if QuantizeLinear or DequantizeLinear has one scale and zero point, known now.
bool has_constant_per_tensor_params(const NodeSpec& spec);

/// The int8 quantization parameters of finite values within [low, high], and the rule by which quantize() gives their
/// integers. False if they are zeros alone.
bool params_of_range(float low, float high, bool asymmetric, QuantParams* params, QuantRule* rule);

/// How columns of accumulators become real numbers.
struct AccumulatorScales {
  const int32_t* column_sums;  ///< null: zero points are 0
  const float* scales;
  const float* bias;               ///< null: none
  bool first = true, last = true;  ///< of the addends of an output: else it is added to; at the end bias and clamp
  float lo, hi;

  AccumulatorScales columns(int64_t from) const {
    AccumulatorScales s = *this;
    if (s.column_sums) s.column_sums += from;
    s.scales += from;
    if (s.bias) s.bias += from;
    return s;
  }
};

/// Vector versions of quantize_row (ops/common/dynamic_quant.h), equal to it bit by bit, and of the rescaling of its
/// products.
struct DynamicQuantOps {
  /// Smallest and largest of n values and zero; NaN is ignored, or gives NaN for both.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  /// Smallest and largest of n > 0 values. False if one is infinite or NaN.
  bool (*finite_range)(const float* x, int64_t n, float* low, float* high);
  /// Rows of n accumulators, `stride` apart, to rows of y, `y_stride` apart:
  /// y[j] (+)= float(accumulators[j] - zero_point * column_sums[j]) * scale * scales[j]. quantization parameters: of
  /// the rows, `params_step` apart.
  void (*rescale)(const AccumulatorScales& by, const int32_t* acc, int64_t stride, int64_t rows,
                  const QuantParams* params, int64_t params_step, int64_t n, float* y, int64_t y_stride);

  /// out[i] = clamp(round(x[i] / scale) + zero, low, high); NaN gives 0. Wide quantization parameters: 16-bit entries
  /// of out.
  void (*quantize)(const float* x, int64_t n, const QuantRule& params, uint8_t* out);
  /// out[i] = factor * (scale * (x[i] - zero)).
  void (*dequantize)(const uint8_t* x, int64_t n, const QuantRule& params, float factor, float* out);

  /// The quantization parameters of a row of n values, and the rule by which quantize() gives its int8 values. False if
  /// the row has no values, zeros alone or any that is infinite or NaN: quantize_rows() quantizes it all the same.
  bool (*choose_params)(const float* x, int64_t n, bool asymmetric, QuantParams* params, QuantRule* rule);
  /// Rows of n values to rows of `out`, `stride` apart, and their quantization parameters.
  void (*quantize_rows)(const float* x, int64_t rows, int64_t n, bool asymmetric, int8_t* out, int64_t stride,
                        QuantParams* params);

  /// Blocks of a row of n values, each on its own quantization parameters: as quantize_block
  /// (ops/common/dynamic_quant.h), and accumulators of what is quantized.
  void (*quantize_blocks)(const float* x, int64_t n, int64_t block, int8_t* out, float* scales, int32_t* acc);
  /// Accumulators of blocks of n quantized values.
  void (*sum_blocks)(const int8_t* x, int64_t n, int64_t block, int32_t* acc);
  void (*sum_real_blocks)(const float* x, int64_t n, int64_t block, float* acc);

  QuantParams quantize_row(const float* x, int64_t n, bool asymmetric, int8_t* out) const {
    QuantParams params;
    quantize_rows(x, 1, n, asymmetric, out, n, &params);
    return params;
  }
};
const DynamicQuantOps& dynamic_quant_ops(Isa isa);

}  // namespace smelt
