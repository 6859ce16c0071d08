// Operators that TFLite has no operator for, written as others, read back and run: results are those of the graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/detection/detection.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/pool/pool.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;
using test::floats;
using test::i64;
using test::OpCase;

/// Checks a case as TFLite, with the shapes of its fed inputs known or open.
void expect_decomposed(const OpCase& c, bool open_shapes = false) {
  SCOPED_TRACE(c.label);
  test::OpRunner runner(c);
  if (open_shapes) runner.unknown_shapes();
  const auto module = runner.module();
  ASSERT_TRUE(module.ok()) << module.error().message();
  std::vector<Datum> fed;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.inputs[i].defined() && !c.is_constant(i)) fed.emplace_back(c.inputs[i]);
  EXPECT_TRUE(test::expect_same_written(*module, fed, "tflite"));
}

PoolAttrs pool(PoolKind kind, std::vector<int64_t> kernel, std::vector<int64_t> strides) {
  PoolAttrs a;
  a.kind = kind;
  a.kernel = std::move(kernel);
  a.strides = std::move(strides);
  return a;
}

TEST(TfliteDecomposed, PoolsOfAnyWindow) {
  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage, PoolKind::kLp}) {
    PoolAttrs volume = pool(kind, {2, 3, 2}, {1, 2, 2});
    volume.pads = {1, 0, 0, 0, 1, 1};
    volume.ceil_mode = true;
    expect_decomposed({"3-D", Op::kPool, make_attrs<PoolAttrs>(volume), {f32({1, 2, 4, 6, 5})}});
    PoolAttrs gaps = pool(kind, {2, 3}, {1, 2});
    gaps.dilations = {2, 1};
    gaps.pads = {1, 1, 0, 1};
    gaps.count_include_pad = true;
    gaps.p = 3;
    if (kind != PoolKind::kLp) gaps.p = 2;
    expect_decomposed({"dilated", Op::kPool, make_attrs<PoolAttrs>(gaps), {f32({2, 3, 7, 8})}});
    gaps.layout = Layout::kChannelsLast;
    expect_decomposed({"channels last", Op::kPool, make_attrs<PoolAttrs>(gaps), {f32({2, 7, 8, 3})}});
  }
}

TEST(TfliteDecomposed, PlacesOfMaxima) {
  using Index = PoolAttrs::Index;
  for (const Index index : {Index::kTensorRow, Index::kTensorColumn, Index::kPlane}) {
    PoolAttrs a = pool(PoolKind::kMax, {2, 3}, {2, 2});
    a.pads = {1, 0, 0, 1};
    a.index = index;
    expect_decomposed({"max", Op::kPool, make_attrs<PoolAttrs>(a), {f32({2, 2, 5, 6})}, {}, {{}, {}}});
  }
}

TEST(TfliteDecomposed, PadsGivenAtRunTime) {
  for (const auto mode : {PadAttrs::Mode::kConstant, PadAttrs::Mode::kReflect, PadAttrs::Mode::kSymmetric,
                          PadAttrs::Mode::kEdge, PadAttrs::Mode::kWrap}) {
    PadAttrs a;
    a.mode = mode;
    expect_decomposed({to_string(mode), Op::kPad, make_attrs<PadAttrs>(a), {f32({4, 5}), i64({1, 2, 0, 3})}}, true);
    expect_decomposed(
        {to_string(mode), Op::kPad, make_attrs<PadAttrs>(a), {f32({4, 5}), i64({2, 1}), floats({}, {1.5}), i64({-1})}});
  }
  expect_decomposed({"crop", Op::kPad, make_attrs<PadAttrs>(PadAttrs{}), {f32({4, 5}), i64({-1, 2, 0, -3})}});
}

TEST(TfliteDecomposed, SlicesGivenAtRunTime) {
  const Tensor x = f32({4, 5, 6});
  expect_decomposed({"ends", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({1, -3, 0}), i64({3, 100, 2})}});
  expect_decomposed({"last", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({-7, 2}), i64({-1, INT64_MAX}), i64({-2, 2})}});
  expect_decomposed({"step", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({4}), i64({100}), i64({1}), i64({3})}, {3, 4}});
  expect_decomposed({"empty", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({3}), i64({1}), i64({1})}, {3}});
  expect_decomposed({"middle", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({-2}), i64({INT64_MAX}), i64({1})}, {2, 3}});
  expect_decomposed({"axes", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({1, -4}), i64({INT64_MAX, -1}), i64({0, -1})}});
  expect_decomposed(
      {"steps", Op::kSlice, make_attrs<NoAttrs>(), {x, i64({-1, 0}), i64({INT64_MIN, 6}), i64({1, 2}), i64({-2, 3})}});
}

