#include "compare/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iostream>

#include "base/correlation.h"
#include "compare/quantization.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "support/paths.h"
#include "support/planted_faults.h"

namespace smelt {
namespace {

Tensor random_tensor(const Shape& shape, std::mt19937_64& random, double scale = 1) {
  Tensor t(DType::kF32, shape);
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  for (int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = normal(random);
  return t;
}

/// Convolutions with batch normalization, a residual addition, LeakyReLU, average pooling, a matrix and softmax.
std::shared_ptr<Module> small_network() {
  auto m = std::make_shared<Module>();
  m->name = "small";
  m->graphs.emplace_back();
  m->methods.push_back({.name = "main"});
  std::mt19937_64 random(1);
  Builder b(*m, 0);
  ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 8, 9, 9}));
  int named = 0;
  const auto op = [&](Op o, AttrsPtr attrs, std::vector<ValueId> in) {
    const std::string name = Cat("n", named++);
    b.at(to_string(o), name, name);
    const ValueId made = b.op(o, std::move(attrs), in).value();
    b.graph().value(made).name = name + "_out";
    return made;
  };
  for (int layer = 0; layer < 3; ++layer) {
    ConvAttrs conv;
    conv.strides = conv.dilations = {1, 1};
    conv.pads = {1, 1, 1, 1};
    const ValueId w = b.constant("w", random_tensor({8, 8, 3, 3}, random, 0.2));
    const ValueId bias = b.constant("b", random_tensor({8}, random));
    ValueId y = op(Op::kConv, make_attrs<ConvAttrs>(conv), {x, w, bias});
    Tensor var = random_tensor({8}, random);
    for (int i = 0; i < 8; ++i) var.data<float>()[i] = 0.1f + std::abs(var.data<float>()[i]);
    y = op(Op::kBatchNorm, make_attrs<BatchNormAttrs>(),
           {y, b.constant("s", random_tensor({8}, random)), b.constant("o", random_tensor({8}, random)),
            b.constant("m", random_tensor({8}, random)), b.constant("v", std::move(var))});
    y = op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kLeakyRelu, 0.1), {y});
    if (layer > 0) y = op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, y});
    x = y;
  }
  PoolAttrs pool;
  pool.kind = PoolKind::kAverage;
  pool.kernel = pool.strides = {3, 3};
  pool.dilations = {1, 1};
  pool.pads = {0, 0, 0, 0};
  x = op(Op::kPool, make_attrs<PoolAttrs>(pool), {x});
  x = op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64({8, 9})});
  x = op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, b.constant("p", random_tensor({9, 9}, random))});
  x = op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {x, b.f32_scalar(0.5f)});
  x = op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x});
  b.graph().outputs = {x};
  return m;
}

/// Names of values and nodes but those of inputs go: values pair by numbers and structure.
void forget_names(Graph& g) {
  for (Value& v : g.values) v.name.clear();
}

std::unique_ptr<Side> side_of(const char* label, std::shared_ptr<const Module> module, int graph = 0) {
  auto side = open_module(label, std::move(module), graph, {});
  EXPECT_TRUE(side.ok()) << (side.ok() ? "" : side.error().message());
  return side.ok() ? std::move(side).value() : nullptr;
}

/// Inputs with unknown dimensions as 1; floats in [-1, 1) times `scale`.
std::vector<Datum> inputs_for(const Graph& g, uint64_t seed, double scale = 1) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<Datum> out;
  for (const ValueId id : g.inputs) {
    const ValueType& type = g.value(id).type;
    Shape shape = type.shape;
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i] < 0) shape[i] = 1;
    Tensor t(type.dtype, shape);
    for (int64_t i = 0; i < t.elements(); ++i)
      is_float(type.dtype) ? set_double(t, i, scale * unit(random))
                           : set_int(t, i, static_cast<int64_t>(random() % (type.quant ? 256 : 2)));
    out.emplace_back(std::move(t));
  }
  spread_indices(g, out, seed);
  return out;
}
std::vector<Draw> draws_for(const Graph& g) {
  return {{"random", inputs_for(g, 7)}, {"large", inputs_for(g, 8, 100)}, {"tiny", inputs_for(g, 9, 1e-4)}};
}

/// True if the comparison names the node that the fault is in.
bool found(const Comparison& c, const Graph& first, const Graph& second, const PlantedFault& fault) {
  if (!c.blame || c.blame->node < 0) return false;
  const Node& n = (c.blame->in_first ? first : second).nodes[static_cast<size_t>(c.blame->node)];
  return n.where == fault.node.where && n.op == fault.node.op;
}

