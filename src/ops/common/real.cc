#include "ops/common/real.h"

#include "tensor/numeric.h"

namespace smelt {

std::vector<float> to_real_vector(const Tensor& t) {
  std::vector<float> v(static_cast<size_t>(t.elements()));
  if (is_quantized(t))
    dequantize(t, v.data());
  else
    to_floats(t, v.data());
  return v;
}

void store_real(const float* values, Tensor& t) {
  if (is_quantized(t))
    quantize(values, t, t.quant()->rounding != Rounding::kFloatHalfEven);
  else
    from_floats(values, t);
}

}  // namespace smelt
