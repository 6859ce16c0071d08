// Models of a few nodes, written as ONNX, read back and run: the results are those of the model itself.
#include "formats/onnx/writer/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/write_file.h"
#include "convert/convert.h"
#include "formats/onnx/writer/node_writer.h"
#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "runtime/model_access.h"
#include "smelt/custom_operator.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

Tensor ramp(const Shape& shape, float first = -1.25f, float step = 0.17f) {
  Tensor t(DType::kF32, shape);
  for (int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = first + step * static_cast<float>(i % 29);
  return t;
}

QuantPtr params(float scale, int32_t zero_point) {
  Quantization q;
  q.scales = {scale};
  q.zero_points = {zero_point};
  return std::make_shared<const Quantization>(std::move(q));
}

/// A model that a test builds node by node.
struct TestModel {
  std::shared_ptr<Module> module = test::module_of_one_graph();
  std::vector<Datum> fed;

  Builder builder() { return Builder(*module, 0); }
  Graph& graph() { return module->graphs[0]; }
  ValueId input(const std::string& name, Tensor t, QuantPtr quant = nullptr) {
    const ValueId id = builder().input(name, ValueType::tensor(t.dtype(), t.shape(), std::move(quant)));
    fed.emplace_back(std::move(t));
    return id;
  }
  ValueId constant(const std::string& name, Tensor t) { return builder().constant(name, std::move(t)); }
  ValueId i64(std::vector<int64_t> v) { return builder().i64(v); }
  ValueId add(Op op, AttrsPtr attrs, std::vector<ValueId> in) {
    auto r = builder().op(op, std::move(attrs), in);
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message());
    return r.ok() ? *r : kNoValue;
  }
  void output(ValueId id, const std::string& name) {
    graph().value(id).name = name;
    graph().outputs.push_back(id);
  }
};

/// The model as ONNX, read back; `options` as a caller gives them.
Model written(const TestModel& m, const convert::Options& options = {}) {
  const Model model = ModelAccess::make(m.module);
  auto back = test::rewritten(model, "onnx", options);
  EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().message());
  if (!back.ok()) return model;
  EXPECT_EQ(back->format(), "onnx");
  return *back;
}

/// Same names, types and values of all outputs, floats within 1e-5, 8-bit integers within a step.
void expect_same(const TestModel& m, const convert::Options& options = {}) {
  const auto back = test::expect_same_written(m.module, m.fed, "onnx", options);
  if (!back) return;
  const auto ports = ModelAccess::make(m.module).outputs(), back_ports = back->outputs();
  ASSERT_EQ(ports.size(), back_ports.size());
  for (size_t i = 0; i < ports.size(); ++i) EXPECT_EQ(ports[i].name, back_ports[i].name);
}

TEST(OnnxWriter, ConvChannelsLastWithActivation) {
  TestModel m;
  ConvAttrs a;
  a.strides = {2, 2};
  a.auto_pad = AutoPad::kSameUpper;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  a.act = {ActKind::kRelu6};
  const ValueId x = m.input("x", ramp({1, 7, 6, 3}));
  const ValueId y = m.add(Op::kConv, make_attrs<ConvAttrs>(a),
                          {x, m.constant("w", ramp({4, 3, 3, 3}, -0.5f, 0.05f)), m.constant("b", ramp({4}))});
  const ValueId s = m.add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {y, m.constant("c", ramp({4}, 0.5f))});
  m.output(s, "y");
  expect_same(m);
}

TEST(OnnxWriter, DepthwiseFilterBecomesGroups) {
  TestModel m;
  ConvAttrs a;
  a.strides = {1, 1};
  a.pads = {1, 1, 1, 1};
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kISO;
  const ValueId x = m.input("x", ramp({2, 5, 5, 3}));
  m.output(m.add(Op::kConv, make_attrs<ConvAttrs>(a), {x, m.constant("w", ramp({1, 3, 3, 6}))}), "y");
  expect_same(m);
}

