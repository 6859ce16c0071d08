#include "tensor/pages.h"

#include <cstdint>
#include <vector>

#include "tensor/numeric.h"

namespace smelt {

Tensor as_float32(const Tensor& narrow) {
  if (narrow.bytes() > kWorthDeferring)
    return Tensor::deferred(
        DType::kF32, narrow.shape(), narrow, [](const Tensor& from, int64_t first, int64_t count, void* to) {
          std::vector<uint16_t> bits(static_cast<size_t>(count));
          from.copy_elements(first, count, bits.data());
          to_floats(Tensor::view(from.dtype(), Shape{count}, bits.data(), nullptr), static_cast<float*>(to));
        });
  Tensor real(DType::kF32, narrow.shape());
  to_floats(narrow, real.data<float>());
  return real;
}

}  // namespace smelt
