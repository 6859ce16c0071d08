#pragma once

#include <vector>

#include "formats/onnx/lower.h"

namespace smelt::onnx {

/// Node inputs that hold a quantized operand: quantized integers, scale, zero point (-1: none).
struct QuantArg {
  int x = -1, scale = -1, zero_point = -1;
};

/// The quantization that constant scale and zero point describe; null when one of them is computed or they do not fit.
/// Several scales run along `axis`.
QuantPtr const_quant(NodeContext& n, int scale, int zero_point, int axis = 0);

/// The operand as real numbers.
ValueId dequantized(NodeContext& n, const QuantArg& arg, int64_t axis = 1);
/// Quantizes a real value with the parameters of `arg` (x unused). Without a zero point the type is `fallback`.
ValueId quantized(NodeContext& n, ValueId real, const QuantArg& arg, DType fallback);

/// Element type of quantized results: the zero point's, else `fallback`.
DType quantized_type(NodeContext& n, int zero_point, DType fallback);

/// An operator on quantized operands: with constant parameters on typed quantized values, else through real numbers.
/// `rest` are further real inputs that follow the operands. Binds output 0.
void emit_quantized(NodeContext& n, Op op, const AttrsPtr& attrs, const std::vector<QuantArg>& args,
                    const QuantArg& out, const std::vector<ValueId>& rest = {});

/// The integers of `bits` bits that lie in the bytes of the last axis, lowest first: int32 [..., 8 / bits * bytes].
ValueId unpack_bits(NodeContext& n, ValueId bytes, int64_t bits);
/// x[..., 0:count].
ValueId first_of_last(NodeContext& n, ValueId x, int64_t count);

}  // namespace smelt::onnx
