// What callers may do wrong with the public API comes back as errors; what they may do at once stays right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>

#include "ops/core/builder.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/backends.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

/// y = x @ w with x [?, 4] and w = 2 * identity with its rows turned round, a second output that is absent, and a
/// variable that nothing reads.
Model reversing_model() {
  auto module = std::make_shared<Module>();
  module->name = "small";
  module->states.push_back({.name = "total", .type = ValueType::tensor(DType::kF32, Shape{4})});
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  Tensor w(DType::kF32, Shape{4, 4});
  for (int i = 0; i < 4; ++i) w.data<float>()[4 * i + 3 - i] = 2;
  b.graph().outputs = {b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, b.constant("w", std::move(w))}).value(),
                       kNoValue};
  return ModelAccess::make(std::move(module));
}

Tensor floats(int64_t rows, float value = 1) {
  return Tensor::from<float>(DType::kF32, Shape{rows, 4},
                             std::vector<float>(static_cast<size_t>(std::max<int64_t>(rows, 0)) * 4, value));
}

/// Of a result that must be an error: kInvalidInput with `text` in its message.
template <class T>
void expect_refused(const Result<T>& r, const std::string& text) {
  ASSERT_FALSE(r.ok()) << text;
  EXPECT_EQ(r.error().code(), ErrorCode::kInvalidInput) << r.error().message();
  EXPECT_NE(r.error().message().find(text), std::string::npos) << r.error().message();
}

TEST(Boundary, OptionsOutsideTheirRangesAreRefused) {
  const Model model = reversing_model();
  expect_refused(Session::create(model, {.backend = "abacus"}),
                 "SessionOptions::backend is 'abacus'; there are reference, cpu, vulkan");
  for (int threads : {0, -1, std::numeric_limits<int>::min(), 257, std::numeric_limits<int>::max()})
    expect_refused(Session::create(model, {.threads = threads}), "1 to 256 expected");
  for (const BackendKind& backend : {BackendKind::kCpu, BackendKind::kVulkan})
    expect_refused(Session::create(model, {.backend = backend, .device = -2}), "SessionOptions::device is -2");
  expect_refused(Session::create(model, {.device_storage = static_cast<DeviceStorage>(3)}), "device_storage is 3");
  for (double seconds : {-1.0, -1e-300, std::nan(""), -std::numeric_limits<double>::infinity()})
    expect_refused(Session::create(model, {.limit_seconds = seconds}), "limit_seconds is ");
  expect_refused(Session::create(model, {.max_plans = 0}), "max_plans is 0");
  expect_refused(Session::create(model, {.fp16 = true}), "fp16");
}

TEST(Boundary, OptionsAtTheEndsOfTheirRangesServe) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const SessionOptions& options :
       {SessionOptions{.threads = 1}, SessionOptions{.threads = 256}, SessionOptions{.limit_seconds = infinity},
        SessionOptions{.limit_seconds = 1e300}, SessionOptions{.limit_memory = ~size_t{0}},
        SessionOptions{.limit_steps = ~uint64_t{0}}, SessionOptions{.max_plans = 1}}) {
    auto session = Session::create(reversing_model(), options);
    ASSERT_TRUE(session.ok()) << session.error().message();
    for (int64_t rows : {0, 1, 3}) {
      const auto out = session->run(std::vector<Datum>{floats(rows)});
      ASSERT_TRUE(out.ok()) << out.error().message();
      EXPECT_EQ((*out)[0].tensor.shape(), (Shape{rows, 4}));
    }
  }
}

class BoundaryTest : public testing::TestWithParam<BackendKind> {
 protected:
  void SetUp() override {
    SMELT_SKIP_WITHOUT(GetParam());
    auto made = Session::create(reversing_model(), {.backend = GetParam()});
    ASSERT_TRUE(made.ok()) << made.error().message();
    session_.emplace(std::move(made).value());
  }
  void refuses(const std::vector<Datum>& inputs, const std::string& text) {
    expect_refused(session_->run(inputs), text);
    expect_refused(session_->run_in_place("main", inputs), text);
  }
  /// After whatever was refused.
  void runs() {
    const auto out = session_->run(std::vector<Datum>{floats(2, 3)});
    ASSERT_TRUE(out.ok()) << out.error().message();
    ASSERT_EQ(out->size(), 2u);
    for (int i = 0; i < 8; ++i) EXPECT_EQ((*out)[0].tensor.data<float>()[i], 6);
    EXPECT_TRUE((*out)[1].none());
  }
  std::optional<Session> session_;
};
INSTANTIATE_TEST_SUITE_P(Backends, BoundaryTest, testing::ValuesIn(test::every_backend()));

