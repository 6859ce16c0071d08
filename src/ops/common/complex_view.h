#pragma once

#include <complex>

#include "smelt/tensor.h"

namespace smelt {

/// Element i of a complex tensor, or of a real one as complex.
std::complex<double> get_complex(const Tensor& t, int64_t i);
/// Writes to a complex tensor, or the real part to a real one.
void set_complex(Tensor& t, int64_t i, std::complex<double> value);

}  // namespace smelt
