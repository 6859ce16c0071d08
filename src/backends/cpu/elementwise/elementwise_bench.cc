#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(elementwise) {
  const Shape image{1, 56, 56, 64}, block{1, 56, 56, 24};
  const auto unary = [&](UnaryAttrs a, const Tensor& x, const ValueType& y = {}) {
    cases.add({Cat(to_string(a.fn), '/', to_string(x.dtype())), Op::kUnary, make_attrs<UnaryAttrs>(a), {x}, {}, {y}});
  };
  const auto binary = [&](Binary fn, const Tensor& a, const Tensor& b, const ValueType& y = {},
                          Rounding rounding = Rounding::kFloatHalfEven) {
    BinaryAttrs attrs(fn);
    attrs.rounding = rounding;
    OpCase c{Cat(to_string(fn), '/', to_string(a.dtype()), a.shape().str(), b.shape().str()),
             Op::kBinary,
             make_attrs<BinaryAttrs>(attrs),
             {a, b},
             {},
             {y}};
    if (b.shape().rank() == 0) c.constants = {1};
    cases.add(c);
  };
  for (const Unary fn : {Unary::kHardSwish, Unary::kGelu, Unary::kTanh, Unary::kSigmoid, Unary::kExp})
    unary(UnaryAttrs(fn), f32(image));
  const Tensor i8 = random_quantized(DType::kI8, block, 0.05f, 3, 1),
               i16 = random_quantized(DType::kI16, block, 3e-4f, 0, 1);
  const Tensor f16 = random_tensor(DType::kF16, block, -2, 2, 1);
  unary(UnaryAttrs(Unary::kSigmoid), i8, quantized_type(DType::kI8, 1.0f / 256, -128));
  unary(UnaryAttrs(Unary::kGelu), f16);
  unary(UnaryAttrs(Unary::kAbs), random_tensor(DType::kI64, block, -9, 9, 1));
  unary(UnaryAttrs(Unary::kAbs), Tensor(DType::kC64, block), ValueType::tensor(DType::kF32));
  UnaryAttrs leaky(Unary::kLeakyRelu, 0.1);
  leaky.rounding = Rounding::kFixedDouble;
  unary(leaky, i16, quantized_type(DType::kI16, 3e-4f, 0));
  for (const Binary fn : {Binary::kAdd, Binary::kMul}) {
    binary(fn, f32(block), f32(block, 2));
    binary(fn, f32(block), f32({24}, 2));
    binary(fn, i8, i8, ValueType::tensor(DType::kI8, {}, per_tensor(0.1f, 1)));
    for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kXnnpack})
      binary(fn, i8, i8, quantized_type(DType::kI8, 0.1f, 1), rounding);
    binary(fn, random_tensor(DType::kI32, block, -9, 9, 1), random_tensor(DType::kI32, block, -9, 9, 2));
  }
  binary(Binary::kAdd, f16, f16);
  binary(Binary::kMax, i8, i8, ValueType::tensor(DType::kI8, {}, per_tensor(0.1f, 1)));
  binary(Binary::kPow, f32(block), Tensor::from<float>(DType::kF32, {}, std::vector<float>{2}));
  binary(Binary::kPow, random_tensor(DType::kF32, block, 0.1, 6, 1), f32(block));
  FixedScaleAttrs scale;
  scale.multipliers.assign(64, 1 << 30);
  scale.shifts.assign(64, -9);
  scale.axis = 1;
  scale.min = -128;
  scale.max = 127;
  cases.add({"fixed_scale/int8",
             Op::kFixedScale,
             make_attrs<FixedScaleAttrs>(scale),
             {random_tensor(DType::kI32, {1, 64, 25, 5}, -1e5, 1e5, 1)}});
  cases.add({"table_find",
             Op::kTableFind,
             make_attrs<NoAttrs>(),
             {i8, random_tensor(DType::kI8, {256}, -128, 127, 1), random_tensor(DType::kI8, {256}, -128, 127, 2),
              random_tensor(DType::kI8, {1}, 0, 0, 3)},
             {1, 2, 3}});
  cases.add({"where",
             Op::kWhere,
             make_attrs<NoAttrs>(),
             {random_tensor(DType::kBool, block, 0, 1, 1), f32(block), f32(block, 2)}});
  cases.add({"cast/uint8_to_float32",
             Op::kCast,
             make_attrs<CastAttrs>(DType::kF32),
             {random_tensor(DType::kU8, image, 0, 255, 1)}});
}

}  // namespace smelt::bench
