#pragma once

#include "formats/onnx/writer/op_writers.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::onnx {

void write_unary(NodeWriter& n);
void write_binary(NodeWriter& n);
/// A function of x; kNoName if ONNX has no form of it.
Name unary_form(NodeWriter& n, const UnaryAttrs& a, Name x, DType dtype);

}  // namespace smelt::onnx
