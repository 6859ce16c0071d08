#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"

namespace smelt {
namespace {

using test::random_tensor;

QuantPtr tflite_params(float scale, int32_t zero) {
  auto q = std::make_shared<Quantization>(*test::per_tensor(scale, zero));
  q->rounding = Rounding::kFixedDouble;
  return q;
}

ValueType bytes(const Shape& shape, float scale, int32_t zero) {
  return ValueType::tensor(DType::kI8, shape, tflite_params(scale, zero));
}

struct Operand {
  ValueType type;
  Tensor constant = {};  ///< undefined: an input of the graph
  bool absent = false;
};

/// A module of one node with the last operands as constants.
std::shared_ptr<Module> module_of(Op op, const AttrsPtr& attrs, const std::vector<Operand>& in, const ValueType& out,
                                  const char* format = "tflite") {
  auto module = std::make_shared<Module>();
  module->format = format;
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  std::vector<ValueId> ids;
  for (const Operand& o : in)
    ids.push_back(o.absent ? kNoValue : o.constant.defined() ? b.constant("c", o.constant) : b.input("x", o.type));
  const ValueId y = b.value("y", out);
  EXPECT_TRUE(b.node_to(op, attrs, ids, {y}).ok());
  b.graph().outputs = {y};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

Tensor result(std::shared_ptr<const Module> module, const std::vector<Tensor>& in) {
  auto session = Session::create(ModelAccess::make(std::move(module)), {.backend = BackendKind::kReference});
  EXPECT_TRUE(session.ok());
  auto out = session->run(std::vector<Datum>(in.begin(), in.end()));
  EXPECT_TRUE(out.ok()) << out.error().message();
  return out->front().tensor;
}

Tensor row(const std::vector<int8_t>& v) {
  return Tensor::from<int8_t>(DType::kI8, Shape{static_cast<int64_t>(v.size())}, v);
}

/// The results for int8 rows before and behind the pass.
void expect_rows(const std::shared_ptr<Module>& module, const std::vector<Tensor>& in,
                 const std::vector<int8_t>& reference, const std::vector<int8_t>& xnnpack) {
  const auto values = [](const Tensor& t) {
    return std::vector<int8_t>(t.data<int8_t>(), t.data<int8_t>() + t.elements());
  };
  EXPECT_EQ(values(result(module, in)), reference);
  EXPECT_EQ(values(result(litert_xnnpack(module), in)), xnnpack);
}

template <class A>
AttrsPtr by_tflite(A a) {
  a.rounding = Rounding::kFixedDouble;
  return make_attrs<A>(std::move(a));
}

/// Sums in halves: TFLite rounds -93.5 away from zero, XNNPACK up.
TEST(LiteRtXnnpack, SumsRoundTiesUp) {
  const auto module = module_of(Op::kBinary, by_tflite(BinaryAttrs(Binary::kAdd)),
                                {{bytes({4}, 0.5f, -5)}, {bytes({4}, 0.25f, 3)}}, bytes({4}, 1.0f, 1));
  expect_rows(module, {row({-128, -127, 0, 127}), row({-125, -125, 3, 1})}, {-93, -92, 4, 67}, {-92, -92, 4, 67});
}

/// (p + 5) * (q - 3) / 32: TFLite rounds halves away from zero, XNNPACK to even.
TEST(LiteRtXnnpack, ProductsRoundTiesToEven) {
  const auto module = module_of(Op::kBinary, by_tflite(BinaryAttrs(Binary::kMul)),
                                {{bytes({3}, 0.5f, -5)}, {bytes({3}, 0.25f, 3)}}, bytes({3}, 4.0f, 1));
  expect_rows(module, {row({-127, -126, 11}), row({-5, -13, 4})}, {32, 62, 2}, {31, 61, 1});
}

/// The factor 0.3 becomes 77 / 256. 118 * 0.3 is 35.4, which TFLite's two roundings make 36.
TEST(LiteRtXnnpack, ConversionsHaveEightFractionalBits) {
  const auto module = module_of(Op::kQuantize, make_attrs<NoAttrs>(), {{bytes({3}, 0.3f, 0)}}, bytes({3}, 1.0f, 0));
  expect_rows(module, {row({118, -118, 127})}, {36, -36, 38}, {35, -35, 38});
  const auto narrow = module_of(Op::kQuantize, make_attrs<NoAttrs>(), {{bytes({2}, 0.0137f, 0)}}, bytes({2}, 1.0f, 0));
  // 110 * 0.0137 = 1.507, but 110 * 4 / 256 = 1.72 and 96 * 4 / 256 = 1.5 where 96 * 0.0137 = 1.315.
  expect_rows(narrow, {row({110, 96})}, {2, 1}, {2, 2});
}

TEST(LiteRtXnnpack, NodesTakeItsRounding) {
  const auto rounding_of = [](const Module& m) {
    return static_cast<const ReduceAttrs&>(*m.graphs[0].nodes[0].attrs).rounding;
  };
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  Tensor axes = Tensor::from<int64_t>(DType::kI64, Shape{1}, std::vector<int64_t>{1});
  const auto make = [&](const char* format) {
    return module_of(Op::kReduce, by_tflite(mean), {{bytes({2, 6}, 0.1f, 0)}, {{}, axes}}, bytes({2}, 0.05f, 2),
                     format);
  };
  EXPECT_EQ(rounding_of(*litert_xnnpack(make("tflite"))), Rounding::kXnnpack);
  const auto onnx = make("onnx");
  EXPECT_EQ(litert_xnnpack(onnx), onnx);
}

/// Sums of 6 and of 2 divided by 4, plus a zero point of 1: TFLite rounds halves away from zero before it adds the zero
/// point, XNNPACK to even behind it.
TEST(LiteRtXnnpack, MeansRoundBehindTheZeroPoint) {
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  const Tensor axes = Tensor::from<int64_t>(DType::kI64, Shape{1}, std::vector<int64_t>{0});
  const auto module = module_of(Op::kReduce, by_tflite(mean), {{bytes({2}, 0.5f, 0)}, {{}, axes}}, bytes({1}, 1.0f, 1));
  expect_rows(module, {row({3, 3})}, {3}, {2});
  expect_rows(module, {row({1, 1})}, {2}, {2});
}

/// The value between -1 and 0: TFLite rounds it away from zero, XNNPACK up.
TEST(LiteRtXnnpack, ImagesRoundTiesUp) {
  ResizeAttrs resize;
  resize.mode = ResizeAttrs::Mode::kLinear;
  resize.coord = ResizeAttrs::Coord::kAsymmetric;
  resize.axes = {1, 2};
  resize.tflite = true;
  const Tensor size = Tensor::from<int64_t>(DType::kI64, Shape{2}, std::vector<int64_t>{1, 4});
  const ValueType x = bytes({1, 1, 2, 1}, 0.5f, 0), y = bytes({1, 1, 4, 1}, 0.5f, 0);
  const auto module = module_of(Op::kResize, by_tflite(resize), {{x}, {{}, {}, true}, {{}, {}, true}, {{}, size}}, y);
  expect_rows(module, {row({-1, 0}).reshaped({1, 1, 2, 1})}, {-1, -1, 0, 0}, {-1, 0, 0, 0});
}

/// Float32 rows times int8 weights: the rows are quantized one by one, the pixels of a pointwise convolution too.
TEST(LiteRtXnnpack, DynamicQuantizationByRows) {
  Tensor w = random_tensor(DType::kI8, {5, 1, 1, 8}, -127, 127, 2);
  w.set_quant(test::per_tensor(0.01f, 0));
  const Tensor x = random_tensor(DType::kF32, {1, 3, 2, 8}, -2, 3, 1);
  const ValueType in = ValueType::tensor(DType::kF32, Shape{1, 3, 2, 8}),
                  out = ValueType::tensor(DType::kF32, {1, 3, 2, 5});
  ConvAttrs conv;
  conv.strides = conv.dilations = {1, 1};
  conv.auto_pad = AutoPad::kSameUpper;
  conv.layout = Layout::kChannelsLast;
  conv.filter = FilterLayout::kOSI;
  conv.dynamic_quant = true;
  const auto of_pixels = litert_xnnpack(module_of(Op::kConv, by_tflite(conv), {{in}, {{}, w}}, out));
  MatMulAttrs product;
  product.transpose_b = product.dynamic_quant = product.flatten_a = true;
  const auto of_rows = litert_xnnpack(module_of(Op::kMatMul, by_tflite(product), {{in}, {{}, w.reshaped({5, 8})}},
                                                ValueType::tensor(DType::kF32, {6, 5})));
  EXPECT_EQ(of_pixels->graphs[0].nodes.size(), 2U);
  EXPECT_EQ(of_rows->graphs[0].nodes.size(), 3U);  // with the reshape to rows
  const Tensor y = result(of_pixels, {x}), z = result(of_rows, {x});
  test::expect_near(y, test::values(z.reshaped(y.shape())), 0, 0);
  // Each row is closer to the real product than one step of a row's own range, which is at most 5 / 255.
  for (int64_t p = 0; p < 6; ++p)
    for (int64_t o = 0; o < 5; ++o) {
      double real = 0;
      for (int64_t i = 0; i < 8; ++i) real += double{x.data<float>()[p * 8 + i]} * w.data<int8_t>()[o * 8 + i] * 0.01;
      EXPECT_NEAR(y.data<float>()[p * 5 + o], real, 8 * 1.27 * 5 / 255 / 2);
    }
}

}  // namespace
}  // namespace smelt
