// Files that break a rule of TFLite's schema.
#include <gtest/gtest.h>

#include "smelt/model.h"
#include "support/tflite_test_model.h"
#include "support/tolerance_check.h"

namespace smelt::tflite {
namespace {

class TfliteValidity : public testing::Test {
 protected:
  using Operator = tfl::BuiltinOperator;
  using Type = tfl::TensorType;

  /// y = |x|, and a tensor that no operator reads.
  static std::string with_tensor(const TestModel::TensorSpec& spec) {
    TestModel m;
    const int x = m.tensor({.shape = {2}}), y = m.tensor({.shape = {2}});
    m.tensor(spec);
    m.op(Operator::ABS, {x}, {y});
    m.end_subgraph({x}, {y});
    return m.finish();
  }
  static void accepted(const std::string& file) {
    const auto m = Model::load_bytes(std::as_bytes(std::span(file)));
    EXPECT_TRUE(m.ok()) << m.error().message();
  }
};

TEST_F(TfliteValidity, Scales) {
  const float infinite = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto spec = [](Type type, float scale) {
    return TestModel::TensorSpec{.shape = {2}, .type = type, .scales = {scale}, .zero_points = {0}};
  };
  accepted(with_tensor(spec(Type::INT8, 0.5f)));
  for (const Type type : {Type::INT8, Type::UINT8, Type::INT16})
    expect_refused(with_tensor(spec(type, 0)), "tensor 2 't2': quantization scale 0", "quantization-scale");
  for (const float scale : {infinite, nan, -1.0f})
    expect_refused(with_tensor(spec(Type::INT8, scale)), "a positive number expected");
  // Channels of zeros.
  const auto weights = [](const std::vector<float>& scales, bool constant) {
    TestModel m;
    TestModel::TensorSpec spec{.shape = {2, 3}, .type = Type::INT8, .scales = scales};
    spec.zero_points.assign(scales.size(), 0);
    if (constant) spec.raw.resize(6);
    const int ids = m.tensor({.shape = {2}, .type = Type::INT32}), table = m.tensor(spec);
    const int y = m.tensor({.shape = {2, 3}, .type = Type::FLOAT32});
    m.op(Operator::EMBEDDING_LOOKUP, {ids, table}, {y});
    m.end_subgraph(constant ? std::vector<int>{ids} : std::vector<int>{ids, table}, {y});
    return m.finish();
  };
  accepted(weights({0.5f, 0}, true));
  accepted(weights({0, 0}, true));
  expect_refused(weights({0}, true), "quantization scale 0", "quantization-scale");
  expect_refused(weights({0.5f, 0}, false), "quantization scale 0", "quantization-scale");
  // Types without quantization ignore the scale.
  accepted(with_tensor(spec(Type::INT32, 0)));
  for (const float scale : {infinite, nan, -1.0f})
    expect_refused(with_tensor(spec(Type::INT32, scale)), "quantization scale", "quantization-scale");
}

TEST_F(TfliteValidity, ZeroPoints) {
  const auto spec = [](Type type, int64_t zero_point) {
    return TestModel::TensorSpec{.shape = {2}, .type = type, .scales = {1}, .zero_points = {zero_point}};
  };
  for (const auto& [type, zero_point] : {std::pair(Type::INT8, -128), std::pair(Type::INT8, 127),
                                         std::pair(Type::UINT8, 255), std::pair(Type::INT16, 0)})
    accepted(with_tensor(spec(type, zero_point)));
  for (const auto& [type, zero_point] : {std::pair(Type::INT8, -129), std::pair(Type::INT8, 128),
                                         std::pair(Type::UINT8, 256), std::pair(Type::UINT8, -1)})
    expect_refused(with_tensor(spec(type, zero_point)), "zero point", "zero-point-range");
  expect_refused(with_tensor(spec(Type::INT8, int64_t{1} << 40)), "zero point 1099511627776");
}

TEST_F(TfliteValidity, OperandsOfOneType) {
  const auto model = [](Operator op, const TestModel::TensorSpec& second) {
    TestModel m;
    TestModel::TensorSpec first{.shape = {2}, .type = Type::UINT8, .scales = {0.5f}, .zero_points = {3}};
    const int x = m.tensor(first), z = m.tensor(second), y = m.tensor(first);
    m.op(op, {x, z}, {y});
    m.end_subgraph({x, z}, {y});
    return m.finish();
  };
  const TestModel::TensorSpec integers{.shape = {2}, .type = Type::INT32};
  for (const Operator op : {Operator::ADD, Operator::MUL, Operator::MAXIMUM, Operator::PRELU, Operator::ADD_N}) {
    accepted(model(op, {.shape = {2}, .type = Type::UINT8, .scales = {0.25f}, .zero_points = {0}}));
    expect_refused(model(op, integers), "operands of uint8 and int32: one element type expected");
  }
}

TEST_F(TfliteValidity, SignaturesAgreeWithShapes) {
  accepted(with_tensor({.shape = {1, 2}, .signature = {-1, 2}}));
  expect_refused(with_tensor({.shape = {1, 2}, .signature = {-1, 3}}), "dimension 1 is 2, its signature says 3");
}

TEST_F(TfliteValidity, MethodsNameTensors) {
  const auto model = [](uint32_t tensor) {
    TestModel m;
    const int x = m.tensor({.shape = {2}}), y = m.tensor({.shape = {2}});
    m.op(Operator::ABS, {x}, {y});
    m.end_subgraph({x}, {y});
    m.signature("serve", tensor);
    return m.finish();
  };
  accepted(model(0));
  expect_refused(model(2), "signature 'serve' names tensor 2, the subgraph has 2");
}

TEST_F(TfliteValidity, BuffersLieInOnePlace) {
  TestModel m;
  const int x = m.tensor({.shape = {2}}), w = m.tensor({.shape = {2}, .values = {1, 2}}), y = m.tensor({.shape = {2}});
  m.op(Operator::ADD, {x, w}, {y}, tfl::CreateAddOptions(m.fbb()));
  m.end_subgraph({x}, {y});
  m.buffer_offset = 64;
  expect_refused(m.finish(), "buffer 1 lies inside the flatbuffer and behind it");
}

TEST_F(TfliteValidity, Enumerators) {
  TestModel m;
  const int x = m.tensor({.shape = {2}}), y = m.tensor({.shape = {4}});
  const int pads = m.tensor({.shape = {1, 2}, .type = Type::INT32, .raw = {1, 0, 0, 0, 1, 0, 0, 0}});
  m.op(Operator::MIRROR_PAD, {x, pads}, {y}, tfl::CreateMirrorPadOptions(m.fbb(), static_cast<tfl::MirrorPadMode>(2)));
  m.end_subgraph({x}, {y});
  expect_refused(m.finish(), "mode 2 is not in the schema");
}

TEST_F(TfliteValidity, EnumeratorsThatNothingReads) {
  const auto model = [](Type declared) {
    TestModel m;
    const int x = m.tensor({.shape = {2}}), y = m.tensor({.shape = {2}, .type = Type::INT32});
    m.op(Operator::CAST, {x}, {y}, tfl::CreateCastOptions(m.fbb(), declared, Type::INT32));
    m.end_subgraph({x}, {y});
    return m.finish();
  };
  accepted(model(Type::FLOAT32));
  accepted(model(Type::INT8));
  expect_refused(model(static_cast<Type>(117)), "operator 0 CAST: in_data_type 117 is not in the schema");
}

TEST_F(TfliteValidity, NumberOfSplits) {
  const auto model = [](int splits) {
    TestModel m;
    const int x = m.tensor({.shape = {4}}), y = m.tensor({.shape = {1}}), z = m.tensor({.shape = {3}});
    const int sizes = m.tensor({.shape = {2}, .type = Type::INT32, .raw = {1, 0, 0, 0, 3, 0, 0, 0}});
    const int axis = m.tensor({.shape = {}, .type = Type::INT32, .raw = {0, 0, 0, 0}});
    m.op(Operator::SPLIT_V, {x, sizes, axis}, {y, z}, tfl::CreateSplitVOptions(m.fbb(), splits));
    m.end_subgraph({x}, {y, z});
    return m.finish();
  };
  accepted(model(2));
  expect_refused(model(3), "num_splits 3 with 2 outputs");
}

TEST_F(TfliteValidity, SignaturesHaveKeysOfTheirOwn) {
  TestModel m;
  const int x = m.tensor({.shape = {2}}), y = m.tensor({.shape = {2}});
  m.op(Operator::ABS, {x}, {y});
  m.end_subgraph({x}, {y});
  m.signature("serve", 0);
  m.signature("serve", 0);
  expect_refused(m.finish(), "two signatures 'serve'");
}

TEST_F(TfliteValidity, ClipsOfRecurrentCells) {
  for (const float clip : {-1.0f, std::numeric_limits<float>::quiet_NaN()})
    for (const bool cell : {false, true}) {
      TestModel m;
      const int x = m.tensor({.shape = {1, 1, 2}}), y = m.tensor({.shape = {1, 1, 2}});
      m.op(Operator::UNIDIRECTIONAL_SEQUENCE_LSTM, std::vector<int32_t>(20, x), {y},
           tfl::CreateUnidirectionalSequenceLSTMOptions(m.fbb(), tfl::ActivationFunctionType::TANH, cell ? clip : 0,
                                                        cell ? 0 : clip));
      m.end_subgraph({x}, {y});
      expect_refused(m.finish(), "none below 0 expected");
    }
}

}  // namespace
}  // namespace smelt::tflite