TEST(OnnxWriter, QuantizedConvStaysInteger) {
  TestModel m;
  ConvAttrs a;
  a.strides = {1, 1};
  a.pads = {0, 0, 0, 0};
  Tensor x(DType::kI8, Shape{1, 2, 4, 4}), w(DType::kI8, Shape{3, 2, 3, 3});
  for (int64_t i = 0; i < x.elements(); ++i) set_int(x, i, i * 7 % 200 - 100);
  for (int64_t i = 0; i < w.elements(); ++i) set_int(w, i, i * 11 % 90 - 45);
  Quantization q;
  q.kind = Quantization::Kind::kPerAxis;
  q.scales = {0.01f, 0.02f, 0.03f};
  w.set_quant(std::make_shared<const Quantization>(q));
  const ValueId in = m.input("x", x, params(0.05f, 3));
  auto y = m.builder().op_as(Op::kConv, make_attrs<ConvAttrs>(a), {in, m.constant("w", w)},
                             ValueType::tensor(DType::kI8, Shape{1, 3, 2, 2}, params(0.4f, -5)));
  ASSERT_TRUE(y.ok());
  m.output(*y, "y");
  expect_same(m);
  const Model back = written(m);
  const Graph& g = module_of(back).graphs[0];
  EXPECT_EQ(std::ranges::count(g.nodes, Op::kQuantizeLinear, &Node::op), 1);
  EXPECT_EQ(std::ranges::count(g.nodes, Op::kDequantizeLinear, &Node::op), 2);
}

TEST(OnnxWriter, RowsQuantizedAtRunTimeAreThoseOfTheGraph) {
  TestModel m;
  PoolAttrs a;
  a.kernel = a.strides = {1, 1};
  a.layout = Layout::kChannelsLast;
  const ValueId pooled = m.add(Op::kPool, make_attrs<PoolAttrs>(a), {m.input("x", ramp({1, 5, 6, 7}))});
  for (const int axis : {1, 3}) {
    Quantization rows;
    rows.kind = Quantization::Kind::kPerToken;
    rows.axis = axis;
    const ValueType type = ValueType::tensor(DType::kI8, Shape{1, 5, 6, 7}, std::make_shared<const Quantization>(rows));
    const auto q = m.builder().op_as(Op::kQuantize, make_attrs<NoAttrs>(), {pooled}, type);
    ASSERT_TRUE(q.ok());
    m.output(m.add(Op::kDequantize, make_attrs<NoAttrs>(), {*q}), Cat("y", axis));
  }
  expect_same(m);
}

TEST(OnnxWriter, ProductsOfAllForms) {
  for (const bool transposed : {false, true})
    for (const bool biased : {false, true}) {
      TestModel m;
      MatMulAttrs a;
      a.transpose_b = transposed;
      a.alpha = transposed ? 0.5 : 1;
      std::vector<ValueId> in{m.input("x", ramp({2, 3, 4})),
                              m.constant("w", ramp(transposed ? Shape{5, 4} : Shape{4, 5}))};
      if (biased) in.push_back(m.constant("b", ramp({5})));
      m.output(m.add(Op::kMatMul, make_attrs<MatMulAttrs>(a), in), "y");
      expect_same(m);
    }
}

TEST(OnnxWriter, EveryUnaryFunctionThatHasAForm) {
  for (int f = 0; f < static_cast<int>(Unary::kCount); ++f) {
    const auto fn = static_cast<Unary>(f);
    if (fn == Unary::kGamma || fn == Unary::kLgamma || fn == Unary::kDigamma || fn == Unary::kBitNot ||
        fn == Unary::kImag || fn == Unary::kAngle)
      continue;
    SCOPED_TRACE(to_string(fn));
    TestModel m;
    const bool bounded = fn == Unary::kAcosh;
    m.output(m.add(Op::kUnary, make_attrs<UnaryAttrs>(fn, 0.3, 0.8, 0.0),
                   {m.input("x", bounded ? ramp({11}, 1.1f) : ramp({11}, 0.05f, 0.08f))}),
             "y");
    expect_same(m);
  }
}

