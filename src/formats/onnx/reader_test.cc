#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "graph/graph.h"
#include "ops/core/op.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "support/guarded.h"
#include "support/onnx_proto_writer.h"
#include "support/scaling_operator.h"

namespace smelt::onnx {
namespace {

std::span<const std::byte> as_bytes(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

Result<Model> load(const std::string& bytes) { return Model::load_bytes(as_bytes(bytes), nullptr, "model"); }
Result<Model> load(const ProtoWriter& m) { return load(m.bytes()); }

std::string floats(std::initializer_list<float> v) {
  return {reinterpret_cast<const char*>(v.begin()), v.size() * sizeof(float)};
}

std::vector<float> run(const Model& model, std::vector<float> x) {
  auto session = Session::create(model, {.backend = BackendKind::kReference});
  EXPECT_TRUE(session.ok());
  const Datum in = Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(x.size())}, x);
  auto out = session.value().run({&in, 1});
  EXPECT_TRUE(out.ok()) << out.error().message();
  if (!out.ok()) return {};
  const Tensor& t = (*out)[0].tensor;
  return {t.data<float>(), t.data<float>() + t.elements()};
}

/// z = (x + w) * x
ProtoWriter small_graph() {
  ProtoWriter g;
  g.message(1, make_node("Add", {"x", "w"}, {"y"}));
  g.message(1, make_node("Mul", {"y", "x"}, {"z"}));
  g.text(2, "small");
  g.message(5, make_raw_tensor("w", 1, {2}, floats({1, 2})));
  g.message(11, make_value("x", 1, {2}));
  g.message(12, make_value("z", 1, {2}));
  return g;
}

TEST(OnnxReader, RunsASmallModel) {
  auto m = load(make_model(small_graph()));
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->format(), "onnx");
  EXPECT_EQ(m->inputs()[0].name, "x");
  EXPECT_EQ(m->outputs()[0].name, "z");
  EXPECT_EQ(run(*m, {3, 4}), (std::vector<float>{12, 24}));
}

/// y = x * w and e = rows of w, behind a doc string of `shift` bytes, which moves the raw bytes of w.
ProtoWriter weights_at(size_t shift, const std::string& w) {
  ProtoWriter g;
  g.message(1, make_node("MatMul", {"x", "w"}, {"y"}));
  g.message(1, make_node("Gather", {"w", "i"}, {"e"}));
  g.text(2, "weights").text(10, std::string(shift, ' '));
  const int64_t rows[] = {63, 0};
  g.message(5, make_raw_tensor("i", 7, {2}, {reinterpret_cast<const char*>(rows), sizeof(rows)}));
  g.message(5, make_raw_tensor("w", 1, {64, 40}, w));
  g.message(11, make_value("x", 1, {1, 64}));
  g.message(12, make_value("y", 1, {1, 40}));
  g.message(12, make_value("e", 1, {2, 40}));
  return g;
}

TEST(OnnxReader, WeightsLieWhereTheyLie) {
  std::vector<float> w(size_t{64} * 40);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 97) - 48;
  std::vector<float> x(64, 0.0f);
  x[2] = 1;
  x[63] = 2;
  const std::string raw(reinterpret_cast<const char*>(w.data()), w.size() * sizeof(float));
  for (size_t shift = 0; shift < 4; ++shift) {
    const std::string bytes = make_model(weights_at(shift, raw)).bytes();
    auto m = load(bytes);
    ASSERT_TRUE(m.ok()) << m.error().message();
    auto session = Session::create(*m);
    ASSERT_TRUE(session.ok());
    const Datum in = Tensor::from<float>(DType::kF32, Shape{1, 64}, x);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto out = session->run({&in, 1});
      ASSERT_TRUE(out.ok()) << out.error().message();
      const float *y = (*out)[0].tensor.data<float>(), *e = (*out)[1].tensor.data<float>();
      for (size_t n = 0; n < 40; ++n) {
        EXPECT_EQ(y[n], w[2 * 40 + n] + 2 * w[63 * 40 + n]) << shift << ' ' << n;
        EXPECT_EQ(e[n], w[63 * 40 + n]);
        EXPECT_EQ(e[40 + n], w[n]);
      }
    }
  }
}

