// Operators that become many calls or a loop of calls, written as programs and read back: the results are those of the
// model itself.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "ops/attention/attention.h"
#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/detection/detection.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/ml/ml.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;
using test::i64;
using test::OpCase;

template <class A>
AttrsPtr attrs(A a) {
  return make_attrs<A>(std::move(a));
}

void expect_written(const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    SCOPED_TRACE(c.label);
    test::expect_same_written(test::one_node(c), {c.inputs[0]}, "pte", {.write = {.delegate = "none"}}, 2e-5);
  }
}

TEST(ProgramCalls, TurnPairs) {
  RotaryAttrs split, pairs;
  pairs.interleaved = true;
  pairs.rotary_dim = 4;
  pairs.num_heads = 2;
  pairs.scale = 0.5;
  const Tensor cosines = f32({5, 3}, 2), sines = f32({5, 3}, 3), short_cosines = f32({7, 2}, 2);
  expect_written(
      {{"all positions", Op::kRotary, attrs(split), {f32({2, 2, 5, 6}), cosines, sines}},
       {"ids of tokens",
        Op::kRotary,
        attrs(pairs),
        {f32({2, 3, 12}), short_cosines, f32({7, 2}, 3), test::tensor(DType::kI64, {2, 3}, {0, 5, 6, 1, 1, 2})}},
       {"first ids", Op::kRotary, attrs(pairs), {f32({2, 3, 12}), short_cosines, f32({7, 2}, 3), i64({4, 1})}}});
}

TEST(ProgramCalls, LinearAttentionIsUnrolled) {
  LinearAttentionAttrs a;
  a.q_heads = 4;
  a.kv_heads = 2;
  LinearAttentionAttrs delta = a;
  delta.gated = delta.delta = true;
  const Tensor q = f32({2, 3, 12}), k = f32({2, 3, 6}, 2), v = f32({2, 3, 4}, 3), state = f32({2, 2, 3, 2}, 4);
  expect_written(
      {{"no decay", Op::kLinearAttention, attrs(a), {q, k, v}},
       {"gated delta", Op::kLinearAttention, attrs(delta), {q, k, v, state, f32({2, 3, 6}, 5), f32({2, 3, 2}, 6)}}});
}

TEST(ProgramCalls, PoolRegions) {
  RoiAttrs a;
  a.height = 2;
  a.width = 3;
  a.sampling_ratio = 2;
  a.scale = 0.5;
  RoiAttrs adaptive = a, largest = a, crop = a, whole = a;
  adaptive.sampling_ratio = 0;
  adaptive.half_pixel = false;
  largest.max = true;
  largest.sampling_ratio = 0;
  crop.crop_and_resize = true;
  crop.extrapolation = -2;
  whole.legacy = true;
  const Tensor image = f32({2, 3, 6, 7}), batches = i64({1, 0, 1});
  const Tensor boxes = test::floats({3, 4}, {1, 2, 9, 11, -30, -30, 60, 5, 4, 4, 4.5, 4.25});
  const Tensor units = test::floats({3, 4}, {0.1f, 0.2f, 0.9f, 1.0f, -0.5f, 0, 0.5f, 1.5f, 0.3f, 0.3f, 0.2f, 0.8f});
  const Tensor rows = test::floats({2, 5}, {1, 2, 3, 10, 9, 0, -4, 2, 30, 2});
  RoiAttrs nearest = crop;
  nearest.nearest = true;
  expect_written({{"mean of samples", Op::kRoiPool, attrs(a), {image, boxes, batches}},
                  {"as many samples as pixels", Op::kRoiPool, attrs(adaptive), {image, boxes, batches}},
                  {"largest sample", Op::kRoiPool, attrs(largest), {image, boxes, batches}},
                  {"crop", Op::kRoiPool, attrs(crop), {image, units, batches}},
                  {"nearest crop", Op::kRoiPool, attrs(nearest), {image, units, batches}},
                  {"whole pixels", Op::kRoiPool, attrs(whole), {image, rows}}});
}