TEST(OnnxWriter, EveryBinaryFunctionOfReals) {
  for (int f = 0; f < static_cast<int>(Binary::kCount); ++f) {
    const auto fn = static_cast<Binary>(f);
    if (fn >= Binary::kBitAnd && fn <= Binary::kShiftRightLogical) continue;
    SCOPED_TRACE(to_string(fn));
    TestModel m;
    m.output(m.add(Op::kBinary, make_attrs<BinaryAttrs>(fn),
                   {m.input("a", ramp({2, 9}, 0.4f)), m.input("b", ramp({9}, 0.7f, 0.31f))}),
             "y");
    expect_same(m);
  }
}

TEST(OnnxWriter, QuotientsOfSmallIntegersRoundedDown) {
  // The multiple of the divisor below -126 or above 120 is none of int8.
  TestModel m;
  const auto bytes = [](std::vector<int8_t> v) { return Tensor::from<int8_t>(DType::kI8, Shape{4}, v); };
  const ValueId a = m.input("a", bytes({-126, 120, -7, 127})), b = m.input("b", bytes({100, -100, 2, -128}));
  m.output(m.add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kFloorDiv), {a, b}), "y");
  expect_same(m);
}

TEST(OnnxWriter, QuantizedFloat16OfAnOldOpset) {
  TestModel m;
  const auto f16 = [](const Shape& shape, float first, float step) {
    Tensor t(DType::kF16, shape);
    for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, first + step * static_cast<float>(i));
    return t;
  };
  QuantizeLinearAttrs a;
  a.to = DType::kI8;
  const ValueId scale = m.constant("scale", f16({}, 0.25f, 0)), zero = m.constant("zero", Tensor(DType::kI8, Shape{}));
  const ValueId q =
      m.add(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(a), {m.input("x", f16({9}, -2, 0.5f)), scale, zero});
  a.to = DType::kF16;
  m.output(m.add(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(a), {q, scale, zero}), "y");
  expect_same(m);
  convert::Options old;
  old.write.opset = 17;
  expect_same(m, old);
  const auto result = test::written(ModelAccess::make(m.module), "onnx", old);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->missing.empty());
}

TEST(OnnxWriter, WindowsThatOldOpsetsLack) {
  for (const bool ceil : {false, true}) {
    TestModel m;
    PoolAttrs p;
    p.kind = PoolKind::kLp;
    p.kernel = {2, 2};
    p.strides = {2, 2};
    p.ceil_mode = ceil;
    m.output(m.add(Op::kPool, make_attrs<PoolAttrs>(p), {m.input("x", ramp({1, 2, 5, 5}))}), "y");
    expect_same(m);
    convert::Options o;
    o.write.opset = 17;
    const auto result = test::written(ModelAccess::make(m.module), "onnx", o);
    ASSERT_TRUE(result.ok());
    ASSERT_FALSE(result->files.empty());
    const auto bytes = result->files[0].bytes.joined();
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    EXPECT_EQ(text.find("LpPool") == std::string_view::npos, ceil);
  }
}

TEST(OnnxWriter, PoolsReductionsAndNormalizations) {
  TestModel m;
  const ValueId x = m.input("x", ramp({1, 6, 6, 4}));
  PoolAttrs p;
  p.kind = PoolKind::kAverage;
  p.kernel = {3, 3};
  p.strides = {2, 2};
  p.auto_pad = AutoPad::kSameUpper;
  p.layout = Layout::kChannelsLast;
  const ValueId pooled = m.add(Op::kPool, make_attrs<PoolAttrs>(p), {x});
  ReduceAttrs r;
  r.fn = Reduction::kVar;
  r.correction = 1;
  const ValueId variance = m.add(Op::kReduce, make_attrs<ReduceAttrs>(r), {pooled, m.i64({1, 2})});
  m.output(m.add(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {variance}), "probabilities");
  LayerNormAttrs l;
  l.rms = true;
  m.output(m.add(Op::kLayerNorm, make_attrs<LayerNormAttrs>(l), {pooled, m.constant("scale", ramp({4}))}), "normal");
  expect_same(m);
  convert::Options old;
  old.write.opset = 13;
  expect_same(m, old);
}

