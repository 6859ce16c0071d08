// Models of one node, written as programs with and without XNNPACK, read back and run: the results are those of the
// model itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "convert/convert.h"
#include "formats/bundle/bundle.h"
#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/ml/ml.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;
using test::i64;
using test::OpCase;

Result<formats::WriteResult> as_program(const std::shared_ptr<Module>& module, const std::string& delegate) {
  return test::written(ModelAccess::make(module), "pte", {.write = {.delegate = delegate}});
}

/// Writes and reads the case; the graph of the file, whose results agree.
Graph expect_same(const OpCase& c, const std::string& delegate) {
  SCOPED_TRACE(Cat(c.label, ", delegate ", delegate));
  const auto back =
      test::expect_same_written(test::one_node(c), {c.inputs[0]}, "pte", {.write = {.delegate = delegate}}, 2e-5);
  return back ? module_of(*back).graphs[0] : Graph{};
}

ConvAttrs conv(Layout layout, FilterLayout filter, int64_t groups = 1) {
  ConvAttrs a;
  a.layout = layout;
  a.filter = filter;
  a.groups = groups;
  a.strides = {2, 1};
  a.pads = {1, 0, 0, 2};
  a.act = {ActKind::kRelu6};
  return a;
}

OpCase unary_case(Unary fn, double a = 0, double b = 0) {
  return {to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(fn, a, b), {f32({2, 3, 4})}};
}

/// Float32 cases that XNNPACK runs as well.
std::vector<OpCase> float_cases() {
  PoolAttrs max;
  max.kernel = {3, 2};
  max.strides = {2, 1};
  max.pads = {1, 0, 1, 1};
  PoolAttrs average = max;
  average.kind = PoolKind::kAverage;
  average.pads = {};
  average.layout = Layout::kChannelsLast;
  PoolAttrs padded = max;
  padded.kind = PoolKind::kAverage;
  padded.count_include_pad = true;
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  mean.keep_dims = false;
  MatMulAttrs linear;
  linear.transpose_b = true;
  linear.act = {ActKind::kRelu};
  ConvTransposeAttrs up;
  up.filter = FilterLayout::kIOS;
  up.strides = {2, 2};
  up.pads = {1, 1, 1, 1};
  up.output_padding = {1, 1};
  const Tensor image = f32({1, 4, 7, 6}), bias = f32({6}, 3);
  SoftmaxAttrs channels;
  channels.axis = 1;
  GroupNormAttrs groups, each;
  groups.groups = 2;
  groups.act = {ActKind::kRelu};
  each.groups = 0;
  const auto make = [](auto a) { return make_attrs<decltype(a)>(std::move(a)); };
  using enum Layout;
  return {
      {"conv first", Op::kConv, make(conv(kChannelsFirst, FilterLayout::kOIS)), {image, f32({6, 4, 3, 2}, 2), bias}},
      {"conv last", Op::kConv, make(conv(kChannelsLast, FilterLayout::kOSI)), {image, f32({5, 3, 2, 6}, 2)}},
      {"conv groups", Op::kConv, make(conv(kChannelsFirst, FilterLayout::kOIS, 2)), {image, f32({6, 2, 3, 2}, 2)}},
      {"depthwise", Op::kConv, make(conv(kChannelsLast, FilterLayout::kISO, 6)), {image, f32({1, 3, 2, 6}, 2), bias}},
      {"transposed", Op::kConvTranspose, make(up), {image, f32({4, 6, 3, 3}, 2), bias}},
      {"max pool", Op::kPool, make(max), {image}},
      {"average pool", Op::kPool, make(average), {image}},
      {"padded average", Op::kPool, make(padded), {image}},
      {"mean", Op::kReduce, make(mean), {image, i64({2, 3})}},
      {"linear", Op::kMatMul, make(linear), {f32({2, 3, 4}), f32({6, 4}, 2), bias}},
      {"matmul", Op::kMatMul, make(MatMulAttrs()), {f32({3, 4}), f32({4, 6}, 2)}},
      {"softmax", Op::kSoftmax, make(SoftmaxAttrs()), {f32({2, 5})}},
      {"softmax of channels", Op::kSoftmax, make(channels), {image}},
      {"groups of channels", Op::kGroupNorm, make(groups), {image, f32({4}, 2), f32({4}, 3)}},
      {"channels of rows", Op::kGroupNorm, make(each), {f32({2, 3, 8})}},
      {"add", Op::kBinary, make(BinaryAttrs(Binary::kAdd)), {image, f32({4, 1, 1}, 2)}},
      {"reshape", Op::kReshape, make(ReshapeAttrs()), {image, i64({2, -1})}},
      {"transpose", Op::kTranspose, make(TransposeAttrs({0, 2, 3, 1})), {image}},
      {"concat", Op::kConcat, make(AxisAttrs(1)), {image, f32({1, 2, 7, 6}, 2)}},
      {"pad", Op::kPad, make(PadAttrs()), {f32({2, 3}), i64({1, 0, 0, 2})}},
      unary_case(Unary::kSigmoid),
      unary_case(Unary::kTanh),
      unary_case(Unary::kGelu),
      unary_case(Unary::kHardSwish),
      unary_case(Unary::kRelu6),
      unary_case(Unary::kLeakyRelu, 0.1),
      unary_case(Unary::kElu, 0.7, 1),
      unary_case(Unary::kClamp, -0.5, 1.25)};
}

