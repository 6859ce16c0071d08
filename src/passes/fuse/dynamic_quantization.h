#pragma once

#include <cstddef>

#include "passes/fuse/pattern.h"

namespace smelt {

/// Makes one DynamicQuantize of the formula of ONNX's DynamicQuantizeLinear whose 8-bit result the Cast at index k
/// gives: scale and zero point from the least and largest value of a whole tensor. True if it did.
bool fuse_dynamic_quantize(Pattern& in, size_t k);

/// Makes one MatMulInteger or ConvInteger of a float32 product of 8-bit integers without their zero point and constant
/// integers, whose result the Cast at index k makes int32. True if it did.
bool fuse_integer_product(Pattern& in, size_t k);

}  // namespace smelt
