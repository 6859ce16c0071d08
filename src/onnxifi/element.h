#pragma once

#include <onnxifi.h>

#include "smelt/tensor.h"

namespace smelt::onnxifi {

/// Number of an ONNX element type as DType; kInvalid when descriptors may not carry it.
DType element_type(onnxEnum type);
/// The number for a DType; UNDEFINED when descriptors may not carry it.
onnxEnum element_number(DType dtype);
/// What the address of elements must be a multiple of.
size_t element_alignment(DType dtype);

}  // namespace smelt::onnxifi