/// Cases that operators alone run.
std::vector<OpCase> portable_cases() {
  GatherAttrs gather;
  gather.axis = 1;
  ReduceAttrs max;
  max.fn = Reduction::kMax;
  SoftmaxAttrs flattened;
  flattened.axis = 1;
  flattened.flatten = true;
  LayerNormAttrs norm;
  norm.axis = -1;
  ResizeAttrs resize;
  resize.axes = {2, 3};
  resize.coord = ResizeAttrs::Coord::kAsymmetric;
  resize.nearest = ResizeAttrs::Nearest::kFloor;
  const auto make = [](auto a) { return make_attrs<decltype(a)>(std::move(a)); };
  return {{"gather", Op::kGather, make(gather), {f32({2, 5}), i64({-1, 0, 3})}},
          {"maximum", Op::kReduce, make(max), {f32({2, 5, 3}), i64({1})}},
          {"layer norm", Op::kLayerNorm, make(norm), {f32({2, 8}), f32({8}, 2), f32({8}, 3)}},
          {"nearest", Op::kResize, make(resize), {f32({1, 2, 3, 4}), Tensor(), Tensor(), i64({6, 8})}},
          {"softmax of the rest", Op::kSoftmax, make(flattened), {f32({2, 3, 4})}},
          {"addend of rows", Op::kMatMul, make(MatMulAttrs()), {f32({6, 4}), f32({4, 6}, 2), f32({6, 1}, 3)}},
          {"power", Op::kBinary, make(BinaryAttrs(Binary::kSquaredDifference)), {f32({2, 3}), f32({3}, 2)}},
          unary_case(Unary::kMish),
          unary_case(Unary::kSoftplus),
          unary_case(Unary::kErf)};
}

/// Operators that become several calls.
std::vector<OpCase> decomposed_cases() {
  const auto make = [](auto a) { return make_attrs<decltype(a)>(std::move(a)); };
  SoftmaxAttrs hardmax;
  hardmax.kind = SoftmaxAttrs::Kind::kHardmax;
  ArgReduceAttrs last;
  last.axis = 1;
  last.select_last = true;
  ScatterAttrs scatter;
  scatter.reduction = ScatterAttrs::Reduce::kAdd;
  LrnAttrs lrn;
  lrn.size = 3;
  lrn.alpha = 0.3;
  FakeQuantAttrs fake;
  fake.min = -1;
  fake.max = 1.5f;
  const Tensor pairs = test::tensor(DType::kI64, {3, 2}, {0, 1, -1, 2, 0, 1});
  const Tensor image = f32({1, 2, 4, 5});
  ReduceAttrs none;
  none.noop_with_empty_axes = true;
  none.fn = Reduction::kL1;
  return {{"hardmax", Op::kSoftmax, make(hardmax), {f32({3, 4})}},
          {"last of equals", Op::kArgReduce, make(last), {test::floats({2, 4}, {1, 3, 3, 0, 2, 2, 1, 2})}},
          {"gather pairs", Op::kGatherND, make(GatherAttrs()), {f32({2, 3, 4}), pairs}},
          {"scatter pairs", Op::kScatterND, make(scatter), {f32({2, 3, 4}), pairs, f32({3, 4}, 2)}},
          {"sample", Op::kGridSample, make(GridSampleAttrs()), {image, f32({1, 3, 3, 2}, 2)}},
          {"mean and variance", Op::kMeanVarianceNorm, make(MeanVarianceNormAttrs()), {image}},
          {"across channels", Op::kLRN, make(lrn), {f32({1, 6, 3, 2})}},
          {"fake quantization", Op::kFakeQuant, make(fake), {image}},
          {"nothing reduced", Op::kReduce, make(none), {image, i64({})}},
          {"diagonal", Op::kMatrixDiag, make(NoAttrs()), {f32({2, 3})}}};
}

