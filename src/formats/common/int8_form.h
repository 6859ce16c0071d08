#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "smelt/tensor.h"

namespace smelt::formats {

/// The quantization of values that have `by` more in each element and mean the same.
QuantPtr shifted_quant(const QuantPtr& quant, int32_t by);
/// The uint8 tensor with 128 less in each element, as int8, without quantization.
Tensor int8_of_uint8(const Tensor& t);
/// True if a value is quantized to 8 bits or less.
bool is_byte(const Value& v);
/// True if all such values of a module are uint8 with one scale, and the weights of a product of such have another zero
/// point than 128: int8 weights have none.
bool has_shifted_uint8_weights(const Module& module);

}  // namespace smelt::formats
