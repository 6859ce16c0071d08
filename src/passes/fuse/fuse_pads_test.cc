#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/pool/pool.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {
using test::random_tensor;

struct Case {
  bool quantized = false, channels_last = false, pairs = false, axes = false;
  int64_t value = 0;
};

/// The first result of the model for x. A Pad runs in it unless that `fuses`.
Result<Tensor> result_of(const std::shared_ptr<Module>& module, const Tensor& x, bool fuses) {
  SMELT_TRY(verify(*module));
  SessionOptions options;
  options.profile = true;
  SMELT_ASSIGN(Session session, Session::create(ModelAccess::make(module), options));
  SMELT_ASSIGN(std::vector<Datum> results, session.run(std::vector<Datum>{x}));
  bool pads_alone = false;
  for (const ProfileEntry& e : session.profile()) pads_alone = pads_alone || e.op == "Pad";
  EXPECT_EQ(pads_alone, !fuses);
  return results[0].tensor;
}

ValueId integers(Builder& b, const std::vector<int64_t>& v) {
  return b.constant("", Tensor::from<int64_t>(DType::kI64, {static_cast<int64_t>(v.size())}, v));
}

ValueType quantized_type(DType dtype, QuantPtr quant) {
  ValueType type = ValueType::tensor(dtype);
  type.quant = std::move(quant);
  return type;
}

/// A Pad and a convolution; the Pad's result is an output as well where the two may not become one node.
Result<Tensor> run(const Case& c, bool apart, bool fuses) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const DType t = c.quantized ? DType::kI8 : DType::kF32;
  const auto params = [&](float scale, int32_t zero) {
    return c.quantized ? test::per_tensor(scale, zero) : QuantPtr();
  };
  const Shape shape = c.channels_last ? Shape{1, 7, 6, 4} : Shape{1, 4, 7, 6};
  Tensor x = random_tensor(t, shape, -100, 100, 1);
  x.set_quant(params(0.5f, 7));
  Tensor w = random_tensor(t, c.channels_last ? Shape{5, 3, 3, 4} : Shape{5, 4, 3, 3}, -100, 100, 2);
  w.set_quant(params(0.25f, 0));
  Tensor value = random_tensor(t, Shape{}, static_cast<double>(c.value), static_cast<double>(c.value), 3);
  std::vector<int64_t> pads =
      c.channels_last ? std::vector<int64_t>{0, 2, 1, 0, 0, 0, 3, 0} : std::vector<int64_t>{0, 0, 2, 1, 0, 0, 0, 3};
  std::vector<int64_t> axes = {-1, 2};
  if (c.axes) pads = {1, 2, 3, 0};  // the last dimensions of channels-first
  if (c.pairs) pads = {0, 0, 2, 0, 1, 3, 0, 0};
  PadAttrs pad;
  pad.pairs = c.pairs;
  ConvAttrs conv;
  conv.layout = c.channels_last ? Layout::kChannelsLast : Layout::kChannelsFirst;
  conv.filter = c.channels_last ? FilterLayout::kOSI : FilterLayout::kOIS;
  conv.strides = {2, 1};
  const ValueId padded = b.value("", {}), y = b.value("", {});
  b.graph().value(y).type = quantized_type(t, params(40.f, -3));
  const ValueId in = b.input("x", ValueType::tensor(t, shape, params(0.5f, 7)));
  SMELT_TRY(b.node_to(Op::kPad, make_attrs<PadAttrs>(pad),
                      {in, integers(b, pads), b.constant("", value), c.axes ? integers(b, axes) : kNoValue}, {padded}));
  SMELT_TRY(b.node_to(Op::kConv, make_attrs<ConvAttrs>(conv), {padded, b.constant("", w)}, {y}));
  b.graph().outputs = {y};
  if (apart) b.graph().outputs.push_back(padded);
  return result_of(module, x, fuses);
}