TEST(ProgramCalls, RunningProductsAndExtremes) {
  std::vector<OpCase> cases;
  for (const auto fn : {CumulativeAttrs::Fn::kProd, CumulativeAttrs::Fn::kMax, CumulativeAttrs::Fn::kMin})
    for (const bool exclusive : {false, true}) {
      CumulativeAttrs a;
      a.fn = fn;
      a.exclusive = exclusive && fn == CumulativeAttrs::Fn::kProd;  // others would begin with infinities
      a.reverse = exclusive;
      cases.push_back({"running", Op::kCumulative, attrs(a), {f32({2, 5, 3}), i64({1})}});
    }
  expect_written(cases);
}

TEST(ProgramCalls, ScattersThatJoinUpdates) {
  using Reduce = ScatterAttrs::Reduce;
  std::vector<OpCase> cases;
  for (const auto reduction : {Reduce::kMul, Reduce::kMax, Reduce::kMin}) {
    ScatterAttrs a;
    a.reduction = reduction;
    a.axis = 1;
    const Tensor at = test::tensor(DType::kI64, {2, 3}, {0, 4, -1, 2, 2, 2});
    const Tensor pairs = test::tensor(DType::kI64, {3, 2}, {0, 1, 2, 4, 0, 1});
    cases.push_back({"elements", Op::kScatterElements, attrs(a), {f32({3, 5}), at, f32({2, 3}, 2)}});
    cases.push_back({"tuples", Op::kScatterND, attrs(a), {f32({3, 5, 2}), pairs, f32({3, 2}, 2)}});
  }
  expect_written(cases);
}

TEST(ProgramCalls, TransposedVolumesAndUnpooling) {
  ConvTransposeAttrs a;
  a.filter = FilterLayout::kIOS;
  a.strides = {2, 1, 2};
  a.pads = {1, 0, 1, 0, 1, 1};
  a.output_padding = {1, 0, 1};
  a.groups = 2;
  MaxUnpoolAttrs unpool;
  unpool.kernel = unpool.strides = {2, 2};
  const Tensor places = test::tensor(DType::kI64, {1, 1, 2, 2}, {1, 2, 12, 15});
  expect_written(
      {{"volume", Op::kConvTranspose, attrs(a), {f32({1, 4, 3, 4, 2}), f32({4, 3, 2, 3, 2}, 2), f32({6}, 3)}},
       {"unpool", Op::kMaxUnpool, attrs(unpool), {f32({1, 1, 2, 2}), places}},
       {"unpool into more", Op::kMaxUnpool, attrs(unpool), {f32({1, 1, 2, 2}), places, i64({1, 1, 5, 6})}}});
}

TEST(ProgramCalls, SequencesOfSeveralLengths) {
  RecurrentAttrs gru;
  gru.cell = RecurrentAttrs::Cell::kGru;
  gru.hidden = 3;
  gru.backward = true;
  RecurrentAttrs quantized;
  quantized.hidden = 3;
  quantized.dynamic_quantization = true;
  const Tensor x = f32({4, 3, 5}), lengths = test::tensor(DType::kI32, {3}, {2, 4, 0});
  expect_written(
      {{"gru", Op::kRecurrent, attrs(gru), {x, f32({2, 9, 5}, 2), f32({2, 9, 3}, 3), f32({2, 18}, 4), lengths}},
       {"quantized lstm", Op::kRecurrent, attrs(quantized), {x, f32({1, 12, 5}, 2), f32({1, 12, 3}, 3)}}});
}

Tensor int8_weights(const Shape& shape, uint32_t seed) {
  return test::random_quantized(DType::kI8, shape, 0.02f, 0, seed);
}

