#pragma once

#include <span>
#include <vector>

#include "ops/common/fixed_point.h"
#include "ops/common/operands.h"
#include "ops/common/rescale_rule.h"

namespace smelt {

/// True if a tensor holds quantized integers of one scale, or of one scale for each slice along `axis`.
bool has_integer_quant_params(const Tensor& t, int axis);

/// Subtracts the zero points of t's quantization from `values`, its integers widened to T (modulo 2^bits).
template <class T>
void subtract_own_zero_points(const Tensor& t, T* values);

/// Subtracts zero points given as a tensor: one for all, or one for each index along `axis`.
Status subtract_zero_points(const Tensor& zero_points, uint32_t* values, const Shape& shape, int axis);

/// The factors of a rescaling, channel by channel. The scales of `x`, `w` and `out` must outlive it.
class RescaleFactors {
 public:
  RescaleFactors(const Quantization& x, const Quantization& w, float out_scale, const RescaleRule& rule)
      : x_(x.scales[0]), w_(w.scales), out_(out_scale), rule_(rule) {}
  size_t size() const { return w_.size(); }  ///< they repeat along the channels
  /// Real value of one unit of an accumulator.
  double accumulator_scale(size_t i) const { return static_cast<double>(x_) * w_[i] * rule_.alpha; }
  /// Accumulator units to output units.
  float factor(size_t i) const { return static_cast<float>(rule_.alpha) * x_ * w_[i] / out_; }
  double double_factor(size_t i) const {
    const double product =
        rule_.float_scale_product ? static_cast<double>(x_ * w_[i]) * rule_.alpha : accumulator_scale(i);
    return product / static_cast<double>(out_);
  }

 private:
  float x_;
  std::span<const float> w_;
  float out_;
  RescaleRule rule_;
};

/// The reference requantization: turns the integer accumulators of a Conv or MatMul into any kind of output, with bias,
/// rescaling, zero point and activation. Kernels of back-ends take its common case from RequantizeParams
/// (ops/common/requantize_params.h).
class Requantizer {
 public:
  /// `channels`: accumulators in a row; the scales of `w` and the entries of `bias` repeat along it. `out` is
  /// quantized, floating-point, or of unquantized integers, which take the accumulators unscaled.
  static Result<Requantizer> make(const Tensor& x, const Tensor& w, const Tensor* bias, const Tensor& out,
                                  int64_t channels, const RescaleRule& rule);
  /// As make(), without what there is of every channel.
  static Result<Requantizer> make_outline(const Tensor& x, const Tensor& w, const Tensor* bias, const Tensor& out,
                                          int64_t channels, const RescaleRule& rule);

  /// True if accumulators must have 64 bits (16-bit activations); 32 bits otherwise, as in TFLite and XNNPACK.
  bool wide() const { return wide_; }
  /// True if the output is floating-point: use to_real(), otherwise to_quantized().
  bool real() const { return real_; }
  /// True if the output is clamp(rescale(accumulator + bias) + zero) of 32-bit accumulators, which the accessors below
  /// describe.
  bool integer_only() const { return !real_ && !unscaled_ && !wide_ && !through_real_; }
  /// True if the output is that expression with rescale by fixed() or double_factors(), of 64-bit accumulators if
  /// wide().
  bool fixed_point() const { return !real_ && !unscaled_ && !through_real_ && rounding_ != Rounding::kFloatHalfEven; }
  const std::vector<int64_t>& bias() const { return bias_; }                     ///< empty, one, or one a channel
  const std::vector<float>& factors() const { return factors_; }                 ///< repeat along the channels
  const std::vector<FixedFactor>& fixed() const { return fixed_; }               ///< factors() in fixed point
  const std::vector<double>& double_factors() const { return double_factors_; }  ///< factors() in float64
  int64_t zero() const { return zero_; }
  int64_t low() const { return low_; }
  int64_t high() const { return high_ < low_ ? low_ : high_; }
  template <class T>
  void to_real(const T* accumulators, int64_t rows, float* out) const;
  template <class T>
  void to_quantized(const T* accumulators, int64_t rows, uint64_t* out) const;

 private:
  template <class T>
  int64_t biased(T accumulator, int64_t channel) const;
  double real_value(int64_t accumulator, int64_t channel) const;
  int64_t quantized_value(int64_t accumulator, int64_t channel) const;

  int64_t channels_ = 0;
  bool wide_ = false, real_ = false, unscaled_ = false, through_real_ = false;
  bool real_bias_given_ = false;
  Activation act_;
  Rounding rounding_ = Rounding::kFloatHalfEven;
  std::vector<int64_t> bias_;               ///< in units of the accumulators; empty: none
  std::vector<double> real_bias_;           ///< real numbers; empty: none
  std::vector<double> accumulator_scales_;  ///< real value of one unit of an accumulator
  std::vector<float> factors_;              ///< accumulator units to output units
  std::vector<FixedFactor> fixed_;
  std::vector<double> double_factors_;
  double out_scale_ = 1;
  int64_t zero_ = 0, low_ = 0, high_ = 0;
};

}  // namespace smelt
