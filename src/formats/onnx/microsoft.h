#pragma once

#include "formats/onnx/lower.h"
#include "formats/onnx/quant_helpers.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::onnx {

ValueId binary(NodeContext& n, Binary fn, ValueId a, ValueId b);
ValueId unary(NodeContext& n, Unary fn, ValueId x, double a = 0, double b = 0);

}  // namespace smelt::onnx
