#pragma once

#include <cstdint>

#include "smelt/tensor.h"

namespace smelt::formats {

/// The quantization of values that have `by` more in each element and mean the same.
QuantPtr shifted_quant(const QuantPtr& quant, int32_t by);
/// The uint8 tensor with 128 less in each element, as int8, without quantization.
Tensor int8_of_uint8(const Tensor& t);

}  // namespace smelt::formats
