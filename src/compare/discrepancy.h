#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// Real values of a tensor of numbers or bools, quantized or not. Empty for other element types.
std::vector<float> reals(const Tensor& t);

/// How far the values of one tensor are from those that another one has in the same place.
struct Discrepancy {
  int64_t count = 0;         ///< elements that are finite in both
  int64_t mismatched = 0;    ///< elements that are finite in one alone, or infinities of different sign
  double max_abs = 0;        ///< largest absolute difference
  double rms = 0;            ///< root mean square of the differences
  double mean = 0;           ///< mean difference, second less first
  double mean_abs = 0;       ///< mean absolute difference
  double signal = 0;         ///< root mean square of the first
  double signal_max = 0;     ///< largest magnitude of the first
  bool comparable = true;    ///< false: shapes or element types that do not go together
  std::string problem = {};  ///< why, if not comparable

  /// rms / signal; 0 where both are 0, infinite where only the signal is.
  double relative() const;
  /// Signal to quantization noise ratio in dB; infinite for equal values.
  double sqnr() const;
};
Discrepancy discrepancy(std::span<const float> first, std::span<const float> second);

/// Sums up the discrepancy of values that come some at a time.
class DiscrepancySum {
 public:
  /// Values in the same places. Unlike numbers of them: the whole is not comparable.
  void add(std::span<const float> first, std::span<const float> second);
  Discrepancy result() const;

 private:
  Discrepancy sums_;  ///< mean and mean_abs: sums
  double squares_ = 0, signal_ = 0;
};

/// What two values may differ by and count as equal.
struct Tolerance {
  std::optional<double> relative;  ///< of Discrepancy::relative(); nullopt: by element type
  double absolute = 0;             ///< root mean square that is always accepted
};

/// The discrepancy as a multiple of what is tolerated between values of these types: above 1 is too much. Quantized
/// values with equal parameters may differ by a step here and there; floats by rounding of the narrower type; a
/// quantized value from a real one by some steps.
double excess(const Discrepancy& d, const Tensor& first, const Tensor& second, const Tolerance& tolerance);

/// Counts of finite values in equal bins over [low, high].
struct Histogram {
  double low = 0, high = 0;
  std::vector<int64_t> counts;  ///< empty: no bins yet
  /// Counts values. Precondition: there are bins, and the values are within the range.
  void count(std::span<const float> values);
};

/// The range of finite values that come some at a time.
class Extent {
 public:
  void add(std::span<const float> values);
  /// Empty bins over the range; over [0, 0] without values.
  Histogram bins(size_t number = 32) const;

 private:
  double low_ = 0, high_ = 0;
  bool any_ = false;
};

}  // namespace smelt
