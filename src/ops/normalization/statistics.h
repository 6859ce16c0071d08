#pragma once

#include <cmath>
#include <cstdint>

namespace smelt {

struct Moments {
  double mean = 0, variance = 0;  ///< population variance
};

/// Moments of n values, `step` apart.
template <class T>
Moments moments(const T* x, int64_t n, int64_t step = 1) {
  Moments m;
  if (n == 0) return m;
  for (int64_t i = 0; i < n; ++i) m.mean += static_cast<double>(x[i * step]);
  m.mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i * step]) - m.mean;
    m.variance += d * d;
  }
  m.variance /= static_cast<double>(n);
  return m;
}

/// Mean of the squares of n consecutive values.
template <class T>
double mean_square(const T* x, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; ++i) s += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return n ? s / static_cast<double>(n) : 0;
}

}  // namespace smelt