TEST(OnnxWriter, SlicesPadsAndIndices) {
  TestModel m;
  const ValueId x = m.input("x", ramp({3, 5, 4}));
  StridedSliceAttrs s;
  s.shrink_axis_mask = 1;
  s.end_mask = 4;
  const ValueId cut = m.add(Op::kStridedSlice, make_attrs<StridedSliceAttrs>(s),
                            {x, m.i64({-1, 1, 0}), m.i64({0, 5, 0}), m.i64({1, 2, 1})});
  PadAttrs p;
  p.mode = PadAttrs::Mode::kSymmetric;
  p.pairs = true;
  m.output(m.add(Op::kPad, make_attrs<PadAttrs>(p), {cut, m.i64({1, 2, 0, 3})}), "padded");
  m.output(m.add(Op::kIndexTensors, make_attrs<IndexAttrs>(), {x, kNoValue, m.i64({4, 0}), m.i64({1, 3})}), "indexed");
  const ValueId put = m.add(Op::kIndexPut, make_attrs<IndexAttrs>(),
                            {x, m.constant("v", ramp({2})), kNoValue, m.i64({4, 0}), m.i64({1, 3})});
  m.output(put, "put");
  m.output(m.add(Op::kReverse, make_attrs<NoAttrs>(), {x, m.i64({1})}), "reversed");
  expect_same(m);
}

TEST(OnnxWriter, WhileBecomesALoop) {
  TestModel m;
  m.module->graphs.resize(3);
  const ValueType scalar = ValueType::tensor(DType::kF32, Shape{});
  Builder condition(*m.module, 1), body(*m.module, 2);
  const ValueId c = condition.input("c", scalar), b = body.input("b", scalar);
  auto less = condition.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kLess), {c, condition.f32_scalar(40)});
  auto twice = body.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {b, body.f32_scalar(3)});
  ASSERT_TRUE(less.ok() && twice.ok());
  condition.graph().outputs = {*less};
  body.graph().outputs = {*twice};
  WhileAttrs w;
  w.cond_graph = 1;
  w.body_graph = 2;
  const ValueId x = m.input("x", Tensor::from<float>(DType::kF32, Shape{}, std::vector<float>{1.5f}));
  auto y = m.builder().op_as(Op::kWhile, make_attrs<WhileAttrs>(w), {x}, scalar);
  ASSERT_TRUE(y.ok());
  m.output(*y, "y");
  expect_same(m);
}

TEST(OnnxWriter, AVariableIsAnInputWithADefaultAndAnOutput) {
  TestModel m;
  m.module->states.push_back({"counter", ValueType::tensor(DType::kF32, Shape{2}), Datum()});
  const ValueId x = m.input("x", ramp({2}));
  auto now = m.builder().op_as(Op::kStateRead, make_attrs<StateAttrs>(0), {}, ValueType::tensor(DType::kF32, Shape{2}));
  ASSERT_TRUE(now.ok());
  const ValueId sum = m.add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, *now});
  ASSERT_TRUE(m.builder().node(Op::kStateWrite, make_attrs<StateAttrs>(0), {sum}, 0).ok());
  m.output(sum, "sum");
  const Model back = written(m);
  ASSERT_EQ(back.inputs().size(), 2u);
  EXPECT_EQ(back.inputs()[1].name, "counter");
  EXPECT_TRUE(back.inputs()[1].optional);
  ASSERT_EQ(back.outputs().size(), 2u);
  EXPECT_EQ(back.outputs()[1].name, "counter_next");
  const auto first = test::run_on_reference(back, {m.fed[0], Datum()}),
             second = test::run_on_reference(back, {m.fed[0], first[1]});
  EXPECT_FLOAT_EQ(second[0].tensor.data<float>()[0], 2 * m.fed[0].tensor.data<float>()[0]);
}

