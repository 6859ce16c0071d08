#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "support/guarded.h"
#include "support/scaling_operator.h"
#include "support/tflite_test_model.h"

namespace smelt::tflite {
namespace {

using Op = tfl::BuiltinOperator;

std::span<const std::byte> bytes_of(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

Result<Model> load(const std::string& file, const LoadOptions& options = {}) {
  return Model::load_bytes(bytes_of(file), nullptr, "test", "", options);
}

Datum floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from<float>(DType::kF32, shape, std::span<const float>(values));
}

/// Runs a model and gives output 0 as floats; the error's text otherwise.
std::vector<float> run(Session& session, const std::vector<Datum>& inputs, std::string* error = nullptr) {
  auto out = session.run(inputs);
  if (!out.ok()) {
    if (error) *error = out.error().message();
    return {};
  }
  const Tensor& t = out->front().tensor;
  return {t.data<float>(), t.data<float>() + t.elements()};
}

Session session_of(const Model& model) {
  SessionOptions options;
  options.backend = BackendKind::kReference;
  options.limit_memory = size_t{64} << 20;
  options.limit_seconds = 20;
  auto session = Session::create(model, options);
  EXPECT_TRUE(session.ok());
  return std::move(session).value();
}

/// A convolution, an addition and a loop of two subgraphs: most of the schema's tables in 1.5 kB.
std::string rich_model() {
  TestModel m;
  const int x = m.tensor({.shape = {1, 4, 4, 1}}), w = m.tensor({.shape = {1, 2, 2, 1}, .values = {1, 2, 3, 4}}),
            b = m.tensor({.shape = {1}, .values = {0.5f}}), y = m.tensor({.shape = {1, 4, 4, 1}}),
            z = m.tensor({.shape = {1, 4, 4, 1}});
  m.op(Op::CONV_2D, {x, w, b}, {y}, tfl::CreateConv2DOptions(m.fbb(), tfl::Padding::SAME, 1, 1));
  m.op(Op::WHILE, {y}, {z}, tfl::CreateWhileOptions(m.fbb(), 1, 2));
  m.end_subgraph({x}, {z});
  const int c = m.tensor({.shape = {1, 4, 4, 1}}), sum = m.tensor({.shape = {}}),
            limit = m.tensor({.shape = {}, .values = {1000}}),
            go = m.tensor({.shape = {}, .type = tfl::TensorType::BOOL}), axes = m.tensor({.shape = {4}});
  (void)axes;
  const int flat = m.tensor({.shape = {16}});
  m.op(Op::RESHAPE, {c}, {flat}, tfl::CreateReshapeOptions(m.fbb(), m.fbb().CreateVector(std::vector<int32_t>{16})));
  const int first = m.tensor({.shape = {16}});
  m.op(Op::ABS, {flat}, {first});
  m.op(Op::SQUARE, {limit}, {sum});
  m.op(Op::GREATER, {sum, limit}, {go});
  const int no = m.tensor({.shape = {}, .type = tfl::TensorType::BOOL});
  m.op(Op::LOGICAL_NOT, {go}, {no});
  m.end_subgraph({c}, {no});
  const int d = m.tensor({.shape = {1, 4, 4, 1}}), e = m.tensor({.shape = {1, 4, 4, 1}});
  m.op(Op::ADD, {d, d}, {e}, tfl::CreateAddOptions(m.fbb()));
  m.end_subgraph({d}, {e});
  return m.finish();
}

TEST(TfliteReader, RunsAConvolution) {
  const std::string file = rich_model();
  const auto model = load(file);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->format(), "tflite");
  Session session = session_of(*model);
  std::vector<float> ones(16, 1.f);
  const auto y = run(session, {floats(Shape{1, 4, 4, 1}, ones)});
  ASSERT_EQ(y.size(), 16u);
  EXPECT_FLOAT_EQ(y[0], 10.5f);
  EXPECT_FLOAT_EQ(y[3], 4.5f);
  EXPECT_FLOAT_EQ(y[15], 1.5f);
}

/// Weights of hybrid operators in old files are int8 in uint8 tensors.
TEST(TfliteReader, HybridWeightsInUint8) {
  TestModel m;
  const int x = m.tensor({.shape = {1, 2}}),
            w = m.tensor({.shape = {2, 2},
                          .type = tfl::TensorType::UINT8,
                          .raw = {1, 0xff, 0x81, 2},
                          .scales = {0.5f},
                          .zero_points = {0}}),
            y = m.tensor({.shape = {1, 2}});
  m.op(Op::FULLY_CONNECTED, {x, w, -1}, {y}, tfl::CreateFullyConnectedOptions(m.fbb()));
  m.end_subgraph({x}, {y});
  const std::string file = m.finish();
  const auto model = load(file);
  ASSERT_TRUE(model.ok()) << model.error().message();
  Session session = session_of(*model);
  const auto got = run(session, {floats({1, 2}, {127, -127})});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_FLOAT_EQ(got[0], 127);
  EXPECT_FLOAT_EQ(got[1], -127 * 129 / 2.0f);
}

/// Integers of 16 bits are ordered as they are stored.
TEST(TfliteReader, OrdersInt16) {
  TestModel m;
  const auto operand = [&](float scale) {
    return m.tensor({.shape = {2}, .type = tfl::TensorType::INT16, .scales = {scale}, .zero_points = {0}});
  };
  const int a = operand(1), b = operand(0.001f), y = m.tensor({.shape = {2}, .type = tfl::TensorType::BOOL});
  m.op(Op::LESS, {a, b}, {y});
  m.end_subgraph({a, b}, {y});
  const std::string file = m.finish();
  const auto model = load(file);
  ASSERT_TRUE(model.ok()) << model.error().message();
  Session session = session_of(*model);
  const auto quantized = [](std::vector<int16_t> v) {
    return Tensor::from<int16_t>(DType::kI16, {2}, std::span<const int16_t>(v));
  };
  const auto got = session.run(std::vector<Datum>{quantized({5, 9}), quantized({6, 8})});
  ASSERT_TRUE(got.ok()) << got.error().message();
  EXPECT_EQ(got->front().tensor.data<uint8_t>()[0], 1);
  EXPECT_EQ(got->front().tensor.data<uint8_t>()[1], 0);
}

TEST(TfliteReader, TruncatedFilesAreErrors) {
  const std::string file = rich_model();
  for (size_t n = 0; n < file.size(); ++n) {
    const std::string cut = file.substr(0, n);
    const auto model = load(cut);
    if (!model.ok()) {
      EXPECT_FALSE(model.error().message().empty());
    }
    if (n % test::Guarded::kAligned == 0) (void)Model::load_bytes(test::Guarded(cut).bytes(), nullptr, "cut").ok();
  }
}

TEST(TfliteReader, DamagedFilesNeverCrash) {
  const std::string file = rich_model();
  for (size_t at = 0; at < file.size(); ++at)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = file;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const auto model = load(bad);
      if (!model.ok()) continue;
      SessionOptions options;
      options.backend = BackendKind::kReference;
      options.limit_memory = size_t{64} << 20;
      options.limit_seconds = 0.2;
      options.limit_steps = 100;
      auto session = Session::create(*model, options);
      if (!session.ok()) continue;
      std::vector<Datum> inputs;
      for (const Port& p : model->inputs()) {
        Shape shape = p.shape;
        for (int d = 0; d < shape.rank(); ++d)
          if (shape[d] < 0 || shape[d] > 4) shape[d] = 1;
        inputs.emplace_back(Tensor(p.dtype == DType::kInvalid ? DType::kF32 : p.dtype, shape));
      }
      (void)session->run(inputs);
    }
}