/// Windows that ATen's pooling has no form for, and volumes.
std::vector<OpCase> window_cases() {
  const auto make = [](auto a) { return make_attrs<decltype(a)>(std::move(a)); };
  PoolAttrs average;
  average.kind = PoolKind::kAverage;
  average.kernel = {3, 2};
  average.strides = {2, 1};
  average.pads = {1, 0, 0, 1};
  PoolAttrs dilated = average;
  dilated.dilations = {1, 2};
  PoolAttrs norm = average;
  norm.kind = PoolKind::kLp;
  norm.p = 3;
  PoolAttrs volume;
  volume.kernel = {2, 2, 3};
  volume.strides = {1, 2, 1};
  volume.pads = {1, 0, 1, 0, 1, 1};
  PoolAttrs mean = volume;
  mean.kind = PoolKind::kAverage;
  PoolAttrs line;
  line.kernel = {3};
  line.strides = {2};
  line.ceil_mode = true;
  ConvAttrs conv;
  conv.strides = {1, 2, 1};
  conv.pads = {1, 0, 1, 0, 1, 1};
  conv.groups = 2;
  const Tensor image = f32({1, 4, 7, 6}), frames = f32({1, 4, 4, 5, 6}), bias = f32({6}, 3);
  return {{"average without padding", Op::kPool, make(average), {image}},
          {"average of dilated windows", Op::kPool, make(dilated), {image}},
          {"p-norm", Op::kPool, make(norm), {image}},
          {"largest of volumes", Op::kPool, make(volume), {frames}},
          {"mean of volumes", Op::kPool, make(mean), {frames}},
          {"rounded up", Op::kPool, make(line), {f32({1, 3, 8})}},
          {"volumes", Op::kConv, make(conv), {frames, f32({6, 2, 2, 3, 2}, 2), bias}}};
}

/// Recurrent layers; gates times hidden units of 2 directions.
std::vector<OpCase> recurrent_cases() {
  using Cell = RecurrentAttrs::Cell;
  std::vector<OpCase> cases;
  const auto add = [&](const char* label, Cell cell, int64_t gates, bool backward, bool before_reset) {
    RecurrentAttrs a;
    a.cell = cell;
    a.hidden = 3;
    a.backward = backward;
    a.linear_before_reset = before_reset;
    const int64_t d = backward ? 2 : 1, rows = gates * 3;
    cases.push_back({label,
                     Op::kRecurrent,
                     make_attrs<RecurrentAttrs>(a),
                     {f32({4, 2, 5}), f32({d, rows, 5}, 2), f32({d, rows, 3}, 3), f32({d, 2 * rows}, 4), Tensor(),
                      f32({d, 2, 3}, 5)}});
  };
  add("rnn", Cell::kRnn, 1, false, false);
  add("gru", Cell::kGru, 3, true, false);
  add("gru with the product first", Cell::kGru, 3, false, true);
  add("lstm", Cell::kLstm, 4, true, false);
  return cases;
}