TEST(OnnxReader, KeepsUnknownOperatorsWhenAsked) {
  ProtoWriter g;
  g.message(1, make_node("Frobnicate", {"x"}, {"y"}));
  g.message(1, make_node("Neg", {"y"}, {"z"}));
  g.text(2, "unknown");
  g.message(11, make_value("x", 1, {2}));
  g.message(12, make_value("z", 1, {2}));
  const std::string bytes = make_model(g).bytes();
  EXPECT_EQ(load(bytes).error().code(), ErrorCode::kUnsupported);
  auto kept = Model::load_bytes(as_bytes(bytes), nullptr, "model", "", {.tolerate = {"unknown-operator"}});
  ASSERT_TRUE(kept.ok()) << kept.error().message();
  EXPECT_EQ(module_of(*kept).graphs[0].nodes[0].origin, "Frobnicate");
  auto session = Session::create(*kept);
  ASSERT_TRUE(session.ok());
  const Datum x = Tensor::from<float>(DType::kF32, Shape{2}, std::vector<float>{1, 2});
  const auto out = session->run({&x, 1});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message().find("operator Frobnicate is not known"), std::string::npos) << out.error().message();
}

/// The number of bytes of the options, which hold the text "factor".
Result<float> bytes_with_factor(std::span<const std::byte> options) {
  const std::string_view text(reinterpret_cast<const char*>(options.data()), options.size());
  if (text.find("factor") == std::string_view::npos) return InvalidModel("no factor");
  return static_cast<float>(text.size());
}

TEST(OnnxReader, RegisteredOperators) {
  const auto file = [](bool with_factor) {
    ProtoWriter node = make_node("Amplify", {"x"}, {"y"});
    node.text(7, "my.domain");
    if (with_factor) node.message(5, ProtoWriter().text(1, "factor").number(3, 3).number(20, 2));
    ProtoWriter g;
    g.message(1, node);
    g.message(1, make_node("Neg", {"y"}, {"z"}));
    g.text(2, "registered");
    g.message(11, make_value("x", 1, {2}));
    g.message(12, make_value("z", 1, {2}));
    return std::pair{make_model(g).bytes(), static_cast<float>(node.bytes().size())};
  };
  LoadOptions options;
  options.custom_operators.push_back(std::make_shared<test::ScalingOperator>("my.domain::Amplify", bytes_with_factor));
  const auto load_with = [&](const std::string& bytes) {
    return Model::load_bytes(as_bytes(bytes), nullptr, "model", "", options);
  };
  const auto [bytes, size] = file(true);
  EXPECT_EQ(load(bytes).error().code(), ErrorCode::kUnsupported);
  const auto model = load_with(bytes);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(run(*model, {1, -2}), (std::vector<float>{-size, 2 * size}));
  const auto refused = load_with(file(false).first);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("no factor"), std::string::npos) << refused.error().message();
}

TEST(OnnxReader, DefaultsOfInputsMayBeOverridden) {
  ProtoWriter g = small_graph();
  g.message(11, make_value("w", 1, {2}));
  auto m = load(make_model(g));
  ASSERT_TRUE(m.ok()) << m.error().message();
  ASSERT_EQ(m->inputs().size(), 2u);
  EXPECT_TRUE(m->inputs()[1].optional);
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    auto session = Session::create(*m, {.backend = backend});
    ASSERT_TRUE(session.ok());
    const std::array<float, 2> three_four{3, 4}, five_six{5, 6};
    const Datum x = Tensor::from<float>(DType::kF32, Shape{2}, three_four);
    const Datum w = Tensor::from<float>(DType::kF32, Shape{2}, five_six);
    const auto first = [&](const Datum& second) {
      const Datum in[] = {x, second};
      auto out = session->run(in);
      return out.ok() ? (*out)[0].tensor.data<float>()[0] : -1;
    };
    EXPECT_EQ(first(Datum{}), 12);
    EXPECT_EQ(first(w), 24);
    EXPECT_EQ(first(Datum{}), 12);
  }
}

