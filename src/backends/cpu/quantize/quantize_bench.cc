#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(quantize) {
  const Shape block{1, 56, 56, 24};
  const auto quantize = [&](const char* label, const Tensor& x, const ValueType& y) {
    cases.add({Cat("quantize/", label), Op::kQuantize, make_attrs<NoAttrs>(), {x}, {}, {y}});
  };
  const auto dequantize = [&](const char* label, const Tensor& x) {
    cases.add(
        {Cat("dequantize/", label), Op::kDequantize, make_attrs<NoAttrs>(), {x}, {}, {ValueType::tensor(DType::kF32)}});
  };
  const Tensor bytes = random_quantized(DType::kI8, block, 0.37f, -3, 1),
               words = random_quantized(DType::kI16, block, 3e-4f, 0, 1);
  quantize("qint8_to_qint8", bytes, ValueType::tensor(DType::kI8, {}, per_tensor(0.3f, 5)));
  quantize("qint16_to_qint8", words, quantized_type(DType::kI8, 0.1f, 3));
  quantize("float32_to_qint8", f32(block), quantized_type(DType::kI8, 0.05f, 3));
  quantize("float16_to_qint8", random_tensor(DType::kF16, block, -2, 2, 1), quantized_type(DType::kI8, 0.05f, 3));
  auto token = std::make_shared<Quantization>();
  token->kind = Quantization::Kind::kPerToken;
  token->axis = 1;
  quantize("float32_to_qint8_per_token", f32({128, 768}), ValueType::tensor(DType::kI8, {}, token));
  dequantize("qint8", bytes);
  dequantize("quint8", random_quantized(DType::kU8, block, 0.05f, 3, 1));
  dequantize("qint16", words);
  DynamicQuantizeAttrs dynamic;
  cases.add({"dynamic_quantize", Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(dynamic), {f32({128, 768})}});
  const auto linear = [&](Op op, DType to, const Tensor& x, DType quantized, bool run_time = false) {
    QuantizeLinearAttrs a;
    a.to = to;
    cases.add({Cat(op_info(op).name, '/', to_string(x.dtype()), "_to_", to_string(to), run_time ? "_run_time" : ""),
               op,
               make_attrs<QuantizeLinearAttrs>(a),
               {x, random_tensor(DType::kF32, {}, 0.05, 0.05, 1), random_tensor(quantized, {}, 7, 7, 1)},
               run_time ? std::vector<size_t>{} : std::vector<size_t>{1, 2}});
  };
  linear(Op::kQuantizeLinear, DType::kU8, f32(block), DType::kU8);
  for (const DType quantized : {DType::kU8, DType::kI16})
    linear(Op::kDequantizeLinear, DType::kF32, random_tensor(quantized, block, 0, 127, 1), quantized);
  linear(Op::kDequantizeLinear, DType::kF32, random_tensor(DType::kU8, block, 0, 127, 1), DType::kU8, true);
}

}  // namespace smelt::bench