/// Quantized cases: int8 with weights by channel.
std::vector<OpCase> int8_cases() {
  const auto make = [](auto a) { return make_attrs<decltype(a)>(std::move(a)); };
  const Tensor image = test::random_quantized(DType::kI8, {1, 5, 6, 4}, 0.05f, 3, 1);
  Tensor filter = test::random_tensor(DType::kI8, {3, 2, 2, 4}, -127, 127, 2);
  filter.set_quant(test::per_axis({0.01f, 0.02f, 0.005f}, 0));
  Tensor matrix = test::random_tensor(DType::kI8, {3, 4}, -127, 127, 3);
  matrix.set_quant(test::per_axis({0.01f, 0.02f, 0.005f}, 0));
  const Tensor bias = test::random_tensor(DType::kI32, {3}, -500, 500, 4);
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  MatMulAttrs linear;
  linear.transpose_b = true;
  const auto result = [](float scale, int32_t zero) {
    ValueType t = ValueType::tensor(DType::kI8);
    t.quant = test::per_tensor(scale, zero);
    return std::vector<ValueType>{t};
  };
  return {{"conv", Op::kConv, make(a), {image, filter, bias}, {}, result(0.1f, -4)},
          {"linear", Op::kMatMul, make(linear), {image, matrix, bias}, {}, result(0.08f, 5)},
          {"softmax", Op::kSoftmax, make(SoftmaxAttrs()), {image}, {}, result(1.0f / 256, -128)}};
}

bool has_origin(const Graph& graph, const std::string& origin) {
  return std::ranges::any_of(graph.nodes, [&](const Node& n) { return n.origin == origin; });
}

TEST(ProgramWriter, FloatNodesByOperators) {
  for (const OpCase& c : float_cases()) expect_same(c, "none");
  for (const OpCase& c : portable_cases()) expect_same(c, "none");
}

TEST(ProgramWriter, SeveralCallsANode) {
  for (const auto& cases : {decomposed_cases(), window_cases(), recurrent_cases()})
    for (const OpCase& c : cases) expect_same(c, "none");
}

TEST(ProgramWriter, LabelsByKeys) {
  LabelEncodeAttrs a;
  a.keys = i64({3, -1, 7, 3});
  a.values = test::floats({4}, {0.5, -2, 8, 0.25});
  a.fallback = test::floats({1}, {-9});
  expect_same({"LabelEncode", Op::kLabelEncode, make_attrs<LabelEncodeAttrs>(a), {i64({7, 3, 5, -1, 0, 3})}}, "none");
}

TEST(ProgramWriter, MapsAreTheirValues) {
  MapAttrs a;
  a.keys.ints = {4, 2, 9};
  const Tensor x = f32({5, 3});
  const auto module = test::one_node({"ZipMap", Op::kZipMap, make_attrs<MapAttrs>(a), {x}});
  auto back = test::rewritten(ModelAccess::make(module), "pte", {.write = {.delegate = "none"}});
  ASSERT_TRUE(back.ok()) << back.error().message();
  const auto got = test::run_on_reference(*back, {x});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(test::values(got[0].tensor), test::values(x));
  a.keys.ints = {4, 2};
  const auto short_of_keys = test::one_node({"ZipMap", Op::kZipMap, make_attrs<MapAttrs>(a), {x}});
  EXPECT_FALSE(test::rewritten(ModelAccess::make(short_of_keys), "pte", {.write = {.delegate = "none"}}).ok());
}

std::shared_ptr<Module> module_of_graphs(size_t graphs) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(graphs);
  module->methods.push_back({"main", 0});
  return module;
}

/// for (i = 0; i < 3; i += step) x = doubled ? x + x : x, with x float32 [2].
std::shared_ptr<Module> loop(int64_t step, bool doubled) {
  auto module = module_of_graphs(3);
  Builder main(*module, 0), test(*module, 1), body(*module, 2);
  const ValueType count = ValueType::tensor(DType::kI64, Shape{}), value = ValueType::tensor(DType::kF32, Shape{2});
  const auto binary = [](Builder& b, Binary fn, ValueId x, ValueId y) {
    return *b.op(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y});
  };
  const ValueId i = test.input("i", count);
  test.input("x", value);
  test.graph().outputs = {binary(test, Binary::kLess, i, test.i64_scalar(3))};
  const ValueId j = body.input("j", count), y = body.input("y", value);
  const ValueId next = binary(body, Binary::kAdd, j, body.i64_scalar(step));
  body.graph().outputs = {next, doubled ? binary(body, Binary::kAdd, y, y) : y};
  WhileAttrs a;
  a.cond_graph = 1;
  a.body_graph = 2;
  const ValueId x = main.input("x", value);
  const auto results = main.node(Op::kWhile, make_attrs<WhileAttrs>(a), {main.i64_scalar(0), x}, 2);
  EXPECT_TRUE(results.ok());
  main.graph().outputs = {results->back()};
  return module;
}