TEST(ProgramCalls, RowsQuantizedAtRunTime) {
  std::vector<OpCase> cases;
  for (const bool asymmetric : {false, true}) {
    ConvAttrs conv;
    conv.layout = Layout::kChannelsLast;
    conv.filter = FilterLayout::kOSI;
    conv.dynamic_quant = true;
    conv.asymmetric_inputs = asymmetric;
    MatMulAttrs linear;
    linear.transpose_b = true;
    linear.flatten_a = true;
    linear.dynamic_quant = true;
    linear.asymmetric_inputs = asymmetric;
    TfSvdfAttrs svdf;
    svdf.rank = 2;
    svdf.asymmetric_inputs = asymmetric;
    TfRnnAttrs rnn;
    rnn.sequence = true;
    rnn.asymmetric_inputs = asymmetric;
    rnn.act = {ActKind::kTanh};
    cases.push_back({"conv", Op::kConv, attrs(conv), {f32({2, 4, 5, 3}), int8_weights({4, 2, 2, 3}, 2), f32({4}, 3)}});
    cases.push_back({"linear", Op::kMatMul, attrs(linear), {f32({2, 3, 4}), int8_weights({5, 6}, 2), f32({5}, 3)}});
    cases.push_back({"svdf",
                     Op::kTfSvdf,
                     attrs(svdf),
                     {f32({2, 5}), int8_weights({6, 5}, 2), int8_weights({6, 4}, 3), f32({3}, 4), f32({2, 24}, 5)},
                     {},
                     std::vector<ValueType>(2)});
    cases.push_back({"rnn",
                     Op::kTfRnn,
                     attrs(rnn),
                     {f32({2, 3, 5}), int8_weights({4, 5}, 2), int8_weights({4, 4}, 3), f32({4}, 4), f32({2, 4}, 5)},
                     {},
                     std::vector<ValueType>(2)});
  }
  expect_written(cases);
}

TEST(ProgramCalls, SuppressionIsALoop) {
  const Tensor boxes = test::floats({5, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 2, 1, 3, 1, 3, 0, 2.1f, 5, 5, 6, 6});
  const Tensor scores = test::floats({5}, {0.9f, 0.75f, 0.6f, 0.95f, 0.1f}), most = test::tensor(DType::kI32, {}, {7});
  const auto number = [](float v) { return test::floats({}, {v}); };
  NmsAttrs hard, soft;
  hard.form = NmsAttrs::Form::kTflite4;
  soft.form = NmsAttrs::Form::kTflite5;
  DetectionAttrs fast, regular;
  fast.max_detections = 6;
  fast.classes = 2;
  fast.max_classes_per_detection = 2;
  fast.score_threshold = 0.2;
  regular = fast;
  regular.regular_nms = true;
  regular.max_classes_per_detection = 1;
  regular.detections_per_class = 3;
  const Tensor codes = f32({1, 4, 4}),
               anchors = test::floats({4, 4}, {.5f, .5f, 1, 1, .5f, .6f, 1, 1, 3, 3, 1, 2, 3, 5, 1, 2});
  const Tensor classes = test::floats({1, 4, 3}, {.1f, .9f, .3f, .1f, .8f, .5f, .1f, .1f, .7f, .3f, .4f, .6f});
  expect_written({{"hard",
                   Op::kNonMaxSuppression,
                   attrs(hard),
                   {boxes, scores, most, number(0.5f), number(0.2f)},
                   {},
                   std::vector<ValueType>(2)},
                  {"soft",
                   Op::kNonMaxSuppression,
                   attrs(soft),
                   {boxes, scores, most, number(0.9f), number(0.2f), number(0.5f)},
                   {},
                   std::vector<ValueType>(3)},
                  {"best classes",
                   Op::kDetectionPostprocess,
                   attrs(fast),
                   {codes, classes, anchors},
                   {},
                   std::vector<ValueType>(4)},
                  {"classes on their own",
                   Op::kDetectionPostprocess,
                   attrs(regular),
                   {codes, classes, anchors},
                   {},
                   std::vector<ValueType>(4)}});
}

TEST(ProgramCalls, SoftmaxThatKeepsZeros) {
  LinearModelAttrs zeros;
  zeros.classifier = true;
  zeros.targets = 3;
  zeros.coefficients = {1, 2, 0, 0, -1, 1};
  zeros.post = PostTransform::kSoftmaxZero;
  zeros.labels.ints = {7, 8, 9};
  expect_written({{"softmax that keeps zeros", Op::kLinearModel, attrs(zeros), {f32({5, 2})}}});
}