TEST(Compare, EqualModelsDoNotDiffer) {
  const auto m = small_network();
  ASSERT_TRUE(verify(*m).ok());
  const auto a = side_of("a", m), b = side_of("b", m);
  const auto c = compare(*a, *b, draws_for(m->graphs[0]), {});
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_FALSE(c->differ());
  EXPECT_EQ(c->draws.size(), 3u);
  EXPECT_EQ(c->unpaired_first + c->unpaired_second, 0u);
  EXPECT_EQ(c->values.size(), m->graphs[0].nodes.size() + 1);
}

TEST(Compare, NamesTheNodeOfAPlantedFault) {
  const auto m = small_network();
  for (const bool names : {true, false})
    for (size_t kind = 0; kind < faults::kKindCount; ++kind) {
      std::mt19937_64 random(kind + 1);
      auto wrong = std::make_shared<Module>(*m);
      const auto fault = plant(wrong->graphs[0], kind, random);
      if (!fault) continue;  // quantized operators
      if (!names) forget_names(wrong->graphs[0]);
      const auto a = side_of("a", m), b = side_of("b", wrong);
      CompareOptions options;
      options.inputs = {0};
      const auto c = compare(*a, *b, draws_for(m->graphs[0]), options);
      ASSERT_TRUE(c.ok()) << c.error().message();
      EXPECT_TRUE(c->differ()) << fault->what;
      EXPECT_TRUE(found(*c, m->graphs[0], wrong->graphs[0], *fault))
          << fault->what << " in " << fault->node.where << (names ? "" : ", without names") << ": "
          << (c->blame ? Cat(c->blame->in_first, " ", c->blame->node) : "nothing found");
    }
}

TEST(Compare, TellsOwnErrorsFromInheritedOnes) {
  const auto m = small_network();
  auto wrong = std::make_shared<Module>(*m);
  ASSERT_TRUE(faults::scale(wrong->graphs[0], 0, 1, 1.01));
  const auto a = side_of("a", m), b = side_of("b", wrong);
  const auto c = compare(*a, *b, draws_for(m->graphs[0]), {});
  ASSERT_TRUE(c.ok());
  ASSERT_EQ(c->departs, 1);  // the input is value 0
  int wrong_alone = 0, wrong_at_all = 0;
  for (const ValueComparison& v : c->values) {
    wrong_alone += v.own_excess > 1;
    wrong_at_all += v.total_excess > 1;
  }
  EXPECT_EQ(wrong_alone, 1);
  EXPECT_GT(wrong_at_all, 5);
  ASSERT_EQ(c->blame->differences.size(), 1u);
  EXPECT_NE(c->blame->differences[0].find("input 1 'w': relative difference 0.0"), std::string::npos)
      << c->blame->differences[0];
}

TEST(Compare, PairsChannelsLastWithChannelsFirst) {
  const Shape first{1, 3, 4, 5}, last{1, 4, 5, 3};
  EXPECT_EQ(layout_between(first, last), ElementOrder::kChannelsLast);
  EXPECT_EQ(layout_between(last, first), ElementOrder::kChannelsFirst);
  EXPECT_EQ(layout_between(Shape{1, 8, 1, 1}, Shape{1, 8}), ElementOrder::kSame);
  EXPECT_FALSE(layout_between(first, Shape{1, 5, 4, 3}).has_value());
  std::vector<float> v(60);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  const auto there = laid_out(v, first, ElementOrder::kChannelsLast);
  EXPECT_EQ(there[1], 20);  // channel 1 of the first pixel
  EXPECT_EQ(laid_out(there, last, ElementOrder::kChannelsFirst), v);
}

TEST(Compare, ASideSaysWhereItRuns) {
  EXPECT_EQ(parse_side("a.onnx@avx2").where, "avx2");
  EXPECT_EQ(parse_side("a.onnx@avx2").file, "a.onnx");
  EXPECT_EQ(parse_side("me@home.org/a.onnx").where, "");
  EXPECT_EQ(parse_side("a.onnx").where, "");
}

