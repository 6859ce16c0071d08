#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cpu/signal/fft.h"
#include "base/thread_pool.h"

namespace smelt {

/// Lines of numbers in an array: entry k of line l lies at l / inner * outer_stride + l % inner * line_stride + k *
/// entry_stride, counted in numbers. A complex number is two elements of the array, a real one is one.
struct Lines {
  int64_t inner = 1, outer_stride = 0, line_stride = 0, entry_stride = 1;
  bool complex = false;
  int64_t start(int64_t line) const { return line / inner * outer_stride + line % inner * line_stride; }
};

struct LineTransformShape {
  int64_t lines = 0;
  int64_t length = 0;  ///< of the transform
  int64_t used = 0;    ///< entries read of each line; the others are zero. At most `length`
  int64_t kept = 0;    ///< entries written of each line; at most `length`
  bool inverse = false;
  bool half_input = false;  ///< the entries are the first half of a conjugate-symmetric spectrum
  double scale = 1;         ///< factor on the result
  Lines in, out;            ///< a result written as real numbers loses its imaginary parts
};

/// Discrete Fourier transforms of all lines of an array, in float64.
class LineTransform {
 public:
  LineTransform(const LineTransformShape& shape, Isa isa, int threads);
  size_t workspace_bytes() const;
  /// `window`: factors on the entries, [used]; nullptr: none. `workspace`: workspace_bytes() bytes.
  template <class In, class Out>
  void run(const In* x, const float* window, Out* y, void* workspace, ThreadPool& threads) const;

 private:
  template <class In>
  void load(const In* x, const float* window, int64_t first, int64_t lines, double* re, double* im) const;
  template <class Out>
  void store(const double* re, const double* im, int64_t first, int64_t lines, Out* y) const;

  LineTransformShape s_;
  bool real_;  ///< real lines of even length: a transform of half the length
  Fft fft_;
  std::optional<RealFftTail> tail_;
  int64_t threads_;
  int64_t slot_;  ///< numbers of scratch memory for one thread
};

extern template void LineTransform::run(const float*, const float*, float*, void*, ThreadPool&) const;
extern template void LineTransform::run(const float*, const float*, double*, void*, ThreadPool&) const;
extern template void LineTransform::run(const double*, const float*, float*, void*, ThreadPool&) const;

}  // namespace smelt