TEST(ProgramWriter, UnrollsLoops) {
  const auto back =
      test::expect_same_written(loop(1, true), {test::floats({2}, {1, -2})}, "pte", {.write = {.delegate = "none"}});
  ASSERT_TRUE(back);
  EXPECT_EQ(std::ranges::count(module_of(*back).graphs[0].nodes, Op::kBinary, &Node::op), 3);
}

/// Loops without end, whose iterations leave nodes or nothing, stay loops; branches in branches, 2^40 of them, are
/// refused.
TEST(ProgramWriter, OpensNoGraphsWithoutEnd) {
  for (const bool doubled : {false, true}) {
    const auto written = as_program(loop(0, doubled), "none");
    ASSERT_TRUE(written.ok()) << written.error().message();
    EXPECT_TRUE(written->missing.empty());
    EXPECT_EQ(written->files.size(), 1u);
  }
  constexpr int kLevels = 40;
  auto module = module_of_graphs(kLevels + 1);
  for (int g = kLevels; g >= 0; --g) {
    Builder b(*module, g);
    const ValueId c = b.input("c", ValueType::tensor(DType::kBool, Shape{}));
    const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2}));
    IfAttrs a;
    a.then_graph = a.else_graph = g + 1;
    const auto results = g == kLevels ? b.node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kDigamma), {x}, 1)
                                      : b.node(Op::kIf, make_attrs<IfAttrs>(a), {c, c, x}, 1);
    ASSERT_TRUE(results.ok()) << results.error().message();
    b.graph().outputs = *results;
  }
  for (const char* writer : {"pte", "onnx", "tflite"}) {
    const auto written = test::written(ModelAccess::make(module), writer);
    ASSERT_FALSE(written.ok());
    EXPECT_NE(written.error().message().find("more than 1048576 nodes"), std::string::npos);
  }
}

TEST(ProgramWriter, BranchesJump) {
  auto module = module_of_graphs(3);
  const ValueType value = ValueType::tensor(DType::kF32, Shape{2});
  const Unary functions[] = {Unary::kNeg, Unary::kExp};
  for (int g = 1; g <= 2; ++g) {
    Builder branch(*module, g);
    const ValueId x = branch.input("x", value);
    branch.graph().outputs = {*branch.op(Op::kUnary, make_attrs<UnaryAttrs>(functions[g - 1]), {x})};
  }
  Builder main(*module, 0);
  IfAttrs a;
  a.then_graph = 1;
  a.else_graph = 2;
  const ValueId c = main.input("c", ValueType::tensor(DType::kBool, Shape{})), x = main.input("x", value);
  const auto results = main.node(Op::kIf, make_attrs<IfAttrs>(a), {c, x}, 1);
  ASSERT_TRUE(results.ok());
  main.graph().outputs = *results;
  for (const char* delegate : {"none", "xnnpack"})
    for (const double way : {0.0, 1.0}) {
      const std::vector<Datum> fed{test::tensor(DType::kBool, {}, {way}), test::floats({2}, {0, 2})};
      const auto back = test::expect_same_written(module, fed, "pte", {.write = {.delegate = delegate}});
      ASSERT_TRUE(back);
      EXPECT_EQ(std::ranges::count(module_of(*back).graphs[0].nodes, Op::kIf, &Node::op), 1);
    }
}

TEST(ProgramWriter, BundlesKeepTestSets) {
  auto tests = std::make_shared<bundle::Bundle>();
  const Tensor x = f32({2, 3, 4});
  using Kind = bundle::TestValue::Kind;
  tests->tests.push_back({.method = "forward", .sets = {{{{Kind::kTensor, x}}, {{Kind::kTensor, x}}}}});
  convert::Options options;
  options.write.tests = tests;
  const auto made = test::written(ModelAccess::make(test::one_node(unary_case(Unary::kTanh))), "bpte", options);
  ASSERT_TRUE(made.ok()) << made.error().message();
  const auto bytes = made->files[0].bytes.joined();
  const auto read = bundle::read(*bytes, bytes);
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->tests.size(), 1u);
  EXPECT_EQ(read->tests[0].method, "forward");
  ASSERT_EQ(read->tests[0].sets.size(), 1u);
  EXPECT_EQ(test::values(read->tests[0].sets[0].inputs[0].datum.tensor), test::values(x));
  EXPECT_TRUE(Model::load_bytes(read->program, bytes, "program").ok());
}

