#pragma once

#include <vector>

#include "ops/common/enums.h"
#include "ops/common/fixed_point.h"
#include "ops/common/operands.h"

namespace smelt {

/// Whether a tensor holds stored integers of one scale, or of one scale for each slice along `axis`.
bool has_integer_quant_params(const Tensor& t, int axis);

/// Subtracts the zero points of t's quantization from its stored integers (modulo 2^bits).
template <class T>
void subtract_own_zero_points(const Tensor& t, T* values);

/// Subtracts zero points given as a tensor: one for all, or one for each index along `axis`.
Status subtract_zero_points(const Tensor& zero_points, uint32_t* values, const Shape& shape, int axis);

/// Turns integer sums of products into an output: bias, rescaling, zero point, activation.
class Requantizer {
 public:
  /// `channels`: entries of a row of sums; scales of `w` and entries of `bias` repeat along it. The output is quantized
  /// integers, real numbers, or plain integers (which take the sums as they are).
  static Result<Requantizer> make(const Tensor& x, const Tensor& w, const Tensor* bias, const Tensor& out,
                                  int64_t channels, const Activation& act, Rounding rounding, double alpha = 1);

  /// Sums must be taken in 64 bits (16-bit activations), else in 32 bits as the peers do.
  bool wide() const { return wide_; }
  /// The output takes real numbers: use to_real, else to_stored.
  bool real() const { return real_; }
  /// The output takes stored integers by 32-bit sums, factors and a clamp alone, which the accessors below describe:
  /// stored = clamp(rescale(sum + bias) + zero). Then faster kernels can do the same.
  bool integer_only() const { return !real_ && !plain_ && !wide_ && !through_real_; }
  /// The same by fixed() alone, of sums of 64 bits where they are wide().
  bool fixed_point() const { return !real_ && !plain_ && !through_real_ && rounding_ != Rounding::kFloatHalfEven; }
  const std::vector<int64_t>& bias() const { return bias_; }        ///< empty, one, or one a channel
  const std::vector<float>& factors() const { return factors_; }    ///< repeat along the channels
  const std::vector<FixedFactor>& fixed() const { return fixed_; }  ///< the same in fixed point
  int64_t zero() const { return zero_; }
  int64_t low() const { return low_; }
  int64_t high() const { return high_ < low_ ? low_ : high_; }
  template <class T>
  void to_real(const T* sums, int64_t rows, float* out) const;
  template <class T>
  void to_stored(const T* sums, int64_t rows, uint64_t* out) const;

 private:
  template <class T>
  int64_t biased(T sum, int64_t channel) const;
  double real_value(int64_t sum, int64_t channel) const;
  int64_t stored_value(int64_t sum, int64_t channel) const;

  int64_t channels_ = 0;
  bool wide_ = false, real_ = false, plain_ = false, through_real_ = false;
  Activation act_;
  Rounding rounding_ = Rounding::kFloatHalfEven;
  std::vector<int64_t> bias_;       ///< in units of the sums; empty: none
  std::vector<double> real_bias_;   ///< real numbers; empty: none
  std::vector<double> sum_scales_;  ///< real value of one unit of a sum
  std::vector<float> factors_;      ///< sum units to output units
  std::vector<FixedFactor> fixed_;
  double out_scale_ = 1;
  int64_t zero_ = 0, low_ = 0, high_ = 0;
};

}  // namespace smelt
