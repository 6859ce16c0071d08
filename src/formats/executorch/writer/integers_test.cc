// Nodes whose integers a program gives exactly: each as it is and as a program, on the reference kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "convert/convert.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::OpCase;

/// Integers of the program, which are those of the node. Empty where it has none.
std::vector<double> expect_equal_integers(const OpCase& c, const char* delegate) {
  SCOPED_TRACE(std::string(c.label) + ", delegate " + delegate);
  const Model model = ModelAccess::make(test::one_node(c));
  const auto back = test::rewritten(model, "pte", {.write = {.delegate = delegate}});
  EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().message());
  if (!back.ok()) return {};
  Tensor integers = c.inputs[0];
  integers.set_quant(nullptr);
  const auto want = test::run_on_reference(model, {c.inputs[0]}), got = test::run_on_reference(*back, {integers});
  EXPECT_EQ(test::values(got[0].tensor), test::values(want[0].tensor));
  return test::values(got[0].tensor);
}

std::vector<ValueType> result(DType dtype, float scale, int32_t zero_point) {
  ValueType t = ValueType::tensor(dtype);
  t.quant = test::per_tensor(scale, zero_point);
  return {t};
}

TEST(ProgramIntegers, ConvolutionsOfInt16) {
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  a.pads = {1, 0, 0, 1};
  a.rounding = Rounding::kFixedDouble;
  Tensor filter = test::random_tensor(DType::kI8, {3, 3, 3, 16}, -127, 127, 2);
  filter.set_quant(test::per_axis({0.01f, 0.02f, 0.005f}, 0));
  const Tensor image = test::random_quantized(DType::kI16, {1, 7, 6, 16}, 0.001f, 0, 1);
  const Tensor bias = test::random_tensor(DType::kI64, {3}, -500000, 500000, 4);
  for (const Activation act : {Activation{}, Activation{ActKind::kRelu6}}) {
    a.act = act;
    for (const char* delegate : {"none", "xnnpack"}) {
      const auto y = expect_equal_integers(
          {"conv", Op::kConv, make_attrs<ConvAttrs>(a), {image, filter, bias}, {}, result(DType::kI16, 0.01f, 0)},
          delegate);
      EXPECT_GT(std::ranges::count_if(y, [](double v) { return v > 100; }), 10);
    }
  }
}

/// One call, whose limits are the node's own.
TEST(ProgramIntegers, QuantizationOfARange) {
  QuantizeLinearAttrs a;
  a.to = DType::kI8;
  a.reciprocal = true;
  a.quant_min = -100;
  a.quant_max = 90;
  const OpCase c{
      "quantize",
      Op::kQuantizeLinear,
      make_attrs<QuantizeLinearAttrs>(a),
      {test::random_tensor(DType::kF32, {4, 50}, -4, 4, 1), test::f32({}, 2), test::tensor(DType::kI8, {}, {3})},
      {1, 2}};
  const Model model = ModelAccess::make(test::one_node(c));
  for (const char* delegate : {"none", "xnnpack"}) {
    const auto y = expect_equal_integers(c, delegate);
    const auto back = test::rewritten(model, "pte", {.write = {.delegate = delegate}});
    ASSERT_TRUE(back.ok());
    const auto& nodes = module_of(*back).graphs[0].nodes;
    ASSERT_EQ(nodes.size(), 1u);
    const auto& read = static_cast<const QuantizeLinearAttrs&>(*nodes[0].attrs);
    EXPECT_EQ(read.quant_min, -100);
    EXPECT_EQ(read.quant_max, 90);
    EXPECT_TRUE(read.reciprocal);
  }
  a.quant_min = a.quant_max = 0;  // the whole range of the type is none of the node's own
  const OpCase whole{c.label, c.op, make_attrs<QuantizeLinearAttrs>(a), c.inputs, c.constants};
  const auto back = test::rewritten(ModelAccess::make(test::one_node(whole)), "pte", {.write = {.delegate = "none"}});
  ASSERT_TRUE(back.ok());
  const auto& read = static_cast<const QuantizeLinearAttrs&>(*module_of(*back).graphs[0].nodes[0].attrs);
  EXPECT_EQ(read.quant_min, read.quant_max);
}

TEST(ProgramIntegers, MeansRoundTiesAwayFromZero) {
  PoolAttrs a;
  a.kind = PoolKind::kAverage;
  a.kernel = {2, 2};
  a.strides = {2, 2};
  a.layout = Layout::kChannelsLast;
  a.rounding = Rounding::kFixedDouble;
  const Tensor image = test::quantized(DType::kI8, {1, 2, 4, 1}, {1, 2, -1, -2, 2, 1, -2, -1}, 0.07f, 3);
  for (const char* delegate : {"none", "xnnpack"})
    EXPECT_EQ(expect_equal_integers(
                  {"mean", Op::kPool, make_attrs<PoolAttrs>(a), {image}, {}, result(DType::kI8, 0.07f, 3)}, delegate),
              (std::vector<double>{2, -2}));
}

TEST(ProgramIntegers, SumsThatAModelRoundsOnce) {
  BinaryAttrs add(Binary::kAdd);
  const Tensor x = test::random_tensor(DType::kI8, {1, 300}, -128, 127, 1);
  Tensor a = x, b = test::random_tensor(DType::kI8, {1, 300}, -128, 127, 2);
  a.set_quant(test::per_tensor(0.05f, 3));
  b.set_quant(test::per_tensor(0.07f, -9));
  expect_equal_integers({"add", Op::kBinary, make_attrs<BinaryAttrs>(add), {a, b}, {}, result(DType::kI8, 0.11f, 5)},
                        "xnnpack");
}

}  // namespace
}  // namespace smelt