TEST(ProgramWriter, FloatNodesByXnnpack) {
  for (const OpCase& c : float_cases()) {
    const Graph graph = expect_same(c, "xnnpack");
    const bool delegated = std::ranges::any_of(graph.nodes, [](const Node& n) { return n.origin.starts_with("XNN"); });
    EXPECT_TRUE(delegated) << c.label;
  }
  for (const OpCase& c : portable_cases()) expect_same(c, "");
}

/// A picture of one colour: squares that are summed before the mean goes would give a variance below 0.
TEST(ProgramWriter, NormalizesConstantPictures) {
  GroupNormAttrs each;
  each.groups = 0;
  Tensor x(DType::kF32, {1, 3, 31, 33});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = 117.3f;
  expect_same({"one colour", Op::kGroupNorm, make_attrs<GroupNormAttrs>(each), {x}}, "xnnpack");
}

/// XNNPACK is given float16; what calls of operators compute is float32 between conversions.
TEST(ProgramWriter, Float16NodesByXnnpack) {
  const auto casts = [](const Graph& g) { return std::ranges::count(g.nodes, Op::kCast, &Node::op); };
  const auto half = [](const Shape& shape, uint32_t seed) {
    return test::random_tensor(DType::kF16, shape, -1, 1, seed);
  };
  const OpCase c{"conv of float16",
                 Op::kConv,
                 make_attrs<ConvAttrs>(conv(Layout::kChannelsFirst, FilterLayout::kOIS)),
                 {half({1, 3, 7, 6}, 1), half({4, 3, 3, 3}, 2), half({4}, 3)}};
  const auto back = test::expect_same_written(test::one_node(c), {c.inputs[0]}, "pte", {}, 2e-3);
  ASSERT_TRUE(back.has_value());
  const auto& nodes = module_of(*back).graphs[0].nodes;
  const auto product = std::ranges::find(nodes, Op::kConv, &Node::op);
  ASSERT_NE(product, nodes.end());
  EXPECT_TRUE(product->origin.starts_with("XNN")) << product->origin;
  EXPECT_EQ(module_of(*back).graphs[0].value(product->inputs[1]).type.dtype, DType::kF16);
  EXPECT_EQ(casts(module_of(*back).graphs[0]), 0);
  EXPECT_EQ(back->outputs()[0].dtype, DType::kF16);
  LayerNormAttrs norm;
  norm.axis = -1;
  const OpCase rows{"layer norm of float16", Op::kLayerNorm, make_attrs<LayerNormAttrs>(norm), {half({2, 8}, 1)}};
  const auto portable = test::expect_same_written(test::one_node(rows), {rows.inputs[0]}, "pte", {}, 2e-3);
  ASSERT_TRUE(portable.has_value());
  EXPECT_EQ(casts(module_of(*portable).graphs[0]), 2);
}

TEST(ProgramWriter, QuantizedNodesStayIntegersInXnnpack) {
  for (const OpCase& c : int8_cases()) {
    expect_same(c, "none");
    const Graph graph = expect_same(c, "xnnpack");
    for (const Node& n : graph.nodes) {
      if (n.op != Op::kConv && n.op != Op::kMatMul) continue;
      EXPECT_TRUE(graph.value(n.outputs[0]).type.quant) << c.label;
    }
  }
  EXPECT_TRUE(has_origin(expect_same(int8_cases()[0], "xnnpack"), "XNNConv2d"));
}

TEST(ProgramWriter, RefusesAnUnknownDelegate) {
  const auto written = as_program(test::one_node(unary_case(Unary::kTanh)), "frobnicate");
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message().find("xnnpack or none"), std::string::npos);
}

TEST(ProgramWriter, NamesWhatHasNoForm) {
  OpCase c = unary_case(Unary::kTanh);
  c.inputs[0] = test::random_tensor(DType::kF32, {2, 3, 4}, -1, 1, 1);
  const auto module = test::one_node(c);
  module->graphs[0].value(module->graphs[0].inputs[0]).type.shape[0] = -1;
  const auto written = as_program(module, "");
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(written->files.empty());
  ASSERT_FALSE(written->missing.empty());
  EXPECT_NE(written->missing[0].place.find("--shape"), std::string::npos);
}

}  // namespace
}  // namespace smelt