TEST(TfliteReader, NamesWhatIsWrong) {
  {
    TestModel m;
    const int x = m.tensor({.shape = {1, 4, 4, 1}}), w = m.tensor({.shape = {1, 2, 2}, .values = {1, 2, 3, 4}}),
              y = m.tensor({.shape = {1, 4, 4, 1}});
    m.op(Op::CONV_2D, {x, w, -1}, {y}, tfl::CreateConv2DOptions(m.fbb(), tfl::Padding::SAME, 1, 1));
    m.end_subgraph({x}, {y});
    const auto model = load(m.finish());
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().message(), "test: subgraph 0, operator 0 CONV_2D: the filter has rank 3, 4 expected");
  }
  {
    TestModel m;
    const int x = m.tensor({.shape = {4}}), y = m.tensor({.shape = {4}});
    m.op(Op::CALL, {x}, {y}, tfl::CreateCallOptions(m.fbb(), 0));
    m.end_subgraph({x}, {y});
    const auto model = load(m.finish());
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.error().message().find("runs itself"), std::string::npos) << model.error().message();
  }
  {
    TestModel m;
    const int x = m.tensor({.shape = {4}}), y = m.tensor({.shape = {4}});
    m.op(Op::CONCAT_EMBEDDINGS, {x}, {y});
    m.end_subgraph({x}, {y});
    const auto model = load(m.finish());
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.error().message().find("CONCAT_EMBEDDINGS"), std::string::npos);
  }
  TestModel m;
  m.end_subgraph({}, {});
  const auto model = load(m.finish(4));
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message().find("schema version 4"), std::string::npos);
}

TEST(TfliteReader, ZeroPointsFarOutOfRangeAreErrors) {
  for (const int64_t zero : {int64_t{-128}, int64_t{INT32_MIN}, int64_t{INT32_MAX}, INT64_MIN}) {
    TestModel m;
    const int x = m.tensor({.shape = {4}, .type = tfl::TensorType::INT8, .scales = {0.5f}, .zero_points = {zero}});
    const int y = m.tensor({.shape = {4}, .type = tfl::TensorType::INT8, .scales = {0.25f}, .zero_points = {0}});
    m.op(Op::ABS, {x}, {y});
    m.end_subgraph({x}, {y});
    const auto r = load(m.finish());
    if (zero == -128)
      EXPECT_TRUE(r.ok()) << r.error().message();
    else
      EXPECT_FALSE(r.ok()) << zero;
  }
}