TEST(OnnxReader, DefaultsInBodiesAreConstants) {
  // z = (c ? x + w : x - x) * v: a body holds the default of w, none that of v.
  const auto branch = [](std::string_view op, std::string_view with, std::string_view out) {
    ProtoWriter g;
    g.message(1, make_node(op, {"x", with}, {out})).text(2, out).message(12, make_value(out, 1, {1}));
    return g;
  };
  ProtoWriter g, choice = make_node("If", {"c"}, {"y"});
  choice.message(5, ProtoWriter().text(1, "then_branch").message(6, branch("Add", "w", "t")).number(20, 5));
  choice.message(5, ProtoWriter().text(1, "else_branch").message(6, branch("Sub", "x", "e")).number(20, 5));
  g.message(1, choice).message(1, make_node("Mul", {"y", "v"}, {"z"})).text(2, "g");
  g.message(5, make_raw_tensor("w", 1, {1}, floats({1}))).message(5, make_raw_tensor("v", 1, {1}, floats({2})));
  g.message(11, make_value("x", 1, {1})).message(11, make_value("c", 9, {}));
  g.message(11, make_value("w", 1, {1})).message(11, make_value("v", 1, {1}));
  g.message(12, make_value("z", 1, {1}));
  const auto m = load(make_model(g));
  ASSERT_TRUE(m.ok()) << m.error().message();
  ASSERT_EQ(m->inputs().size(), 3u);
  EXPECT_EQ(m->inputs()[2].name, "v");
}

TEST(OnnxReader, ZeroPointsOfTheFirstFactorMayBeAbsent) {
  // z = x * (w - p) or (x - p) * w, as a product and as a convolution of one pixel.
  for (const std::string_view op : {"MatMulInteger", "ConvInteger"})
    for (const bool second : {false, true}) {
      const bool product = op == "MatMulInteger";
      ProtoWriter g;
      g.message(1, second ? make_node(op, {"x", "w", "", "p"}, {"z"}) : make_node(op, {"x", "w", "p"}, {"z"}));
      g.text(2, "g").message(12, ProtoWriter().text(1, "z")).message(5, make_raw_tensor("p", 3, {}, "\1"));
      if (product)
        g.message(11, make_value("x", 3, {1, 1})).message(5, make_raw_tensor("w", 3, {1, 1}, "\5"));
      else
        g.message(11, make_value("x", 3, {1, 1, 1})).message(5, make_raw_tensor("w", 3, {1, 1, 1}, "\5"));
      const auto m = load(make_model(g));
      ASSERT_TRUE(m.ok()) << m.error().message();
      for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
        auto session = Session::create(*m, {.backend = backend});
        ASSERT_TRUE(session.ok());
        const std::array<int8_t, 1> three{3};
        const Datum x = Tensor::from<int8_t>(DType::kI8, product ? Shape{1, 1} : Shape{1, 1, 1}, three);
        const auto out = session->run({&x, 1});
        ASSERT_TRUE(out.ok()) << out.error().message();
        EXPECT_EQ((*out)[0].tensor.data<int32_t>()[0], second ? 12 : 10) << op;
      }
    }
}

TEST(OnnxReader, SortsNodes) {
  ProtoWriter g;
  g.message(1, make_node("Mul", {"y", "x"}, {"z"})).message(1, make_node("Neg", {"x"}, {"y"}));
  g.message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
  const std::string bytes = make_model(g).bytes();
  auto m = Model::load_bytes(as_bytes(bytes), nullptr, "model", "", {.tolerate = {"node-order"}});
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(run(*m, {3}), (std::vector<float>{-9}));
}