TEST_P(BoundaryTest, InputsThatAreNotTheModels) {
  refuses({}, "0 inputs given, the model takes 1");
  refuses({floats(1), floats(1)}, "2 inputs given");
  refuses({Datum()}, "input 0 'x' is missing");
  refuses({Tensor()}, "an undefined tensor");
  refuses({Datum::sequence({floats(1)})}, "is a sequence");
  refuses({Datum::map(floats(1), floats(1))}, "is a map");
  Datum torn;
  torn.kind = Datum::Kind::kSequence;
  refuses({torn}, "an undefined sequence");
  refuses({Tensor(DType::kF64, Shape{1, 4})}, "is float64, the model takes float32");
  refuses({Tensor(DType::kString, Shape{1, 4})}, "is string");
  refuses({Tensor(DType::kF32, Shape{4})}, "the model takes [?,4]");
  refuses({Tensor(DType::kF32, Shape{1, 1, 4})}, "the model takes [?,4]");
  expect_refused(session_->run("other", std::vector<Datum>{floats(1)}), "no method 'other'");
  runs();
}

TEST_P(BoundaryTest, TensorsThatAreNotWhatTheySay) {
  float values[8] = {};
  refuses({Tensor::view(DType::kF32, Shape{1, 4}, nullptr, nullptr)}, "input 0 'x' has no data");
  refuses({Tensor::view(DType::kF32, Shape{-1, 4}, values, nullptr)}, "its shape [?,4]");
  refuses({Tensor::view(DType::kF32, Shape{-2, -4}, values, nullptr)}, "its shape");
  refuses({floats(1).reshaped(Shape{9, 4})}, "4 elements, which don't make its shape [9,4]");
  refuses({Tensor::view(DType::kF32, Shape{int64_t{1} << 62, 4}, values, nullptr)}, "its shape");
  EXPECT_FALSE(
      session_->run(std::vector<Datum>{Tensor::view(static_cast<DType>(77), Shape{1, 4}, values, nullptr)}).ok());
  // No elements need no data; prepare() reads none.
  EXPECT_TRUE(session_->run(std::vector<Datum>{Tensor::view(DType::kF32, Shape{0, 4}, nullptr, nullptr)}).ok());
  EXPECT_TRUE(session_->prepare(std::vector<Datum>{Tensor::view(DType::kF32, Shape{9, 4}, nullptr, nullptr)}).ok());
  runs();
}

TEST_P(BoundaryTest, TheModelsQuantizationCountsNotTheCallers) {
  Tensor x = floats(2, 3);
  auto odd = std::make_shared<Quantization>();
  odd->kind = Quantization::Kind::kPerAxis;
  odd->axis = 7;
  x.set_quant(odd);
  const auto out = session_->run(std::vector<Datum>{x});
  ASSERT_TRUE(out.ok()) << out.error().message();
  EXPECT_EQ((*out)[0].tensor.data<float>()[0], 6);
  EXPECT_FALSE((*out)[0].tensor.quant());
  EXPECT_EQ(x.quant(), odd);
}

TEST_P(BoundaryTest, OutputsMayBeTheNextInputs) {
  auto view = session_->run_in_place(std::vector<Datum>{floats(300)});
  for (float want = 2; want < 1000; want *= 2) {
    ASSERT_TRUE(view.ok()) << view.error().message();
    const Tensor& y = (*view)[0].tensor;
    ASSERT_EQ(y.elements(), 1200);
    for (int i = 0; i < 1200; ++i) ASSERT_EQ(y.data<float>()[i], want);
    view = session_->run_in_place(view->first(1));
  }
}

TEST_P(BoundaryTest, AnExtentOfZeroTakesNoTime) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, -1, -1}));
  b.graph().outputs = {b.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}).value()};
  auto session = Session::create(ModelAccess::make(std::move(module)), {.backend = GetParam(), .limit_seconds = 20});
  ASSERT_TRUE(session.ok());
  const std::vector<Datum> in{Tensor(DType::kF32, Shape{5122, int64_t{1} << 28, 0})};
  const auto out = session->run(in);
  ASSERT_TRUE(out.ok()) << out.error().message();
  EXPECT_EQ((*out)[0].tensor.shape(), in[0].tensor.shape());
}

TEST_P(BoundaryTest, HugeShapesAreRefusedOrTooMuch) {
  float values[4] = {};
  const auto huge = Tensor::view(DType::kF32, Shape{int64_t{1} << 50, 4}, values, nullptr);
  const auto planned = session_->prepare(std::vector<Datum>{huge});
  EXPECT_EQ(planned.ok(), GetParam() == BackendKind::kReference);  // which plans nothing
  runs();
}

TEST_P(BoundaryTest, ASessionThatWasMovedFromRefuses) {
  Session other = std::move(*session_);
  const std::vector<Datum> x{floats(1)};
  expect_refused(session_->run(x), "moved from");
  expect_refused(session_->run("main", x), "moved from");
  expect_refused(session_->run_in_place(x), "moved from");
  expect_refused(session_->prepare(x), "moved from");
  session_->reset_state();
  session_->cancel();
  EXPECT_TRUE(session_->profile().empty());
  EXPECT_EQ(session_->arena_bytes(), 0u);
  EXPECT_NE(session_->isa(), nullptr);
  *session_ = std::move(other);
  runs();
}