TEST(ProgramCalls, UpdatesStartAtClampedPlaces) {
  const Tensor x = f32({4, 5, 3});
  const auto at = [](const std::vector<double>& v) { return test::tensor(DType::kI32, {3}, v); };
  const AttrsPtr none = attrs(NoAttrs());
  expect_written({{"inside", Op::kDynamicUpdateSlice, none, {x, f32({2, 5, 2}, 2), at({1, 0, 1})}},
                  {"rows", Op::kDynamicUpdateSlice, none, {x, f32({1, 2, 3}, 2), at({3, 2, 0})}},
                  {"beyond both ends", Op::kDynamicUpdateSlice, none, {x, f32({2, 1, 3}, 2), at({-3, 9, 1})}},
                  {"all of it", Op::kDynamicUpdateSlice, none, {x, f32({4, 5, 3}, 2), at({1, 1, 1})}}});
}

TEST(ProgramCalls, ALayerNormIsOneCall) {
  LayerNormAttrs a;
  a.axis = 1;
  const OpCase c{"layer norm", Op::kLayerNorm, attrs(a), {f32({2, 3, 4}), f32({3, 4}, 2), f32({3, 4}, 3)}};
  const auto back = test::expect_same_written(test::one_node(c), {c.inputs[0]}, "pte");
  ASSERT_TRUE(back);
  EXPECT_EQ(std::ranges::count(module_of(*back).graphs[0].nodes, Op::kLayerNorm, &Node::op), 1);
  LayerNormAttrs last;
  expect_written({{"scale for all", Op::kLayerNorm, attrs(last), {f32({2, 3, 4}), f32({1}, 2)}},
                  {"no scale", Op::kLayerNorm, attrs(last), {f32({2, 3, 4})}}});
}

TEST(ProgramCalls, FeaturesAndTables) {
  CategoryOneHotAttrs categories;
  categories.ints = {4, 0, 2};
  FeatureConcatAttrs columns;
  columns.sizes = {2, 4};
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  AttentionAttrs grouped;
  const Tensor at = test::tensor(DType::kI32, {3, 1}, {4, 1, 4}),
               whole = test::tensor(DType::kI32, {2, 3}, {-4, 3, 9, 1, 1, -8});
  expect_written(
      {{"one-hot", Op::kCategoryOneHot, attrs(categories), {i64({2, 7, 0})}},
       {"columns", Op::kFeatureConcat, attrs(columns), {f32({2, 3}), f32({2, 3}, 2)}},
       {"mean of integers", Op::kReduce, attrs(mean), {whole, i64({1})}},
       {"new tensor", Op::kScatterNew, attrs(NoAttrs()), {at, f32({3, 2}), test::tensor(DType::kI32, {2}, {5, 2})}},
       {"rows", Op::kEmbeddingLookup, attrs(NoAttrs()), {test::tensor(DType::kI32, {2}, {3, 0}), f32({4, 3}, 2)}},
       {"groups of queries",
        Op::kAttention,
        attrs(grouped),
        {f32({1, 4, 3, 2}), f32({1, 2, 5, 2}, 2), f32({1, 2, 5, 2}, 3)}}});
}

TEST(ProgramCalls, SizesThatRunsDecideHaveBounds) {
  NonZeroAttrs by_rows;
  by_rows.rows = true;
  const Tensor boxes = test::floats({1, 5, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 2, 1, 3, 1, 3, 0, 2.1f, 5, 5, 6, 6});
  const Tensor scores = test::floats({1, 2, 5}, {0.9f, 0.75f, 0.6f, 0.95f, 0.1f, 0.2f, 0.9f, 0.3f, 0.1f, 0.5f});
  const Tensor sparse = test::floats({2, 4}, {0, 1, 0, 2, 3, 0, 0, -1});
  const Tensor condition = test::tensor(DType::kBool, {3}, {1, 0, 1});
  expect_written({{"selected boxes",
                   Op::kNonMaxSuppression,
                   attrs(NmsAttrs()),
                   {boxes, scores, i64({3}), test::floats({}, {0.5f}), test::floats({}, {0.15f})}},
                  {"columns that are not 0", Op::kNonZero, attrs(NonZeroAttrs()), {sparse}},
                  {"rows that are not 0", Op::kNonZero, attrs(by_rows), {sparse}},
                  {"slices", Op::kCompress, attrs(AxisAttrs(1)), {f32({2, 4}), condition}},
                  {"elements", Op::kCompress, attrs(AxisAttrs(INT64_MIN)), {f32({2, 4}), condition}}});
}

