#pragma once

#include <complex>

#include "ops/elementwise/elementwise.h"

namespace smelt {

/// The function on one real number. Instantiated for float and double. Functions that give bool give 0 or 1.
template <class T>
T unary_real(const UnaryAttrs& attrs, T x);

/// The function on one integer (of 64 bits, before it wraps to its element type).
int64_t unary_int(const UnaryAttrs& attrs, int64_t x);

/// The function on one complex number; false when the function is not defined on complex numbers.
bool unary_complex(Unary fn, std::complex<double> x, std::complex<double>& y);

/// Whether the function gives kBool.
bool gives_bool(Unary fn);

double digamma(double x);

}  // namespace smelt
