#pragma once

#include <complex>
#include <vector>

namespace smelt {

/// Discrete Fourier transform of any length, in place and without scaling; `inverse` turns the sign of the exponent.
/// Powers of two use radix 2, other lengths Bluestein's algorithm.
void fft(std::vector<std::complex<double>>& x, bool inverse);

}  // namespace smelt