TEST_P(BoundaryTest, SessionsOutliveTheirModels) {
  auto model = std::make_unique<Result<Model>>(Model::load((source_folder() / "examples/digits/digits.onnx").string()));
  ASSERT_TRUE(model->ok()) << model->error().message();
  auto session = Session::create(**model, {.backend = GetParam()});
  ASSERT_TRUE(session.ok());
  const std::vector<Datum> image{Tensor(DType::kF32, Shape{1, 1, 8, 8})};
  const auto before = session->run(image);
  model.reset();
  const auto after = session->run(image);
  ASSERT_TRUE(before.ok() && after.ok());
  for (int i = 0; i < 10; ++i) EXPECT_EQ((*before)[0].tensor.data<float>()[i], (*after)[0].tensor.data<float>()[i]);
}

TEST_P(BoundaryTest, SessionsOfOneModelRunSideBySide) {
  const auto model = Model::load((source_folder() / "examples/digits/digits.tflite").string());
  ASSERT_TRUE(model.ok()) << model.error().message();
  const Shape shape = model->inputs()[0].shape;
  const auto scores = [&](const Model& m, int threads, float seed) {
    std::vector<float> out;
    auto session = Session::create(m, {.backend = GetParam(), .threads = threads});
    Tensor x(DType::kF32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = std::fmod(seed * static_cast<float>(i), 1.0f);
    for (int round = 0; session.ok() && round < 3; ++round) {
      const auto y = session->run(std::vector<Datum>{x});
      if (!y.ok()) return std::vector<float>();
      const float* p = (*y)[0].tensor.data<float>();
      if (round > 0 && !std::equal(out.begin(), out.end(), p)) return std::vector<float>();
      out.assign(p, p + (*y)[0].tensor.elements());
    }
    return out;
  };
  std::vector<std::vector<float>> want(4), got(8);
  for (size_t i = 0; i < want.size(); ++i) want[i] = scores(*model, 1, static_cast<float>(i) / 7);
  std::vector<std::thread> crowd;
  for (size_t i = 0; i < got.size(); ++i)
    crowd.emplace_back([&, i] {
      const size_t k = i % want.size();
      // Half of them share the model, the others load the same file.
      const auto own = Model::load((source_folder() / "examples/digits/digits.tflite").string());
      got[i] = scores(i % 2 == 0 || !own.ok() ? *model : *own, 1 + static_cast<int>(i) / 4, static_cast<float>(k) / 7);
    });
  for (std::thread& t : crowd) t.join();
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), 10u);
    for (size_t k = 0; k < 10; ++k) EXPECT_NEAR(got[i][k], want[i % want.size()][k], 1e-5);
  }
}

TEST(Boundary, ModelsMayBeMovedFrom) {
  Model model = reversing_model();
  const Model moved = std::move(model);         // NOLINT(performance-move-const-arg): moving is what is tested
  EXPECT_EQ(model.methods(), moved.methods());  // NOLINT(bugprone-use-after-move): moving copies
  EXPECT_TRUE(Session::create(model).ok());
}

TEST(Boundary, PortsOfWhatTheModelHasNot) {
  const Model model = reversing_model();
  ASSERT_EQ(model.outputs().size(), 2u);
  EXPECT_EQ(model.outputs()[1].dtype, DType::kInvalid);
  EXPECT_TRUE(model.inputs("other").empty());
  EXPECT_TRUE(model.outputs("other").empty());
}

TEST(Boundary, NoBytesAndNoFilesAreErrors) {
  EXPECT_EQ(Model::load_bytes({}).error().code(), ErrorCode::kInvalidModel);
  EXPECT_EQ(Model::load_bytes({static_cast<const std::byte*>(nullptr), 0}, nullptr, "").error().code(),
            ErrorCode::kInvalidModel);
  for (const char* path : {"", "/", ".", "/no/such/file"})
    EXPECT_EQ(Model::load(path).error().code(), ErrorCode::kIo) << path;
  EXPECT_EQ(Model::load("a\nb").error().code(), ErrorCode::kIo);
}

TEST(Boundary, TensorsAndShapesBeyondWhatFits) {
  EXPECT_THROW(Tensor(DType::kF32, Shape{int64_t{1} << 60}), std::bad_alloc);
  EXPECT_THROW(Tensor(DType::kF32, Shape{-1, 4}), std::bad_alloc);
  EXPECT_THROW(Shape(std::vector<int64_t>(Shape::kMaxRank + 1, 1)), std::length_error);
  EXPECT_EQ(Tensor::allocate(DType::kF32, Shape{int64_t{1} << 60}).error().code(), ErrorCode::kLimit);
  EXPECT_EQ(Tensor::allocate(DType::kF32, Shape{-1, 4}).error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(Tensor::allocate(DType::kF32, Shape{int64_t{1} << 40, int64_t{1} << 40}).error().code(),
            ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace smelt
