#pragma once

#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

// The ai.onnx.ml operators; the structs of the larger ones are added with their kernels.

}  // namespace smelt