/// A network whose results are rounded to 8 bits by the ranges that a run showed; that of layer `spoiled` is too small.
/// Layer `kept` is not rounded.
std::shared_ptr<Module> quantized_network(const Module& real, const Observations& seen, int spoiled, int kept = -1) {
  auto m = std::make_shared<Module>(real);
  Graph& g = m->graphs[0];
  std::vector<Node> nodes = std::move(g.nodes);
  g.nodes.clear();
  int layer = 0;
  for (Node& n : nodes) {
    const ValueId out = n.outputs[0];
    g.nodes.push_back(n);
    if (n.op == Op::kReshape || layer++ == kept) continue;
    auto q = std::make_shared<Quantization>();
    const double most = std::max(-seen.at(out).low, seen.at(out).high);
    q->scales = {static_cast<float>(most / 127 / (layer - 1 == spoiled ? 8 : 1))};
    Value integers = g.value(out), real_again = g.value(out);
    integers.type.dtype = DType::kI8;
    integers.type.quant = q;
    const ValueId i = g.add_value(std::move(integers)), r = g.add_value(std::move(real_again));
    Node quantize, back;
    quantize.op = Op::kQuantize;
    quantize.inputs = {out};
    quantize.outputs = {i};
    back.op = Op::kDequantize;
    back.inputs = {i};
    back.outputs = {r};
    quantize.attrs = back.attrs = make_attrs<NoAttrs>();
    g.nodes.push_back(quantize);
    g.nodes.push_back(back);
    for (Node& later : nodes)
      for (ValueId& id : later.inputs)
        if (id == out) id = r;
    for (ValueId& id : g.outputs)
      if (id == out) id = r;
  }
  return m;
}

TEST(CompareQuantized, RanksTheSpoiledLayerFirst) {
  const auto m = small_network();
  Observations seen;
  Observer observer(seen);
  ASSERT_TRUE(side_of("a", m)->run(inputs_for(m->graphs[0], 3), observer).ok());
  constexpr int kLayers = 10;  // those before the average over what they give
  for (int spoiled = 0; spoiled < kLayers; ++spoiled) {
    const auto twin = quantized_network(*m, seen, spoiled);
    const auto a = side_of("a", m), b = side_of("b", twin);
    const std::vector<Draw> draws{{"random", inputs_for(m->graphs[0], 3)}};
    const auto r = compare_quantized(*a, *b, draws, {}, [](size_t, size_t) {});
    ASSERT_TRUE(r.ok()) << r.error().message();
    ASSERT_GT(r->layers.size(), 10u);
    const QuantizedLayer& worst = r->layers[static_cast<size_t>(r->ranking[0])];
    EXPECT_EQ(r->ranking[0], spoiled);
    EXPECT_LT(worst.remaining, r->error);
    EXPECT_GT(worst.clipped, 0.1);
    EXPECT_GT(worst.saturated, 0.1);
  }
}

std::vector<float> last_output(const std::shared_ptr<const Module>& m, const std::vector<Datum>& inputs) {
  auto session = Session::create(ModelAccess::make(m), {});
  auto out = session->run(inputs);
  return out.ok() ? reals((*out)[0].tensor) : std::vector<float>();
}

/// Ranks of values, the smallest first.
std::vector<double> ranks(const std::vector<double>& of) {
  std::vector<double> out;
  for (const double v : of) {
    double rank = 0;
    for (const double w : of) rank += w < v ? 1 : w == v ? 0.5 : 0;
    out.push_back(rank);
  }
  return out;
}

/// The order of the layers is that of the models in which each of them in turn is not rounded.
TEST(CompareQuantized, RanksAsModelsWithoutRoundingDo) {
  const auto m = small_network();
  const std::vector<Datum> inputs = inputs_for(m->graphs[0], 3);
  Observations seen;
  Observer observer(seen);
  ASSERT_TRUE(side_of("a", m)->run(inputs, observer).ok());
  for (const int spoiled : {1, 4, 7}) {
    const auto twin = quantized_network(*m, seen, spoiled);
    const auto a = side_of("a", m), b = side_of("b", twin);
    const auto r = compare_quantized(*a, *b, {{"random", inputs}}, {}, [](size_t, size_t) {});
    ASSERT_TRUE(r.ok()) << r.error().message();
    const std::vector<float> want = last_output(m, inputs);
    std::vector<double> measured, brute;
    for (size_t k = 0; k < r->layers.size(); ++k) {
      measured.push_back(r->layers[k].remaining);
      const auto kept = quantized_network(*m, seen, spoiled, static_cast<int>(k));
      brute.push_back(discrepancy(want, last_output(kept, inputs)).relative());
    }
    EXPECT_GE(correlation(ranks(measured), ranks(brute)), 0.9);
  }
}