TEST(TfliteReader, VariablesLiveAcrossRuns) {
  // A fully connected RNN with weight 1: the state sums up the inputs.
  TestModel m;
  const int x = m.tensor({.shape = {1, 1}}), w = m.tensor({.shape = {1, 1}, .values = {1}}),
            r = m.tensor({.shape = {1, 1}, .values = {1}}), b = m.tensor({.shape = {1}, .values = {0}}),
            h = m.tensor({.shape = {1, 1}, .variable = true}), y = m.tensor({.shape = {1, 1}});
  m.op(Op::RNN, {x, w, r, b, h}, {y}, tfl::CreateRNNOptions(m.fbb()));
  m.end_subgraph({x}, {y});
  const std::string file = m.finish();
  const auto model = load(file);
  ASSERT_TRUE(model.ok()) << model.error().message();
  Session session = session_of(*model);
  EXPECT_EQ(run(session, {floats(Shape{1, 1}, {2})}), std::vector<float>{2});
  EXPECT_EQ(run(session, {floats(Shape{1, 1}, {3})}), std::vector<float>{5});
  session.reset_state();
  EXPECT_EQ(run(session, {floats(Shape{1, 1}, {3})}), std::vector<float>{3});
}

/// The options' only byte.
Result<float> only_byte(std::span<const std::byte> options) {
  if (options.size() != 1) return Error(ErrorCode::kInvalidModel, "one byte of options expected");
  return static_cast<float>(options[0]);
}

TEST(TfliteReader, CustomOperators) {
  TestModel m;
  const int x = m.tensor({.shape = {3}}), y = m.tensor({.shape = {3}}), z = m.tensor({.shape = {3}});
  m.custom("Scale", {x}, {y}, {7});
  m.op(Op::ABS, {y}, {z});
  m.end_subgraph({x}, {z});
  const std::string file = m.finish();
  const auto unknown = load(file);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message().find("custom operator 'Scale'"), std::string::npos);
  LoadOptions options;
  options.tolerate = {"unknown-operator"};
  const auto kept = load(file, options);
  ASSERT_TRUE(kept.ok()) << kept.error().message();
  auto without = Session::create(*kept);
  ASSERT_TRUE(without.ok());
  const Datum input = floats(Shape{3}, {1, 2, 3});
  EXPECT_NE(without->run({&input, 1}).error().message().find("operator Scale is not known"), std::string::npos);
  options.custom_operators.push_back(std::make_shared<test::ScalingOperator>("Scale", only_byte));
  const auto model = load(file, options);
  ASSERT_TRUE(model.ok()) << model.error().message();
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    SessionOptions so;
    so.backend = backend;
    auto session = Session::create(*model, so);
    ASSERT_TRUE(session.ok());
    EXPECT_EQ(run(*session, {floats(Shape{3}, {1, -2, 3})}), (std::vector<float>{7, 14, 21}));
  }
}

/// A ZIP archive of one stored member, with offsets from `base`.
std::string archive(const std::string& name, const std::string& text, size_t base) {
  const auto number = [](uint64_t v, int bytes) {
    std::string s;
    for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
    return s;
  };
  const std::string sizes = number(0, 4) + number(text.size(), 4) + number(text.size(), 4);
  const std::string header = "PK\3\4" + number(20, 2) + number(0, 8) + sizes + number(name.size(), 2) + number(0, 2);
  const std::string entry = "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 8) + sizes + number(name.size(), 2) +
                            number(0, 2) + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(base, 4) +
                            name;
  const std::string member = header + name + text;
  return member + entry + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) + number(entry.size(), 4) +
         number(base + member.size(), 4) + number(0, 2);
}

TEST(TfliteReader, LabelsBehindTheModel) {
  TestModel m;
  const int x = m.tensor({.shape = {3}}), y = m.tensor({.shape = {3}});
  m.op(Op::ABS, {x}, {y});
  m.end_subgraph({x}, {y});
  // The smallest description: an empty table.
  m.metadata("TFLITE_METADATA", {8, 0, 0, 0, 'M', '0', '0', '1', 0xfc, 0xff, 0xff, 0xff, 4, 0, 4, 0});
  m.metadata("min_runtime_version", {'1', '.', '5', 0});
  std::string file = m.finish();
  file += archive("labels.txt", "cat\r\ndog\n", file.size());
  const auto model = load(file);
  ASSERT_TRUE(model.ok()) << model.error().message();
  const auto& files = module_of(*model).text_files;
  for (const auto& [key, value] : module_of(*model).metadata) {
    if (key == "min_runtime_version") {
      EXPECT_EQ(value, "1.5");
    }
  }
  ASSERT_EQ(files.count("labels.txt"), 1u);
  EXPECT_EQ(files.at("labels.txt"), (std::vector<std::string>{"cat", "dog"}));
  for (size_t n = 0; n < 200; ++n) (void)load(file.substr(0, file.size() - n));
}

}  // namespace
}  // namespace smelt::tflite