TEST(OnnxWriter, NamesDocumentationAndDimensionsStay) {
  TestModel m;
  const ValueId x = m.builder().input("x", ValueType::tensor(DType::kF32, Shape{-1, 3}));
  m.graph().value(x).dim_names = {"batch", ""};
  m.graph().value(x).doc = "pixels";
  m.module->metadata = {{"author", "a"}, {"author", "b"}};
  m.output(m.add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {x}), "y");
  const Model back = written(m);
  ASSERT_EQ(back.inputs()[0].dim_names.size(), 2u);
  EXPECT_EQ(back.inputs()[0].dim_names[0], "batch");
  EXPECT_EQ(module_of(back).graphs[0].value(module_of(back).graphs[0].inputs[0]).doc, "pixels");
  const auto& data = module_of(back).metadata;
  EXPECT_NE(std::ranges::find(data, std::pair<std::string, std::string>("author 2", "b")), data.end());
}

TEST(OnnxWriter, ListsAllThatItCannotWrite) {
  TestModel m;
  const ValueId x = m.input("x", ramp({4}));
  const ValueId g = m.add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kGamma), {x});
  m.output(m.add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kDigamma), {g}), "y");
  auto result = test::written(ModelAccess::make(m.module), "onnx");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->files.empty());
  ASSERT_EQ(result->missing.size(), 2u);
  EXPECT_EQ(result->missing[0].op, "Unary");
  EXPECT_EQ(result->missing[0].type, "float32");
  EXPECT_NE(result->missing[1].place.find("digamma"), std::string::npos);
}

TEST(OnnxWriter, NamesInputsWhoseElementTypeIsUnknown) {
  TestModel m;
  m.output(m.input("x", ramp({4})), "y");
  m.builder().input("none", ValueType::optional(ValueType::tensor(DType::kInvalid)));
  auto result = test::written(ModelAccess::make(m.module), "onnx");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->files.empty());
  ASSERT_EQ(result->missing.size(), 1u);
  EXPECT_EQ(result->missing[0].op, "input");
  EXPECT_NE(result->missing[0].place.find("'none'"), std::string::npos);
}

TEST(OnnxWriter, AnOldOpsetRefusesNewOperators) {
  TestModel m;
  m.output(m.add(Op::kTriangle, make_attrs<TriangleAttrs>(), {m.input("x", ramp({3, 3}))}), "y");
  convert::Options o;
  o.write.opset = 13;
  auto result = test::written(ModelAccess::make(m.module), "onnx", o);
  ASSERT_TRUE(result.ok());
  // The rule of Triangle says it in operators that opset 13 has, or it is listed.
  if (!result->missing.empty()) {
    EXPECT_NE(result->missing[0].place.find("opset 14"), std::string::npos);
  }
  o.write.opset = 12;
  EXPECT_FALSE(test::written(ModelAccess::make(m.module), "onnx", o).ok());
  o.write.opset = 99;
  EXPECT_FALSE(test::written(ModelAccess::make(m.module), "onnx", o).ok());
}

TEST(OnnxWriter, LargeConstantsGoToADataFile) {
  TestModel m;
  const ValueId x = m.input("x", ramp({2, 64}));
  m.output(m.add(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, m.constant("w", ramp({64, 32}))}), "y");
  convert::Options o;
  o.write.external_above = 1000;
  o.write.stem = "big";
  auto result = test::written(ModelAccess::make(m.module), "onnx", o);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->files.size(), 2u);
  EXPECT_EQ(result->files[1].suffix, ".onnx.data");
  EXPECT_EQ(result->files[1].bytes.size(), 64u * 32 * 4);
  TemporaryFolder folder;
  for (const auto& f : result->files) {
    const auto bytes = f.bytes.joined();
    const std::string path = (folder.path() / (f.suffix.empty() ? "big.onnx" : "big" + f.suffix)).string();
    ASSERT_TRUE(write_file(path, {{reinterpret_cast<const char*>(bytes->data()), bytes->size()}}).ok());
  }
  auto back = Model::load((folder.path() / "big.onnx").string());
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(get_double(test::run_on_reference(*back, m.fed)[0].tensor, 5),
            get_double(test::run_on_reference(ModelAccess::make(m.module), m.fed)[0].tensor, 5));
}