/// Networks of ../shared/corpus that run in a moment.
std::vector<std::filesystem::path> networks() {
  const auto nets = source_folder().parent_path() / "shared/corpus";
  std::vector<std::filesystem::path> out;
  for (const char* name : {"onnx/nets/dscnn_op13/model.onnx",
                           "onnx/nets/mobilenetv2s_op13/model.onnx",
                           "onnx/nets/bert_dyn_op13/model.onnx",
                           "onnx/nets/resnet18_op17/model.onnx",
                           "onnx/nets/shufflenetv2_op13/model.onnx",
                           "onnx/nets/vit_op17/model.onnx",
                           "onnx/nets/convnext_op12/model.onnx",
                           "onnx/nets/espcn_op11/model.onnx",
                           "onnx/nets/tcn_op9/model.onnx",
                           "onnx/nets/style_op9/model.onnx",
                           "onnx/nets/dscnn_op13_qdq_u8s8/model.onnx",
                           "onnx/nets/mobilenetv2s_op13_qdq_u8s8pt/model.onnx",
                           "onnx/nets/unet_dynamo/model.onnx",
                           "onnx/nets/whisper_enc_op10/model.onnx",
                           "onnx/nets/squeezenet_dynamo/model.onnx",
                           "tflite/nets/mobilenet_v1_025_128_f32/model.tflite",
                           "tflite/nets/resnet_mini_64_f32/model.tflite",
                           "tflite/nets/kws_dscnn_f32/model.tflite",
                           "tflite/nets/unet_f32/model.tflite",
                           "tflite/nets/shuffle_48_f32/model.tflite"})
    if (std::filesystem::exists(nets / name)) out.push_back(nets / name);
  return out;
}

/// True if the fault changes no value of the runs at all.
bool no_effect(const Comparison& c) {
  return c.failures.empty() && c.values.size() > 1 &&
         std::all_of(c.values.begin(), c.values.end(), [](const ValueComparison& v) { return v.total.rms == 0; });
}

TEST(Compare, NamesTheNodesOfPlantedFaultsInNetworks) {
  const auto files = networks();
  if (files.empty()) GTEST_SKIP() << "no ../shared/corpus beside this checkout";
  int right = 0, all = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    const auto model = Model::load(files[f].string());
    ASSERT_TRUE(model.ok()) << model.error().message();
    const auto m = without_defaults(*model);
    const int graph = m->methods[0].graph;
    const Graph& g = m->graphs[static_cast<size_t>(graph)];
    std::vector<Draw> draws = draws_for(g);
    int planted = 0;
    for (size_t i = 0; i < 4 * faults::kKindCount && planted < 3; ++i) {
      std::mt19937_64 random(100 * f + i);
      auto wrong = std::make_shared<Module>(*m);
      Graph& h = wrong->graphs[static_cast<size_t>(graph)];
      const auto fault = plant(h, (f + 5 * i) % faults::kKindCount, random);
      if (!fault) continue;
      const bool names = planted % 2 == 0;
      if (!names) forget_names(h);
      const auto a = side_of("a", m, graph), b = side_of("b", wrong, graph);
      CompareOptions options;
      for (size_t k = 0; k < g.inputs.size(); ++k) options.inputs.push_back(static_cast<int>(k));
      const auto c = compare(*a, *b, draws, options);
      ASSERT_TRUE(c.ok()) << c.error().message();
      if (no_effect(*c)) continue;
      ++planted;
      ++all;
      const bool good = found(*c, g, h, *fault);
      right += good;
      if (good) continue;
      std::cout << files[f].parent_path().filename().string() << ": " << fault->what << " in " << title(g, fault->node)
                << (names ? "" : ", without names") << "; named: "
                << (c->blame ? title(c->blame->in_first ? g : h,
                                     (c->blame->in_first ? g : h).nodes[static_cast<size_t>(c->blame->node)])
                             : std::string("nothing"))
                << (c->failures.empty() ? "" : "; " + c->failures[0]) << "\n";
    }
  }
  std::cout << right << " of " << all << " planted faults named\n";
  EXPECT_GE(all, 50);
  EXPECT_GE(right, static_cast<int>(std::ceil(0.95 * all)));
}

/// The float graph that rounds is the quantized network, within rounding.
TEST(CompareQuantized, SimulatesIntegerNetworks) {
  const auto nets = source_folder().parent_path() / "shared/corpus/tflite/nets";
  int found = 0;
  for (const char* name : {"mobilenet_v1_025_128_int8io", "unet_int8io", "resnet_mini_64_int8io"}) {
    if (!std::filesystem::exists(nets / name)) continue;
    ++found;
    const auto model = Model::load((nets / name / "model.tflite").string());
    ASSERT_TRUE(model.ok());
    const auto m = without_defaults(*model);
    const auto reals_of = simulated(*m, 0);
    ASSERT_TRUE(reals_of.ok()) << reals_of.error().message();
    const std::vector<Datum> inputs = inputs_for(m->graphs[0], 3);
    const Tensor stored = [&] {
      auto session = Session::create(ModelAccess::make(m), {});
      return (*session->run(inputs))[0].tensor;
    }();
    const Discrepancy d = discrepancy(reals(stored), last_output(*reals_of, inputs));
    EXPECT_LT(d.relative(), 0.1) << name;
  }
  if (found == 0) GTEST_SKIP() << "no ../shared/corpus beside this checkout";
}