TEST(OnnxReader, MergesPartsOfTheGraph) {
  ProtoWriter front, back;
  front.message(1, make_node("Neg", {"x"}, {"y"})).message(11, make_value("x", 1, {1}));
  back.message(1, make_node("Abs", {"y"}, {"z"})).message(12, make_value("z", 1, {1}));
  ProtoWriter m = make_model(front);
  m.message(7, back);
  auto loaded = load(m);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(run(*loaded, {3}), (std::vector<float>{3}));
}

TEST(OnnxReader, TakesUnpackedFloatData) {
  ProtoWriter g, w;
  w.number(1, 2).number(2, 1).real(4, 5).real(4, 7).text(8, "w");
  g.message(1, make_node("Add", {"x", "w"}, {"z"})).message(5, w);
  g.message(11, make_value("x", 1, {2})).message(12, make_value("z", 1, {2}));
  auto m = load(make_model(g));
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(run(*m, {1, 1}), (std::vector<float>{6, 8}));
}

TEST(OnnxReader, InlinesFunctions) {
  ProtoWriter f, g;
  f.text(1, "Twice").text(4, "a").text(5, "b").text(10, "local");
  f.message(7, make_node("Add", {"a", "a"}, {"b"})).message(9, ProtoWriter().text(1, "").number(2, 17));
  g.message(1, make_node("Twice", {"x"}, {"y"}, "local")).message(1, make_node("Twice", {"y"}, {"z"}, "local"));
  g.message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
  ProtoWriter m = make_model(g);
  m.message(25, f);
  auto loaded = load(m);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(run(*loaded, {3}), (std::vector<float>{12}));
}

/// A branch of nodes, whose result is r.
ProtoWriter branch(std::initializer_list<ProtoWriter> nodes) {
  ProtoWriter g;
  for (const ProtoWriter& node : nodes) g.message(1, node);
  return g.text(2, "branch").message(12, ProtoWriter().text(1, "r"));
}

ProtoWriter if_node(const ProtoWriter& yes, const ProtoWriter& no, std::string_view out) {
  ProtoWriter n = make_node("If", {"c"}, {out});
  n.message(5, ProtoWriter().text(1, "then_branch").number(20, 5).message(6, yes));
  n.message(5, ProtoWriter().text(1, "else_branch").number(20, 5).message(6, no));
  return n;
}

/// Branches that read x of the main graph, from one level up and from two.
TEST(OnnxReader, CapturesOuterValues) {
  const ProtoWriter inner =
      if_node(branch({make_node("Neg", {"x"}, {"r"})}), branch({make_node("Abs", {"x"}, {"r"})}), "r");
  ProtoWriter g;
  g.message(5, make_raw_tensor("c", 9, {}, std::string_view("\1", 1)));
  g.message(1, if_node(branch({inner}), branch({make_node("Add", {"x", "x"}, {"r"})}), "z"));
  g.message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
  auto m = load(make_model(g));
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(run(*m, {3}), (std::vector<float>{-3}));
}

/// Identity gives a value a second name.
TEST(OnnxReader, CapturesOneValueByTwoNames) {
  const ProtoWriter both = branch({make_node("Neg", {"same"}, {"n"}), make_node("Sub", {"n", "x"}, {"r"})});
  ProtoWriter g;
  g.message(5, make_raw_tensor("c", 9, {}, std::string_view("\1", 1)));
  g.message(1, make_node("Identity", {"x"}, {"same"}));
  g.message(1, if_node(both, branch({make_node("Add", {"x", "same"}, {"r"})}), "z"));
  g.message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
  auto m = load(make_model(g));
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(run(*m, {3}), (std::vector<float>{-6}));
}

