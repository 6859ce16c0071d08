#pragma once

#include <complex>
#include <optional>

#include "ops/elementwise/elementwise.h"

namespace smelt {

/// The function on one real number; functions that give bool give 0 or 1. T: float, double.
template <class T>
T unary_real(const UnaryAttrs& attrs, T x);

/// The function on one integer, before the result wraps to its element type.
int64_t unary_int(const UnaryAttrs& attrs, int64_t x);

/// The function on one complex number; nullopt if it is not defined on complex numbers.
std::optional<std::complex<double>> unary_complex(Unary fn, std::complex<double> x);

/// True if the function's result is of type kBool.
bool gives_bool(Unary fn);

double digamma(double x);

}  // namespace smelt