TEST(OnnxWriter, HalfPrecisionWeightsAreCastAtRunTime) {
  TestModel m;
  const ValueId x = m.input("x", ramp({2, 8}));
  m.output(m.add(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, m.constant("w", ramp({8, 4}, -1, 0.125f))}), "y");
  convert::Options o;
  o.write.float16_weights = true;
  expect_same(m, o);  // the weights are float16 values
  const Model back = written(m, o);
  EXPECT_TRUE(std::ranges::any_of(module_of(back).graphs[0].values,
                                  [](const Value& v) { return v.constant && v.constant->dtype() == DType::kF16; }));
}

TEST(OnnxWriter, Int8QuantizationKeepsTheResultWithinSteps) {
  TestModel m;
  ConvAttrs a;
  a.strides = {1, 1};
  a.pads = {1, 1, 1, 1};
  const ValueId x = m.input("x", ramp({1, 3, 8, 8}));
  ValueId y = m.add(Op::kConv, make_attrs<ConvAttrs>(a),
                    {x, m.constant("w", ramp({4, 3, 3, 3}, -0.3f, 0.02f)), m.constant("b", ramp({4}))});
  y = m.add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {y});
  m.output(y, "y");
  for (const auto rule : {convert::RangeRule::kMinMax, convert::RangeRule::kPercentile, convert::RangeRule::kEntropy}) {
    convert::Options o;
    o.quantization.int8 = true;
    o.quantization.rule = rule;
    o.quantization.calibration = {m.fed};
    const Model back = written(m, o);
    EXPECT_GT(std::ranges::count(module_of(back).graphs[0].nodes, Op::kDequantizeLinear, &Node::op), 0);
    const auto want = test::run_on_reference(ModelAccess::make(m.module), m.fed),
               got = test::run_on_reference(back, m.fed);
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < want[0].tensor.elements(); ++i) {
      const double w = get_double(want[0].tensor, i), d = w - get_double(got[0].tensor, i);
      signal += w * w;
      noise += d * d;
    }
    EXPECT_LT(noise, signal / (rule == convert::RangeRule::kEntropy ? 20 : 1000));
  }
  convert::Options kept;
  kept.quantization.int8 = true;
  kept.quantization.calibration = {m.fed};
  kept.quantization.keep_float = {"Conv"};
  EXPECT_EQ(std::ranges::count(module_of(written(m, kept)).graphs[0].nodes, Op::kDequantizeLinear, &Node::op), 0);
}

TEST(OnnxWriter, Int4WeightsHaveAScaleForEachBlock) {
  TestModel m;
  m.output(m.add(Op::kMatMul, make_attrs<MatMulAttrs>(), {m.input("x", ramp({2, 64})), m.constant("w", ramp({64, 8}))}),
           "y");
  convert::Options o;
  o.quantization.int4_block = 32;
  const Model back = written(m, o);
  EXPECT_TRUE(std::ranges::any_of(module_of(back).graphs[0].nodes,
                                  [](const Node& n) { return n.origin == "com.microsoft.MatMulNBits"; }));
  const auto want = test::run_on_reference(ModelAccess::make(m.module), m.fed),
             got = test::run_on_reference(back, m.fed);
  for (int64_t i = 0; i < want[0].tensor.elements(); ++i)
    EXPECT_NEAR(get_double(got[0].tensor, i), get_double(want[0].tensor, i), 8);
}

TEST(OnnxWriter, EveryOperatorOfTheTableIsThereOnce) {
  std::map<Op, int> count;
  for (const onnx::OpWriter* w : onnx::all_op_writers()) {
    EXPECT_STRNE(w->as, "") << to_string(w->op);
    EXPECT_EQ(++count[w->op], 1) << to_string(w->op);
    EXPECT_EQ(onnx::find_op_writer(w->op), w);
  }
}

}  // namespace
}  // namespace smelt