/// A branch whose weights the main graph makes real: it makes them itself, of constants.
TEST(OnnxReader, RepeatsDequantizedConstantsInBodies) {
  const auto of_weights = [](std::string_view op) { return branch({make_node(op, {"x", "w"}, {"r"})}); };
  ProtoWriter g;
  g.message(5, make_raw_tensor("c", 9, {}, std::string_view("\1", 1)));
  g.message(5, make_raw_tensor("q", 3, {1}, std::string_view("\5", 1)));
  g.message(5, make_raw_tensor("s", 1, {}, floats({0.5f})));
  g.message(1, make_node("DequantizeLinear", {"q", "s"}, {"w"}));
  g.message(1, if_node(of_weights("Mul"), of_weights("Add"), "z"));
  g.message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
  auto m = load(make_model(g));
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(run(*m, {3}), (std::vector<float>{7.5f}));
  ASSERT_EQ(module_of(*m).graphs.size(), 3u);
  for (size_t i = 1; i < 3; ++i) {
    const Graph& body = module_of(*m).graphs[i];
    EXPECT_EQ(body.inputs.size(), 1u);
    EXPECT_EQ(std::ranges::count(body.nodes, Op::kDequantizeLinear, &Node::op), 1);
  }
}

void expect_error(const ProtoWriter& m, const std::string& part) {
  auto loaded = load(m);
  ASSERT_FALSE(loaded.ok()) << "expected: " << part;
  EXPECT_NE(loaded.error().message().find(part), std::string::npos) << loaded.error().message();
}

ProtoWriter one_node(const ProtoWriter& node) {
  ProtoWriter g;
  return g.message(1, node).message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
}

TEST(OnnxReader, NamesWhatIsWrong) {
  expect_error(make_model(one_node(make_node("Nothing", {"x"}, {"z"}))), "operator Nothing of domain 'ai.onnx'");
  expect_error(make_model(one_node(make_node("Relu", {"x"}, {"z"}, "org.nowhere"))), "org.nowhere");
  expect_error(make_model(one_node(make_node("Gelu", {"x"}, {"z"}))), "does not exist in opset 17");
  expect_error(make_model(one_node(make_node("Neg", {"q"}, {"z"}))), "input 'q'");
  expect_error(make_model(one_node(make_node("Neg", {"x", "x"}, {"z"}))), "input 1 has no meaning");
  expect_error(make_model(one_node(make_node("Neg", {"x"}, {"y"}))), "output 0 'z' is made by no node");
  expect_error(make_model(one_node(make_node("Neg", {"x"}, {"z"})), 999), "opset 999");
  ProtoWriter cycle;
  cycle.message(1, make_node("Add", {"x", "b"}, {"a"})).message(1, make_node("Neg", {"a"}, {"b"}));
  cycle.message(11, make_value("x", 1, {1})).message(12, make_value("b", 1, {1}));
  expect_error(make_model(cycle), "cycle");
  ProtoWriter twice;
  twice.message(1, make_node("Neg", {"x"}, {"z"})).message(1, make_node("Abs", {"x"}, {"z"}));
  twice.message(11, make_value("x", 1, {1})).message(12, make_value("z", 1, {1}));
  expect_error(make_model(twice), "'z' is defined twice");
}

TEST(OnnxReader, RefusesTensorsWithoutTheirData) {
  ProtoWriter g = one_node(make_node("Add", {"x", "w"}, {"z"}));
  g.message(5, make_raw_tensor("w", 1, {3}, floats({1, 2})));
  expect_error(make_model(g), "initializer 0 'w': raw_data holds 8 bytes");
  ProtoWriter huge = one_node(make_node("Add", {"x", "w"}, {"z"}));
  huge.message(5, make_raw_tensor("w", 1, {int64_t{1} << 40, int64_t{1} << 40}, ""));
  expect_error(make_model(huge), "initializer 0 'w'");
}