void check(const Case& c, bool fuses) {
  const auto want = run(c, true, false), got = run(c, false, fuses);
  ASSERT_TRUE(want.ok()) << want.error().message();
  ASSERT_TRUE(got.ok()) << got.error().message();
  ASSERT_EQ(want->shape(), got->shape());
  for (int64_t i = 0; i < want->elements(); ++i)
    ASSERT_NEAR(get_double(*want, i), get_double(*got, i), c.quantized ? 0 : 0.05) << "element " << i;
}

TEST(FusePads, Float) {
  check({}, true);
  check({.axes = true}, true);
  check({.channels_last = true}, true);
  check({.channels_last = true, .pairs = true}, true);
}

TEST(FusePads, QuantizedZerosAreTheZeroPoint) {
  check({.quantized = true, .channels_last = true, .pairs = true, .value = 7}, true);
  check({.quantized = true, .value = 7}, true);
}

TEST(FusePads, OtherValuesStay) {
  check({.value = 1}, false);
  check({.quantized = true, .channels_last = true, .value = 0}, false);
}

/// Pad, Reshape of lines to images of one line, convolution, as Conv1D of TFLite has it. `inserts`: Unsqueeze, not
/// Reshape.
Result<Tensor> run_lines(bool quantized, const std::vector<int64_t>& pads, int64_t dilation, bool apart, bool fuses,
                         bool inserts = false) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const DType t = quantized ? DType::kI8 : DType::kF32;
  const auto params = [&](float scale, int32_t zero) { return quantized ? test::per_tensor(scale, zero) : QuantPtr(); };
  Tensor x = random_tensor(t, {1, 50, 6}, -100, 100, 1);
  x.set_quant(params(0.5f, 7));
  Tensor w = random_tensor(t, {5, 1, 3, 6}, -100, 100, 2);
  w.set_quant(params(0.25f, 0));
  PadAttrs pad;
  pad.pairs = true;
  ConvAttrs conv;
  conv.layout = Layout::kChannelsLast;
  conv.filter = FilterLayout::kOSI;
  conv.dilations = {1, dilation};
  conv.auto_pad = AutoPad::kValid;
  const int64_t length = 50 + pads[2] + pads[3];
  const ValueId padded = b.value("", {}), image = b.value("", {}), y = b.value("", {});
  b.graph().value(y).type = quantized_type(t, params(40.f, -3));
  const ValueId in = b.input("x", ValueType::tensor(t, x.shape(), params(0.5f, 7)));
  const ValueId value = b.constant("", random_tensor(t, Shape{}, quantized ? 7 : 0, quantized ? 7 : 0, 3));
  SMELT_TRY(b.node_to(Op::kPad, make_attrs<PadAttrs>(pad), {in, integers(b, pads), value}, {padded}));
  if (inserts)
    SMELT_TRY(b.node_to(Op::kUnsqueeze, make_attrs<NoAttrs>(), {padded, integers(b, {1})}, {image}));
  else
    SMELT_TRY(b.node_to(Op::kReshape, make_attrs<ReshapeAttrs>(), {padded, integers(b, {1, 1, length, 6})}, {image}));
  SMELT_TRY(b.node_to(Op::kConv, make_attrs<ConvAttrs>(conv), {image, b.constant("", w)}, {y}));
  b.graph().outputs = {y};
  if (apart) b.graph().outputs.push_back(image);
  return result_of(module, x, fuses);
}

TEST(FusePads, BeforeAReshapeThatAddsADimension) {
  for (const bool quantized : {false, true})
    for (const auto& [dilation, inserts] : {std::pair{1, false}, {1, true}, {20, false}}) {
      const std::vector<int64_t> causal = {0, 0, 2 * dilation, 0, 0, 0};
      const auto want = run_lines(quantized, causal, dilation, true, false, inserts);
      const auto got = run_lines(quantized, causal, dilation, false, true, inserts);
      ASSERT_TRUE(want.ok()) << want.error().message();
      ASSERT_TRUE(got.ok()) << got.error().message();
      ASSERT_EQ(want->shape(), got->shape());
      for (int64_t i = 0; i < want->elements(); ++i)
        ASSERT_NEAR(get_double(*want, i), get_double(*got, i), quantized ? 0 : 0.05) << "element " << i;
    }
}

