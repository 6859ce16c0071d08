#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanLegalizeTypes : public VulkanTest {};

bool unsigned_type(DType t) { return is_integer(t) && !is_signed_integer(t); }

constexpr Tolerance kBf16{2e-2, 1e-2};

AttrsPtr binary(Binary fn) {
  BinaryAttrs a;
  a.fn = fn;
  return make_attrs<BinaryAttrs>(a);
}

AttrsPtr unary(Unary fn) {
  UnaryAttrs a;
  a.fn = fn;
  return make_attrs<UnaryAttrs>(a);
}

Tensor ints(const std::vector<double>& v) { return tensor(DType::kI64, Shape{static_cast<int64_t>(v.size())}, v); }

TEST_F(VulkanLegalizeTypes, BrainFloats) {
  const Tensor x = random_tensor(DType::kBF16, {3, 8}, -2, 2, 1), y = random_tensor(DType::kBF16, {3, 8}, 1, 2, 2);
  check_on_gpu({"unary", Op::kUnary, unary(Unary::kTanh), {x}}, "legalized_types", kBf16);
  check_on_gpu({"binary", Op::kBinary, binary(Binary::kDiv), {x, y}}, "legalized_types", kBf16);
  check_on_gpu({"comparison", Op::kBinary, binary(Binary::kLess), {x, y}}, "legalized_types");
  check_on_gpu({"constant", Op::kBinary, binary(Binary::kMul), {x, y}, {1}}, "legalized_types", kBf16);
  check_on_gpu({"softmax", Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}}, "legalized_types", kBf16);
  ReduceAttrs sum;
  sum.fn = Reduction::kSum;
  check_on_gpu({"sum", Op::kReduce, make_attrs<ReduceAttrs>(sum), {x, ints({1})}, {1}}, "legalized_types", kBf16);
  check_on_gpu({"product", Op::kMatMul, make_attrs<MatMulAttrs>(), {x, random_tensor(DType::kBF16, {8, 5}, -1, 1, 3)}},
               "legalized_types", {5e-2, 2e-2});
  check_on_gpu({"product with weights",
                Op::kMatMul,
                make_attrs<MatMulAttrs>(),
                {x, random_tensor(DType::kBF16, {8, 24}, -1, 1, 3)},
                {1}},
               "legalized_types", {5e-2, 2e-2});
  check_on_gpu(
      {"convolution",
       Op::kConv,
       make_attrs<ConvAttrs>(),
       {random_tensor(DType::kBF16, {1, 4, 6, 7}, -1, 1, 4), random_tensor(DType::kBF16, {5, 4, 3, 3}, -1, 1, 5)},
       {1}},
      "legalized_types", {5e-2, 2e-2});
}

TEST_F(VulkanLegalizeTypes, NarrowIntegers) {
  for (DType dtype : {DType::kI16, DType::kU16, DType::kU32}) {
    const double low = unsigned_type(dtype) ? 0 : -300;
    const Tensor x = random_tensor(dtype, {4, 9}, low, 300, 1), y = random_tensor(dtype, {4, 9}, 1, 40, 2);
    for (Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kDiv, Binary::kMin, Binary::kLess,
                      Binary::kBitXor, Binary::kMod})
      check_on_gpu({Cat(to_string(fn), " ", to_string(dtype)), Op::kBinary, binary(fn), {x, y}}, "legalized_types");
    check_on_gpu({Cat("abs ", to_string(dtype)), Op::kUnary, unary(Unary::kAbs), {x}},
                 dtype == DType::kU32 ? "legalized_types" : "lookup_table");
  }
}