/// The scale of a random constant that only one weighted node reads, changed. The node that reads it; null: there is
/// none.
const Node* spoil_weights(Graph& g, std::mt19937_64& random) {
  std::vector<std::pair<size_t, size_t>> found;  // dequantizing node, reader
  for (size_t k = 0; k < g.nodes.size(); ++k) {
    const Node& n = g.nodes[k];
    if (n.op != Op::kDequantizeLinear || !g.value(n.inputs[0]).constant || g.value(n.inputs[0]).type.shape.rank() < 2)
      continue;
    for (size_t j = k; j < g.nodes.size(); ++j)
      if ((op_info(g.nodes[j].op).flags & kWeighted) && g.nodes[j].inputs[1] == n.outputs[0]) found.emplace_back(k, j);
  }
  if (found.empty()) return nullptr;
  const auto [k, reader] = found[random() % found.size()];
  return faults::scale(g, k, 1, random() % 2 ? 1.6 : 0.5) ? &g.nodes[reader] : nullptr;
}

/// True if node `k` gives value `from`, or functions of single elements of it alone.
bool follows(const Graph& g, int k, ValueId from) {
  const auto makers = producers(g);
  for (int steps = 0; steps < 3 && k >= 0; ++steps) {
    const Node& n = g.nodes[static_cast<size_t>(k)];
    if (std::count(n.outputs.begin(), n.outputs.end(), from) > 0) return true;
    if (op_info(n.op).flags & kWeighted) return false;
    k = n.inputs.empty() || n.inputs[0] == kNoValue ? -1 : makers[static_cast<size_t>(n.inputs[0])];
  }
  return false;
}

TEST(CompareQuantized, FindsSpoiledLayersOfNetworks) {
  const auto nets = source_folder().parent_path() / "shared/corpus/onnx/nets";
  const std::pair<const char*, const char*> twins[] = {{"dscnn_op13", "dscnn_op13_qdq_u8s8"},
                                                       {"mobilenetv2s_op13", "mobilenetv2s_op13_qdq_u8s8pt"},
                                                       {"mobilenetv2s_op13", "mobilenetv2s_op13_qdq_s8s8"},
                                                       {"shufflenetv2_op13", "shufflenetv2_op13_qdq_u8u8"}};
  int all = 0, right = 0;
  for (const auto& [real, quantized] : twins) {
    if (!std::filesystem::exists(nets / quantized)) continue;
    const auto x = Model::load((nets / real / "model.onnx").string());
    const auto y = Model::load((nets / quantized / "model.onnx").string());
    ASSERT_TRUE(x.ok() && y.ok());
    const auto m = without_defaults(*x), q = without_defaults(*y);
    for (uint64_t i = 0; i < 8; ++i) {
      auto wrong = std::make_shared<Module>(*q);
      std::mt19937_64 random(i + 1);
      const Node* const spoiled = spoil_weights(wrong->graphs[0], random);
      if (!spoiled) continue;
      const std::string name = wrong->graphs[0].value(spoiled->outputs[0]).name;
      const auto a = side_of("a", m), b = side_of("b", wrong);
      const auto r = compare_quantized(*a, *b, {{"random", inputs_for(m->graphs[0], 3)}}, {}, [](size_t, size_t) {});
      ASSERT_TRUE(r.ok()) << r.error().message();
      ASSERT_FALSE(r->layers.empty());
      const Graph& g = m->graphs[0];
      const QuantizedLayer& worst = r->layers[static_cast<size_t>(r->ranking[0])];
      const int maker = producers(g)[static_cast<size_t>(worst.real)];
      bool good = false;
      for (size_t id = 0; id < g.values.size(); ++id)
        good = good || (g.values[id].name == name && follows(g, maker, static_cast<ValueId>(id)));
      ++all;
      right += good;
      if (!good)
        std::cout << quantized << ": spoiled " << name << ", named " << title(g, g.nodes[static_cast<size_t>(maker)])
                  << "\n";
    }
  }
  if (all == 0) GTEST_SKIP() << "no ../shared/corpus beside this checkout";
  std::cout << right << " of " << all << " spoiled layers found\n";
  EXPECT_GE(right, static_cast<int>(std::ceil(0.95 * all)));
}

}  // namespace
}  // namespace smelt