RecurrentAttrs recurrent(RecurrentAttrs::Cell cell, bool backward, bool batch_first) {
  RecurrentAttrs a;
  a.cell = cell;
  a.hidden = 3;
  a.backward = backward;
  a.batch_first = batch_first;
  return a;
}

OpCase recurrent_case(const RecurrentAttrs& a, const Tensor& lengths = {}) {
  const int64_t gates = a.cell == RecurrentAttrs::Cell::kLstm ? 4 : a.cell == RecurrentAttrs::Cell::kGru ? 3 : 1;
  const int64_t directions = a.backward ? 2 : 1;
  const Shape x = a.batch_first ? Shape{2, 4, 5} : Shape{4, 2, 5};
  const Shape state = a.batch_first ? Shape{2, directions, 3} : Shape{directions, 2, 3};
  OpCase c{to_string(a.cell),
           Op::kRecurrent,
           make_attrs<RecurrentAttrs>(a),
           {f32(x), f32({directions, gates * 3, 5}, 2), f32({directions, gates * 3, 3}, 3),
            f32({directions, gates * 6}, 4), lengths, f32(state, 5)},
           {1, 2, 3},
           {{}, {}}};
  if (a.cell != RecurrentAttrs::Cell::kLstm) return c;
  c.outputs.resize(3);
  c.inputs.push_back(f32(state, 6));
  c.inputs.push_back(f32({directions, 9}, 7));
  c.constants.push_back(7);
  return c;
}

TEST(TfliteDecomposed, RecurrentLayers) {
  for (const auto cell : {RecurrentAttrs::Cell::kRnn, RecurrentAttrs::Cell::kGru, RecurrentAttrs::Cell::kLstm})
    for (const bool backward : {false, true}) {
      RecurrentAttrs a = recurrent(cell, backward, backward);
      expect_decomposed(recurrent_case(a));
      a.clip = 0.5;
      a.linear_before_reset = true;
      a.input_forget = true;
      expect_decomposed(recurrent_case(a));
      a.batch_first = false;
      // Steps and batch are known at run time: a WHILE.
      expect_decomposed(recurrent_case(a), true);
      Tensor lengths(DType::kI32, Shape{2});
      lengths.data<int32_t>()[0] = 2;
      lengths.data<int32_t>()[1] = 4;
      expect_decomposed(recurrent_case(a, lengths));
      expect_decomposed(recurrent_case(a, lengths), true);
    }
}

TEST(TfliteDecomposed, ActivationsOfGates) {
  const std::vector<std::string> all{"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
                                     "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  for (const std::string& name : all) {
    RecurrentAttrs a = recurrent(RecurrentAttrs::Cell::kRnn, false, false);
    a.activations = {name};
    a.alpha = {0.3};
    a.beta = {0.2};
    OpCase c = recurrent_case(a);
    c.label = name;
    expect_decomposed(c);
  }
}

TEST(TfliteDecomposed, SampledImages) {
  using A = GridSampleAttrs;
  Tensor grid = test::random_tensor(DType::kF32, Shape{2, 3, 4, 2}, -1.4, 1.4, 3);
  grid.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  for (const auto mode : {A::Mode::kLinear, A::Mode::kNearest, A::Mode::kCubic})
    for (const auto padding : {A::Padding::kZeros, A::Padding::kBorder, A::Padding::kReflection})
      for (const bool align : {false, true}) {
        A a;
        a.mode = mode;
        a.padding = padding;
        a.align_corners = align;
        expect_decomposed({Cat(to_string(mode), " ", to_string(padding), " ", align),
                           Op::kGridSample,
                           make_attrs<A>(a),
                           {f32({2, 3, 5, 6}), grid}});
      }
  const Tensor points = test::random_tensor(DType::kF32, Shape{1, 2, 2, 3, 3}, -1, 1, 4);
  expect_decomposed({"3-D", Op::kGridSample, make_attrs<A>(A{}), {f32({1, 2, 3, 4, 5}), points}});
}