TEST(OnnxReader, LimitsDoublingFunctions) {
  ProtoWriter m = make_model(one_node(make_node("F0", {"x"}, {"z"}, "local")));
  for (int i = 0; i < 40; ++i) {
    ProtoWriter f;
    const std::string next = i == 39 ? "Neg" : "F" + std::to_string(i + 1);
    const std::string_view domain = i == 39 ? "" : "local";
    f.text(1, "F" + std::to_string(i)).text(4, "a").text(5, "c").text(10, "local");
    f.message(7, make_node(next, {"a"}, {"b"}, domain)).message(7, make_node(next, {"b"}, {"c"}, domain));
    m.message(25, f);
  }
  expect_error(m, "nodes after inlining");
}

TEST(OnnxReader, LimitsNesting) {
  ProtoWriter type = ProtoWriter().number(1, 1);
  for (int i = 0; i < 5000; ++i) type = ProtoWriter().message(4, ProtoWriter().message(1, type));
  ProtoWriter g;
  g.message(1, make_node("Neg", {"x"}, {"z"})).message(11, ProtoWriter().text(1, "x").message(2, type));
  expect_error(make_model(g), "nested more than 100");
}

TEST(OnnxReader, SurvivesTruncationAndFlippedBytes) {
  ProtoWriter m = make_model(small_graph());
  for (size_t n = 0; n < m.bytes().size(); ++n) {
    const std::string cut = m.bytes().substr(0, n);
    (void)load(cut).ok();
    if (n % test::Guarded::kAligned == 0) (void)Model::load_bytes(test::Guarded(cut).bytes(), nullptr, "cut").ok();
  }
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = m.bytes();
    for (int k = 0; k < 1 + i % 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    auto loaded = load(bytes);
    EXPECT_TRUE(loaded.ok() || !loaded.error().message().empty());
  }
}

/// label, scores = LinearClassifier(x [1, 2]) of two targets: four coefficients are used.
ProtoWriter linear_classifier(int coefficients) {
  ProtoWriter node = make_node("LinearClassifier", {"x"}, {"label", "scores"}, "ai.onnx.ml");
  ProtoWriter weights, intercepts, labels;
  weights.text(1, "coefficients").number(20, 6);
  for (int i = 0; i < coefficients; ++i) weights.real(7, static_cast<float>(i + 1));
  intercepts.text(1, "intercepts").number(20, 6).real(7, 0.5f).real(7, -0.5f);
  labels.text(1, "classlabels_ints").number(20, 7).number(8, 7).number(8, 9);
  node.message(5, weights).message(5, intercepts).message(5, labels);
  ProtoWriter g;
  g.message(1, node).text(2, "linear");
  g.message(11, make_value("x", 1, {1, 2}));
  g.message(12, make_value("label", 7, {1})).message(12, make_value("scores", 1, {1, 2}));
  return make_model(g).message(8, ProtoWriter().text(1, "ai.onnx.ml").number(2, 1));
}

TEST(OnnxReader, CoefficientsThatALinearClassifierDoesNotNeedAreAWarning) {
  for (const int coefficients : {4, 6}) {
    auto m = load(linear_classifier(coefficients));
    ASSERT_TRUE(m.ok()) << m.error().message();
    if (coefficients == 4)
      EXPECT_TRUE(m->warnings().empty());
    else
      EXPECT_EQ(m->warnings(), (std::vector<std::string>{"node 0 ai.onnx.ml.LinearClassifier: 6 coefficients for 2 "
                                                         "targets and 2 features: the first 4 are used, as ONNX "
                                                         "Runtime does"}));
    auto session = Session::create(*m);
    ASSERT_TRUE(session.ok());
    const std::array<float, 2> values{1, 10};
    const Datum x = Tensor::from<float>(DType::kF32, Shape{1, 2}, values);
    const auto out = session->run({&x, 1});
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ((*out)[0].tensor.data<int64_t>()[0], 9);
    EXPECT_EQ((*out)[1].tensor.data<float>()[0], 21.5f);
    EXPECT_EQ((*out)[1].tensor.data<float>()[1], 42.5f);
  }
  EXPECT_FALSE(load(linear_classifier(3)).ok());
}

}  // namespace
}  // namespace smelt::onnx