TEST(FusePads, MoreThanTheFilterSeesStays) {
  ASSERT_TRUE(run_lines(false, {0, 0, 17, 0, 0, 0}, 1, false, false).ok());
  ASSERT_TRUE(run_lines(false, {0, 0, 0, 16, 0, 0}, 1, false, true).ok());
}

/// A Pad of rows and columns by `pads` and a pool of 3 x 3.
struct PoolCase {
  PoolKind kind = PoolKind::kMax;
  bool quantized = false, channels_last = false, ceil_mode = false;
  double value = -std::numeric_limits<double>::infinity();
  std::vector<int64_t> pads = {1, 2, 2, 0}, pool_pads = {};
  int64_t dilation = 1;
};

Result<Tensor> run_pool(const PoolCase& c, bool apart, bool fuses) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const DType t = c.quantized ? DType::kI8 : DType::kF32;
  const QuantPtr quant = c.quantized ? test::per_tensor(0.5f, 7) : QuantPtr();
  const Shape shape = c.channels_last ? Shape{1, 8, 7, 4} : Shape{1, 4, 8, 7};
  Tensor x = random_tensor(t, shape, -100, 100, 1);
  x.set_quant(quant);
  Tensor value(t, Shape{});
  set_double(value, 0, c.value);
  value.set_quant(quant);
  PoolAttrs pool;
  pool.kind = c.kind;
  pool.kernel = {3, 3};
  pool.strides = {2, 2};
  pool.dilations = {c.dilation, c.dilation};
  pool.pads = c.pool_pads;
  pool.ceil_mode = c.ceil_mode;
  pool.layout = c.channels_last ? Layout::kChannelsLast : Layout::kChannelsFirst;
  const std::vector<int64_t> axes = c.channels_last ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3};
  const ValueId padded = b.value("", {}), y = b.value("", {});
  b.graph().value(y).type = quantized_type(t, quant);
  const ValueId in = b.input("x", ValueType::tensor(t, shape, quant));
  SMELT_TRY(b.node_to(Op::kPad, make_attrs<PadAttrs>(),
                      {in, integers(b, c.pads), b.constant("", value), integers(b, axes)}, {padded}));
  SMELT_TRY(b.node_to(Op::kPool, make_attrs<PoolAttrs>(pool), {padded}, {y}));
  b.graph().outputs = {y};
  if (apart) b.graph().outputs.push_back(padded);
  return result_of(module, x, fuses);
}

void check_pool(const PoolCase& c, bool fuses) {
  const auto want = run_pool(c, true, false), got = run_pool(c, false, fuses);
  ASSERT_TRUE(want.ok()) << want.error().message();
  ASSERT_TRUE(got.ok()) << got.error().message();
  ASSERT_EQ(want->shape(), got->shape());
  for (int64_t i = 0; i < want->elements(); ++i) {
    const double a = get_double(*want, i), b = get_double(*got, i);  // both may be infinite
    ASSERT_TRUE(a == b || std::abs(a - b) <= (c.kind == PoolKind::kMax ? 0 : 1e-4)) << i << ": " << a << ", " << b;
  }
}

TEST(FusePads, BeforeAPoolOfMaxima) {
  check_pool({}, true);
  check_pool({.channels_last = true}, true);
  check_pool({.value = std::numeric_limits<float>::lowest(), .pool_pads = {1, 0, 0, 1}}, true);
  check_pool({.quantized = true, .channels_last = true, .value = -128}, true);
  check_pool({.value = 0}, false);
  check_pool({.quantized = true, .value = -127}, false);
  check_pool({.ceil_mode = true}, false);
  check_pool({.dilation = 2}, false);
  check_pool({.pads = {3, 0, 0, 0}}, false);
  check_pool({.pads = {2, 0, 0, 0}, .pool_pads = {1, 0, 0, 0}}, false);
}

TEST(FusePads, AveragesStay) { check_pool({.kind = PoolKind::kAverage, .value = 0}, false); }

}  // namespace
}  // namespace smelt