TEST(TfliteDecomposed, RotaryEmbeddings) {
  for (const bool interleaved : {false, true})
    for (const int64_t rotary : {0, 4}) {
      RotaryAttrs a;
      a.interleaved = interleaved;
      a.rotary_dim = rotary;
      a.num_heads = 2;
      a.scale = rotary ? 0.5 : 1;
      const int64_t half = rotary ? 2 : 4;
      const auto attrs = make_attrs<RotaryAttrs>(a);
      const Tensor cosine = f32({6, half}, 2), sine = f32({6, half}, 3);
      expect_decomposed({"offset", Op::kRotary, attrs, {f32({2, 3, 16}), cosine, sine, i64({2})}, {1, 2}});
      expect_decomposed({"heads first", Op::kRotary, attrs, {f32({2, 2, 3, 8}), cosine, sine, i64({4, 0, 1})}});
      expect_decomposed({"whole table", Op::kRotary, attrs, {f32({2, 3, 16}), cosine, sine}, {1, 2}});
    }
}

TEST(TfliteDecomposed, Attention) {
  AttentionAttrs a;
  a.num_heads = 4;
  a.kv_heads = 2;
  a.softcap = 2;
  const Tensor q = f32({2, 3, 16}), k = f32({2, 5, 8}, 2), v = f32({2, 5, 12}, 3);
  Tensor mask(DType::kBool, Shape{3, 5}), used(DType::kI32, Shape{2});
  for (int64_t i = 0; i < 15; ++i) mask.data<uint8_t>()[i] = i % 4 != 0 && i < 10;
  used.data<int32_t>()[0] = 3;
  used.data<int32_t>()[1] = 5;
  expect_decomposed({"groups, a row without keys", Op::kAttention, make_attrs<AttentionAttrs>(a), {q, k, v, mask}});
  a.causal = a.causal_from_end = true;
  a.window = 2;
  expect_decomposed({"window, lengths, sinks",
                     Op::kAttention,
                     make_attrs<AttentionAttrs>(a),
                     {q, k, v, f32({1, 1, 3, 5}, 4), {}, {}, used, f32({4}, 5)}});
  a.kv_heads = 4;
  expect_decomposed({"cache",
                     Op::kAttention,
                     make_attrs<AttentionAttrs>(a),
                     {q, f32({2, 3, 16}, 2), f32({2, 3, 16}, 3), {}, f32({2, 4, 2, 4}, 4), f32({2, 4, 2, 4}, 5)},
                     {},
                     {{}, {}, {}}});
  a.window = -1;
  expect_decomposed({"open shapes",
                     Op::kAttention,
                     make_attrs<AttentionAttrs>(AttentionAttrs{}),
                     {f32({2, 3, 4, 8}), f32({2, 3, 5, 8}, 2), f32({2, 3, 5, 8}, 3)}});
}

TEST(TfliteDecomposed, Selections) {
  const Tensor boxes = test::random_tensor(DType::kF32, Shape{2, 9, 4}, 0, 1, 3);
  const Tensor scores = test::random_tensor(DType::kF32, Shape{2, 3, 9}, 0, 1, 4);
  for (const bool center : {false, true}) {
    NmsAttrs a;
    a.center = center;
    const auto attrs = make_attrs<NmsAttrs>(a);
    expect_decomposed({"thresholds",
                       Op::kNonMaxSuppression,
                       attrs,
                       {boxes, scores, i64({4}), floats({1}, {0.3}), floats({1}, {0.2})},
                       {2, 3, 4}});
    expect_decomposed({"without", Op::kNonMaxSuppression, attrs, {boxes, scores, i64({20})}, {2}});
    const Tensor equal = test::random_tensor(DType::kI32, Shape{2, 3, 9}, 0, 2, 4);
    Tensor levels(DType::kF32, equal.shape());
    for (int64_t i = 0; i < levels.elements(); ++i)
      levels.data<float>()[i] = static_cast<float>(equal.data<int32_t>()[i]);
    expect_decomposed(
        {"equal scores", Op::kNonMaxSuppression, attrs, {boxes, levels, i64({4}), floats({1}, {0.3})}, {2, 3}});
    // Boxes without a height overlap nothing.
    Tensor flat = boxes;
    for (int64_t i = 0; i < flat.elements(); i += 8)
      flat.data<float>()[i + 2] = center ? flat.data<float>()[i + 2] : flat.data<float>()[i];
    for (int64_t i = 0; center && i < flat.elements(); i += 8) flat.data<float>()[i + 3] = 0;
    expect_decomposed({"flat", Op::kNonMaxSuppression, attrs, {flat, scores, i64({20})}, {2}});
  }
}