/// A While that doubles x until its first element is above 100; the round is carried beside it.
std::shared_ptr<Module> doubling() {
  auto module = std::make_shared<Module>();
  module->graphs.resize(3);
  module->methods.push_back({"main", 0});
  const ValueType row = ValueType::tensor(DType::kF32, Shape{2}), round = ValueType::tensor(DType::kI64, Shape{});
  WhileAttrs a;
  a.cond_graph = 1;
  a.body_graph = 2;
  Builder test(*module, 1), body(*module, 2), main(*module, 0);
  const auto binary = [](Builder& b, Binary fn, ValueId x, ValueId y) {
    return *b.op(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y});
  };
  {
    test.input("round", round);
    const ValueId x = test.input("x", row);
    ReduceAttrs largest;
    largest.fn = Reduction::kMax;
    const ValueId top = *test.op(Op::kReduce, make_attrs<ReduceAttrs>(largest), {x});
    test.graph().outputs = {binary(test, Binary::kLess, top, test.f32_scalar(100))};
  }
  {
    const ValueId n = body.input("round", round), x = body.input("x", row);
    const ValueId next = binary(body, Binary::kAdd, n, body.i64_scalar(1));
    body.graph().outputs = {next, binary(body, Binary::kAdd, x, x)};
  }
  const ValueId x = main.input("x", row);
  const auto out = *main.node(Op::kWhile, make_attrs<WhileAttrs>(a), {main.i64_scalar(0), x}, 2);
  main.graph().outputs = out;
  return module;
}

TEST(ProgramCalls, LoopsJumpBack) {
  for (const float first : {1.5f, 300.0f}) {
    const auto back = test::expect_same_written(doubling(), {test::floats({2}, {first, -1})}, "pte");
    ASSERT_TRUE(back);
    EXPECT_EQ(std::ranges::count(module_of(*back).graphs[0].nodes, Op::kWhile, &Node::op), 1);
  }
}

TEST(ProgramCalls, OperatorsThatExecuTorchLacks) {
  TriangleAttrs upper;
  upper.upper = true;
  ReduceAttrs all;
  all.fn = Reduction::kAll;
  Tensor truth(DType::kBool, Shape{3, 4});
  for (int64_t i = 0; i < truth.elements(); ++i) truth.data<uint8_t>()[i] = i % 5 != 0;
  const OpCase cases[] = {{"triu", Op::kTriangle, attrs(upper), {f32({2, 3, 4}), i64({-1})}},
                          {"all", Op::kReduce, attrs(all), {truth, i64({1})}}};
  for (const OpCase& c : cases) {
    SCOPED_TRACE(c.label);
    const auto back = test::expect_same_written(test::one_node(c), {c.inputs[0]}, "pte");
    ASSERT_TRUE(back);
    for (const Node& n : module_of(*back).graphs[0].nodes)
      EXPECT_EQ(n.origin.find("aten::" + std::string(c.label)), std::string::npos) << n.origin;
  }
}

TEST(ProgramCalls, RecurrencesOfTooManyStepsAreNamed) {
  RecurrentAttrs rnn;
  rnn.cell = RecurrentAttrs::Cell::kRnn;
  rnn.hidden = 1;
  const OpCase c{"rnn", Op::kRecurrent, attrs(rnn), {f32({20000, 1, 1}), f32({1, 1, 1}), f32({1, 1, 1})}};
  const auto result = test::written(ModelAccess::make(test::one_node(c)), "pte");
  ASSERT_TRUE(result.ok()) << result.error().message();
  ASSERT_EQ(result->missing.size(), 1u);
  EXPECT_NE(result->missing[0].op.find("Recurrent"), std::string::npos);
}

}  // namespace
}  // namespace smelt
