#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// One pass of a mixed-radix transform (Stockham, decimation in frequency): `blocks` butterflies of `radix` entries
/// each, which are `stride` * lines numbers long.
struct FftStage {
  int64_t radix, blocks, stride;
  std::vector<double> twiddles;  ///< [blocks][radix - 1] pairs: exp(-2 pi i p k / (blocks * radix))
};

/// Discrete Fourier transforms of one length in float64, several lines at once. Entry k of line l lies at
/// k * lines + l of an array of real and one of imaginary parts.
class Fft {
 public:
  Fft(int64_t length, Isa isa);
  int64_t length() const { return length_; }
  /// Numbers of scratch memory that forward() takes.
  int64_t work_size(int64_t lines) const;
  /// X_k = sum over j of x_j exp(-2 pi i j k / length), in place. With `re` and `im` exchanged it is the inverse
  /// transform times `length`.
  void forward(double* re, double* im, int64_t lines, double* work) const;

 private:
  void set_up_chirp(Isa isa);
  void by_chirp(double* re, double* im, int64_t lines, double* work) const;

  int64_t length_;
  std::vector<FftStage> stages_;  ///< empty: length 1, or a convolution with a chirp
  /// Bluestein's algorithm, for lengths with a large prime factor: jk = (j^2 + k^2 - (k - j)^2) / 2 makes the transform
  /// a convolution of the length of `convolution_`.
  std::unique_ptr<Fft> convolution_;
  std::vector<double> chirp_, filter_;  ///< pairs: exp(-pi i k^2 / length); the filter's transform / its length
  void (*stage_)(const FftStage&, const double*, const double*, double*, double*, int64_t);
  void (*multiply_)(const double* factors, int64_t entries, int64_t lines, double* re, double* im);
};

/// The transform of real lines of an even length from that of half the length: entry k of `re`, `im` (length / 2
/// entries) is the transform of x_2j + i x_2j+1. Writes length / 2 + 1 entries to `to_re`, `to_im`.
class RealFftTail {
 public:
  RealFftTail(int64_t length, Isa isa);
  void apply(const double* re, const double* im, int64_t lines, double* to_re, double* to_im) const;

 private:
  int64_t half_;
  std::vector<double> twiddles_;  ///< pairs: exp(-2 pi i k / length), k <= length / 2
  void (*tail_)(const double*, const double*, const double*, int64_t, int64_t, double*, double*);
};

}  // namespace smelt