TEST(TfliteDecomposed, ScatteredUpdates) {
  using Reduce = ScatterAttrs::Reduce;
  const Tensor at = test::tensor(DType::kI64, Shape{3, 2}, {0, -1, 2, 1, 0, 3}), updates = f32({3, 2}, 4);
  for (const Reduce r : {Reduce::kNone, Reduce::kAdd, Reduce::kMul, Reduce::kMin, Reduce::kMax}) {
    ScatterAttrs a;
    a.axis = 1;
    a.reduction = r;
    const auto attrs = make_attrs<ScatterAttrs>(a);
    const OpCase elements{to_string(r), Op::kScatterElements, attrs, {f32({3, 4}), at, updates}};
    expect_decomposed(elements);
    if (r == Reduce::kNone || r == Reduce::kAdd) expect_decomposed(elements, true);
    const Tensor rows = test::tensor(DType::kI64, Shape{2, 1}, {2, 0});
    expect_decomposed({to_string(r), Op::kScatterND, attrs, {f32({3, 4}), rows, f32({2, 4}, 5)}});
  }
  ScatterAttrs cache;
  cache.axis = 2;
  expect_decomposed({"cache",
                     Op::kTensorScatter,
                     make_attrs<ScatterAttrs>(cache),
                     {f32({2, 3, 6, 4}), f32({2, 3, 2, 4}, 2), i64({1, 4})}});
}

TEST(TfliteDecomposed, LookUpsBehindABatch) {
  GatherAttrs a;
  a.batch_dims = 1;
  a.negative = true;
  const Tensor at = test::tensor(DType::kI64, Shape{2, 3, 1}, {0, -1, 2, 1, 1, -3});
  expect_decomposed({"batch", Op::kGatherND, make_attrs<GatherAttrs>(a), {f32({2, 3, 4}), at}});
  a.batch_dims = 0;
  expect_decomposed({"open", Op::kGatherND, make_attrs<GatherAttrs>(a), {f32({2, 3, 4}), i64({-1})}}, true);
}

TEST(TfliteDecomposed, UnstackOfInt64) {
  const Tensor x = test::random_tensor(DType::kI64, Shape{2, 3}, -9, 9, 1);
  test::OpRunner runner({"unstack", Op::kUnstack, make_attrs<AxisAttrs>(-1), {x}});
  runner.outputs(3);
  const auto module = runner.module();
  ASSERT_TRUE(module.ok()) << module.error().message();
  const auto back = test::expect_same_written(*module, {Datum(x)}, "tflite");
  ASSERT_TRUE(back);
  for (const Node& n : module_of(*back).graphs[0].nodes) EXPECT_EQ(n.op, Op::kGather);
}

TEST(TfliteDecomposed, ElementsFromTheEndOfAnOpenDimension) {
  GatherAttrs a;
  a.axis = 1;
  Tensor at(DType::kI64, Shape{2, 3});
  for (int64_t i = 0; i < at.elements(); ++i) at.data<int64_t>()[i] = i - 4;
  expect_decomposed({"open", Op::kGatherElements, make_attrs<GatherAttrs>(a), {f32({2, 4}), at}, {1}}, true);
}

TEST(TfliteDecomposed, TransposedConvolutions) {
  ConvTransposeAttrs a;
  a.filter = FilterLayout::kIOS;
  a.strides = {2, 2};
  a.pads = {1, 0, 1, 1};
  a.output_padding = {1, 0};
  const OpCase image{
      "open", Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), {f32({1, 4, 5, 6}), f32({4, 3, 3, 2}, 2)}, {1}};
  expect_decomposed(image, true);
  a.strides = {2, 1, 2};
  a.pads = {1, 0, 0, 0, 1, 0};
  a.output_padding = {};
  expect_decomposed({"3-D",
                     Op::kConvTranspose,
                     make_attrs<ConvTransposeAttrs>(a),
                     {f32({1, 4, 3, 4, 3}), f32({4, 3, 2, 3, 2}, 2), f32({3}, 3)},
                     {1, 2}});
}

