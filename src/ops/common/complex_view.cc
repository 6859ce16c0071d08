#include "ops/common/complex_view.h"

#include "tensor/numeric.h"

namespace smelt {

std::complex<double> get_complex(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kC64) return t.data<std::complex<float>>()[i];
  if (t.dtype() == DType::kC128) return t.data<std::complex<double>>()[i];
  return get_double(t, i);
}

void set_complex(Tensor& t, int64_t i, std::complex<double> value) {
  if (t.dtype() == DType::kC64)
    t.data<std::complex<float>>()[i] = std::complex<float>(value);
  else if (t.dtype() == DType::kC128)
    t.data<std::complex<double>>()[i] = value;
  else
    set_double(t, i, value.real());
}

}  // namespace smelt
