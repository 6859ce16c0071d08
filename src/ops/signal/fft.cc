#include "ops/signal/fft.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace smelt {
namespace {

using Complex = std::complex<double>;

void radix2(std::vector<Complex>& x, bool inverse) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  std::vector<Complex> roots(n / 2 + 1);
  for (size_t i = 0; i < n / 2; ++i)
    roots[i] = std::polar(1.0, (inverse ? 2 : -2) * M_PI * static_cast<double>(i) / static_cast<double>(n));
  for (size_t half = 1; half < n; half *= 2)
    for (size_t start = 0; start < n; start += 2 * half)
      for (size_t k = 0; k < half; ++k) {
        const Complex a = x[start + k], b = x[start + k + half] * roots[k * (n / (2 * half))];
        x[start + k] = a + b;
        x[start + k + half] = a - b;
      }
}

}  // namespace

void fft(std::vector<Complex>& x, bool inverse) {
  const size_t n = x.size();
  if (n < 2) return;
  if ((n & (n - 1)) == 0) return radix2(x, inverse);
  // A convolution with a chirp: jk = (j^2 + k^2 - (k - j)^2) / 2.
  size_t size = 1;
  while (size < 2 * n - 1) size *= 2;
  std::vector<Complex> chirp(n), a(size), b(size);
  for (size_t k = 0; k < n; ++k) {
    const auto square = static_cast<uint64_t>(static_cast<unsigned __int128>(k) * k % (2 * n));
    chirp[k] = std::polar(1.0, (inverse ? 1 : -1) * M_PI * static_cast<double>(square) / static_cast<double>(n));
    a[k] = x[k] * chirp[k];
    b[k] = std::conj(chirp[k]);
    if (k > 0) b[size - k] = b[k];
  }
  radix2(a, false);
  radix2(b, false);
  for (size_t i = 0; i < size; ++i) a[i] *= b[i];
  radix2(a, true);
  for (size_t k = 0; k < n; ++k) x[k] = a[k] * chirp[k] / static_cast<double>(size);
}

}  // namespace smelt