TEST(TfliteDecomposed, ConvTransposeOfFedFilters) {
  // The shape of the result names as many channels as the filter has.
  ConvTransposeAttrs line;
  line.filter = FilterLayout::kIOS;
  line.strides = {2};
  line.pads = {1, 0};
  const Tensor row = f32({1, 2, 5}), filter = f32({2, 3, 4}, 2);
  const auto module =
      test::OpRunner({"computed", Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(line), {row, filter}}).module();
  ASSERT_TRUE(module.ok()) << module.error().message();
  const auto back = test::expect_same_written(*module, {row, filter}, "tflite");
  ASSERT_TRUE(back);
  const Graph& g = module_of(*back).graphs[0];
  const auto node = std::ranges::find_if(g.nodes, [](const Node& n) { return n.op == Op::kConvTranspose; });
  ASSERT_NE(node, g.nodes.end());
  ASSERT_EQ(node->inputs.size(), 4u);
  const auto& sizes = g.value(node->inputs[3]).constant;
  ASSERT_TRUE(sizes);
  EXPECT_EQ(get_double(*sizes, 3), 3);
}

TEST(TfliteDecomposed, LastPlacesAndMaxima) {
  ArgReduceAttrs a;
  a.axis = -1;
  a.select_last = true;
  const Tensor x = test::random_tensor(DType::kI32, Shape{4, 6}, 0, 3, 3);
  for (const bool min : {false, true}) {
    a.min = a.keep_dims = min;
    expect_decomposed({"last", Op::kArgReduce, make_attrs<ArgReduceAttrs>(a), {x}});
  }
  SoftmaxAttrs hard;
  hard.kind = SoftmaxAttrs::Kind::kHardmax;
  hard.axis = 1;
  for (const bool flatten : {false, true}) {
    hard.flatten = flatten;
    expect_decomposed({"hardmax", Op::kSoftmax, make_attrs<SoftmaxAttrs>(hard), {f32({3, 4, 5})}});
  }
}

TEST(TfliteDecomposed, PlacesOfSeveralDimensions) {
  const Tensor x = f32({2, 4, 5, 3}), one = i64({-2}), some = i64({3, 0, 1}), none;
  const Tensor rows = test::tensor(DType::kI64, Shape{2, 1}, {1, -2});
  struct Places {
    const char* label;
    std::vector<Tensor> indices;
    Shape result;  ///< of x[...]
  };
  const Places all[] = {{"one place", {none, one}, {2, 1, 5, 3}},
                        {"one dimension", {none, some}, {2, 3, 5, 3}},
                        {"adjacent", {none, rows, some}, {2, 2, 3, 3}},
                        {"apart", {rows, none, some}, {2, 3, 4, 3}}};
  for (const Places& p : all) {
    std::vector<Tensor> in{x};
    in.insert(in.end(), p.indices.begin(), p.indices.end());
    expect_decomposed({p.label, Op::kIndexTensors, make_attrs<IndexAttrs>(), in});
    for (const bool accumulate : {false, true})
      for (const Shape& values : {p.result, Shape{p.result.back()}, Shape{}}) {
        IndexAttrs a;
        a.accumulate = accumulate;
        in = {x, f32(values, 2)};
        in.insert(in.end(), p.indices.begin(), p.indices.end());
        expect_decomposed({p.label, Op::kIndexPut, make_attrs<IndexAttrs>(a), in});
      }
  }
}

TEST(TfliteDecomposed, ShapesThatFollowFromThoseOfInputs) {
  // Sizes that pass through float32 are not known when the model is loaded.
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const Tensor x = f32({1, 2, 3, 4}), grid = f32({1, 5, 6, 2}, 2);
  const ValueId in = b.input("x", ValueType::tensor(DType::kF32, x.shape()));
  const ValueId places = b.input("grid", ValueType::tensor(DType::kF32, grid.shape()));
  const auto shape = b.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {in});
  const auto real = b.op(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {*shape});
  const auto size = b.op(Op::kCast, make_attrs<CastAttrs>(DType::kI64), {*real});
  const auto image = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {in, *size});
  ASSERT_FALSE(b.type(*image).is_static());
  const auto y = b.op(Op::kGridSample, make_attrs<GridSampleAttrs>(), {*image, places});
  ASSERT_TRUE(y.ok());
  b.graph().outputs.push_back(*y);
  EXPECT_TRUE(test::expect_same_written(module, {x, grid}, "tflite"));
}

}  // namespace
}  // namespace smelt
