// Quantization operators of ai.onnx.
#include "formats/onnx/attr_readers.h"
#include "formats/onnx/ops.h"
#include "formats/onnx/quant_helpers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"

namespace smelt::onnx {
namespace {

void lower_dynamic_quantize(NodeContext& n) { n.emit(Op::kDynamicQuantize, DynamicQuantizeAttrs(), {n.in(0)}, 3); }

void lower_qlinear_matmul(NodeContext& n) {
  const auto b_scales = n.const_floats(4);
  const bool per_tensor = b_scales && b_scales->size() == 1;
  if (per_tensor) return emit_quantized(n, Op::kMatMul, make_attrs<MatMulAttrs>(), {{0, 1, 2}, {3, 4, 5}}, {-1, 6, 7});
  const ValueId a = dequantized(n, {0, 1, 2}, 0);
  const ValueId b = dequantized(n, {3, 4, 5}, std::max(0, n.rank(n.in(3)) - 1));
  n.bind(0, quantized(n, n.add(Op::kMatMul, MatMulAttrs(), {a, b}), {-1, 6, 7}, DType::kU8));
}

constexpr OpEntry kOps[] = {
    {"QuantizeLinear", 10, lower_quantize_linear},         {"DequantizeLinear", 10, lower_dequantize_linear},
    {"DynamicQuantizeLinear", 11, lower_dynamic_quantize}, {"QLinearConv", 10, lower_qlinear_conv},
    {"QLinearMatMul", 10, lower_qlinear_matmul},
};

/// Integer bias of a quantized convolution, with the scale that follows from x and the filter.
ValueId typed_bias(NodeContext& n, int index, const QuantPtr& x, const QuantPtr& w) {
  Quantization q;
  q.kind = w->kind;
  q.axis = 0;
  for (const float s : w->scales) q.scales.push_back(x->scale() * s);
  return n.typed(index, std::make_shared<const Quantization>(std::move(q)));
}

}  // namespace

void lower_quantize_linear(NodeContext& n) {
  QuantizeLinearAttrs a;
  a.axis = n.i("axis", 1);
  a.block = n.i("block_size", 0);
  a.saturate = n.flag("saturate", true);
  if (a.block < 0) return n.fail("block_size is ", a.block);
  const int64_t code = n.i("output_dtype", 0);
  a.to = code != 0 ? dtype_of(code) : quantized_type(n, 2, DType::kU8);
  if (a.to == DType::kInvalid) return n.fail("output_dtype names no element type");
  if (n.has(2) && n.dtype(n.in(2)) != DType::kInvalid && n.dtype(n.in(2)) != a.to)
    return n.fail("the zero point is ", to_string(n.dtype(n.in(2))), ", output_dtype is ", to_string(a.to));
  n.emit(Op::kQuantizeLinear, a, n.operands(2, 3));
}

void lower_dequantize_linear(NodeContext& n) {
  QuantizeLinearAttrs a;
  a.axis = n.i("axis", 1);
  a.block = n.i("block_size", 0);
  if (a.block < 0) return n.fail("block_size is ", a.block);
  const int64_t code = n.i("output_dtype", 0);
  const DType scale = n.dtype(n.in(1));
  a.to = code != 0 ? dtype_of(code) : scale == DType::kInvalid ? DType::kF32 : scale;
  if (a.to == DType::kInvalid) return n.fail("output_dtype names no element type");
  n.emit(Op::kDequantizeLinear, a, n.operands(2, 3));
}

void lower_qlinear_conv(NodeContext& n) {
  ConvAttrs a;
  read_conv(n, n.in(0), n.in(3), a);
  if (n.flag("channels_last")) a.layout = Layout::kChannelsLast;
  const QuantPtr x = const_quant(n, 1, 2), w = const_quant(n, 4, 5, 0), y = const_quant(n, 6, 7);
  if (x && w && y && x->scales.size() == 1 && y->scales.size() == 1) {
    std::vector<ValueId> in{n.typed(0, x), n.typed(3, w)};
    if (n.has(8)) in.push_back(typed_bias(n, 8, x, w));
    ValueType type;
    type.dtype = quantized_type(n, 7, n.dtype(n.in(0)));
    type.quant = y;
    return n.bind_typed(0, n.add_as(Op::kConv, a, in, type));
  }
  std::vector<ValueId> in{dequantized(n, {0, 1, 2}), dequantized(n, {3, 4, 5}, 0)};
  if (n.has(8)) {
    const ValueId scale = n.binary(Binary::kMul, n.in(1), n.in(4));
    const ValueId bias = n.cast(n.in(8), DType::kF32);
    in.push_back(n.binary(Binary::kMul, bias, scale));
  }
  n.bind(0, quantized(n, n.add(Op::kConv, a, in), {-1, 6, 7}, DType::kU8));
}

std::span<const OpEntry> quant_ops() { return kOps; }

}  // namespace smelt::onnx