TEST_F(VulkanLegalizeTypes, Reductions) {
  for (DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kBool, DType::kI64})
    for (Reduction fn : {Reduction::kMax, Reduction::kMin}) {
      ReduceAttrs a;
      a.fn = fn;
      const double low = dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI64 ? -100 : 0;
      const Tensor x = random_tensor(dtype, {3, 130, 4}, low, dtype == DType::kBool ? 1 : 100, 1);
      check_on_gpu(
          {Cat(to_string(fn), " ", to_string(dtype)), Op::kReduce, make_attrs<ReduceAttrs>(a), {x, ints({1})}, {1}},
          dtype == DType::kI64 ? "reduce" : "legalized_types");
    }
  for (Reduction fn : {Reduction::kSum, Reduction::kMean, Reduction::kProd, Reduction::kL1, Reduction::kSumSquare}) {
    ReduceAttrs a;
    a.fn = fn;
    const Tensor wide = random_tensor(DType::kI64, {3, 130, 4}, -3e9, 3e9, 1);
    check_on_gpu({to_string(fn), Op::kReduce, make_attrs<ReduceAttrs>(a), {wide, ints({0, 1})}, {1}}, "reduce");
    a.accumulate = DType::kI64;
    const Tensor x = random_tensor(DType::kI32, {3, 130, 4}, -2e9, 2e9, 1);
    check_on_gpu(
        {Cat(to_string(fn), " of int32 in int64"), Op::kReduce, make_attrs<ReduceAttrs>(a), {x, ints({1})}, {1}},
        "legalized_types");
  }
}

TEST_F(VulkanLegalizeTypes, QuantizedMaximum) {
  ReduceAttrs a;
  a.fn = Reduction::kMax;
  Tensor x = random_tensor(DType::kI8, {3, 9}, -128, 127, 1);
  x.set_quant(per_tensor(0.1f, 3));
  ValueType y = ValueType::tensor(DType::kI8);
  y.quant = x.quant();
  check_on_gpu({"equal quantization", Op::kReduce, make_attrs<ReduceAttrs>(a), {x, ints({1})}, {1}, {y}},
               "legalized_types");
}

/// Real values of stored integers: what the reference kernel computes, but for ties.
TEST_F(VulkanLegalizeTypes, QuantizedSoftmax) {
  Tensor x = random_tensor(DType::kU8, {3, 9}, 0, 255, 1);
  x.set_quant(per_tensor(0.05f, 100));
  ValueType y = ValueType::tensor(DType::kU8);
  y.quant = per_tensor(1.0f / 256, 0);
  check_on_gpu({"softmax", Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}, {}, {y}}, "legalized_types");
}

TEST_F(VulkanLegalizeTypes, Casts) {
  const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kI16,
                         DType::kU16, DType::kU32, DType::kI8,   DType::kU8,  DType::kBool};
  for (DType from :
       {DType::kI16, DType::kU16, DType::kU32, DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64})
    for (DType to : types) {
      if (from == to) continue;
      const bool one_sign = unsigned_type(from) || unsigned_type(to);
      const Tensor x = random_tensor(from, {70}, one_sign ? 0 : -100, 100, 1);
      check_on_gpu({Cat(to_string(from), " to ", to_string(to)), Op::kCast, make_attrs<CastAttrs>(to), {x}}, "cast");
    }
}

TEST_F(VulkanLegalizeTypes, Int64Sort) {
  const Tensor x = random_tensor(DType::kI64, {3, 70}, -4e9, 4e9, 1);
  check_on_gpu({.label = "sort",
                .op = Op::kSort,
                .attrs = make_attrs<SortAttrs>(),
                .inputs = {x},
                .outputs = std::vector<ValueType>(2)},
               "sort");
  for (bool min : {false, true}) {
    ArgReduceAttrs a;
    a.min = min;
    a.axis = 1;
    check_on_gpu({"arg", Op::kArgReduce, make_attrs<ArgReduceAttrs>(a), {x}}, "arg_reduce");
  }
  CumulativeAttrs c;
  check_on_gpu({"running sum", Op::kCumulative, make_attrs<CumulativeAttrs>(c), {x, ints({1})}, {1}}, "cumulative");
}

}  // namespace
}  // namespace smelt::vulkan
