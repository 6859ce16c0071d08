// What the library offers beside run(): names, buffers, asynchronous runs, shared threads, logs, metadata, errors.
#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "smelt/custom_operator.h"
#include "smelt/model.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

/// sum = a + b and sum2 = -sum for float32 [2]; `b` may be left out: 1.
Model adder_model() {
  auto module = std::make_shared<Module>();
  module->name = "adder";
  module->producer = "a test 1.0";
  module->metadata.emplace_back("opset ai.onnx", "17");
  module->text_files["few.txt"] = {"cat"};
  module->text_files["labels.txt"] = {"cat", "dog"};
  module->graphs.emplace_back();
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueType type = ValueType::tensor(DType::kF32, Shape{2});
  const ValueId x = b.input("a", type), y = b.input("b", type);
  b.graph().value(y).constant =
      std::make_shared<const Tensor>(Tensor::from<float>(DType::kF32, {2}, std::vector<float>{1, 1}));
  const ValueId sum = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, y}).value();
  const ValueId negative = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {sum}).value();
  b.graph().value(sum).name = "sum";
  b.graph().value(negative).name = "negative";
  b.graph().outputs = {negative};
  return ModelAccess::make(std::move(module));
}

Tensor two_floats(float first, float second) {
  return Tensor::from<float>(DType::kF32, {2}, std::vector<float>{first, second});
}

std::vector<float> floats_of(const Datum& d) {
  return {d.tensor.data<float>(), d.tensor.data<float>() + d.tensor.elements()};
}

TEST(Library, ErrorsThrowTheirMessage) {
  const Result<int> wrong = Error(ErrorCode::kLimit, "too large");
  try {
    (void)wrong.value();
    FAIL() << "value() of an error throws";
  } catch (const ResultError& e) {
    EXPECT_STREQ(e.what(), "too large");
    EXPECT_EQ(e.code(), ErrorCode::kLimit);
  }
  EXPECT_THROW((void)Result<int>(1).error(), std::logic_error);
  EXPECT_THROW((void)Status().error(), std::logic_error);
  EXPECT_THROW((void)*Model::load("there is no such file"), ResultError);
  EXPECT_STREQ(to_string(ErrorCode::kInvalidModel), "invalid model");
  EXPECT_STREQ(to_string(ErrorCode::kInternal), "internal error");
  EXPECT_STREQ(to_string(static_cast<ErrorCode>(99)), "unknown error");
}

TEST(Library, TensorsCheckTheirValues) {
  const std::vector<float> three{1, 2, 3};
  EXPECT_EQ(Tensor::from<float>(DType::kF32, {3}, three).data<float>()[2], 3);
  EXPECT_THROW(Tensor::from<float>(DType::kF32, {2}, three), std::invalid_argument);
  EXPECT_THROW(Tensor::from<float>(DType::kF32, {4}, three), std::invalid_argument);
  EXPECT_THROW(Tensor::from<float>(DType::kF64, {3}, three), std::invalid_argument);
  EXPECT_THROW(Tensor::from<float>(DType::kString, {3}, three), std::invalid_argument);
}

TEST(Library, VersionIsThatOfTheHeaders) {
  EXPECT_STREQ(version(), SMELT_VERSION_STRING);
  EXPECT_EQ(std::to_string(SMELT_VERSION_MAJOR) + "." + std::to_string(SMELT_VERSION_MINOR) + "." +
                std::to_string(SMELT_VERSION_PATCH),
            SMELT_VERSION_STRING);
}

TEST(Library, ModelsTellAboutThemselves) {
  const Model model = adder_model();
  EXPECT_EQ(model.producer(), "a test 1.0");
  ASSERT_EQ(model.metadata().size(), 1u);
  EXPECT_EQ(model.metadata()[0].second, "17");
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(model.inputs()[1].optional);
}

TEST(Library, RunsByName) {
  Session session = Session::create(adder_model()).value();
  const auto both = session.run_named({{"a", two_floats(1, 2)}, {"b", two_floats(3, 4)}});
  ASSERT_TRUE(both.ok()) << both.error().message();
  EXPECT_EQ(floats_of(both->at("negative")), (std::vector<float>{-4, -6}));
  EXPECT_EQ(floats_of(session.run_named("main", {{"a", two_floats(1, 2)}}).value().at("negative")),
            (std::vector<float>{-2, -3}));
  const auto misspelt = session.run_named({{"aa", two_floats(1, 2)}});
  ASSERT_FALSE(misspelt.ok());
  EXPECT_EQ(misspelt.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(misspelt.error().message().find("did you mean 'a'"), std::string::npos) << misspelt.error().message();
  EXPECT_FALSE(session.run_named({{"b", two_floats(1, 2)}}).ok());
}

TEST(Library, RunsIntoBuffersOfTheCaller) {
  Session session = Session::create(adder_model()).value();
  const std::vector<Datum> inputs{two_floats(1, 2), {}};
  float numbers[2] = {};
  std::vector<Tensor> buffers{Tensor::view(DType::kF32, {2}, numbers, nullptr)};
  const Status done = session.run_into(inputs, buffers);
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_EQ(numbers[1], -3);
  buffers[0] = Tensor();
  ASSERT_TRUE(session.run_into(inputs, buffers).ok());
  EXPECT_EQ(floats_of(buffers[0]), (std::vector<float>{-2, -3}));
  for (const Tensor& wrong : {Tensor(DType::kF32, {3}), Tensor(DType::kI32, {2})}) {
    buffers[0] = wrong;
    EXPECT_EQ(session.run_into(inputs, buffers).error().code(), ErrorCode::kInvalidInput);
  }
  EXPECT_FALSE(session.run_into(inputs, {}).ok());
}

TEST(Library, OutputsCanBeChosen) {
  const std::vector<std::string> names{"sum", "a"};
  const Model chosen = adder_model().with_outputs(names).value();
  ASSERT_EQ(chosen.outputs().size(), 2u);
  Session session = Session::create(chosen).value();
  const auto out = session.run(std::vector<Datum>{two_floats(1, 2), {}});
  ASSERT_TRUE(out.ok()) << out.error().message();
  EXPECT_EQ(floats_of((*out)[0]), (std::vector<float>{2, 3}));
  EXPECT_EQ(floats_of((*out)[1]), (std::vector<float>{1, 2}));
  const std::vector<std::string> none{"sun"};
  EXPECT_NE(adder_model().with_outputs(none).error().message().find("did you mean 'sum'"), std::string::npos);
  EXPECT_FALSE(adder_model().with_outputs(names, "other").ok());
}

TEST(Library, RunsAsynchronouslyInOrder) {
  Session session = Session::create(adder_model()).value();
  std::vector<std::future<Result<std::vector<Datum>>>> futures;
  for (int i = 0; i < 20; ++i) futures.push_back(session.run_async({two_floats(static_cast<float>(i), 0), {}}));
  for (int i = 0; i < 20; ++i) {
    const auto out = futures[static_cast<size_t>(i)].get();
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ(floats_of((*out)[0])[0], static_cast<float>(-i - 1));
  }
  std::promise<std::thread::id> where;
  session.run_async({two_floats(0, 0), {}}, [&](Result<std::vector<Datum>> out) {
    EXPECT_TRUE(out.ok());
    where.set_value(std::this_thread::get_id());
  });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(session.run_async({two_floats(0, 0)}).get().error().code(), ErrorCode::kInvalidInput);
}

TEST(Library, WaitingRunsEndWithTheirSession) {
  std::vector<std::future<Result<std::vector<Datum>>>> futures;
  {
    Session session = Session::create(adder_model()).value();
    for (int i = 0; i < 200; ++i) futures.push_back(session.run_async({two_floats(1, 2), {}}));
    Session moved = std::move(session);
    // NOLINTNEXTLINE(bugprone-use-after-move): what a session without contents says
    EXPECT_EQ(session.run_async({two_floats(1, 2)}).get().error().code(), ErrorCode::kInvalidInput);
  }
  bool ended = false;
  for (auto& f : futures) {
    const auto out = f.get();
    if (out.ok()) {
      EXPECT_FALSE(ended) << "a run that began behind one that was cancelled";
      continue;
    }
    EXPECT_EQ(out.error().code(), ErrorCode::kCancelled);
    ended = true;
  }
}

TEST(Library, SessionsShareThreads) {
  EXPECT_FALSE(make_thread_pool(0).ok());
  EXPECT_FALSE(make_thread_pool(SessionOptions::kMaxThreads + 1).ok());
  const auto pool = make_thread_pool(2).value();
  const Model model = Model::load((source_folder() / "examples/digits/digits.onnx").string()).value();
  const Tensor image(DType::kF32, {1, 1, 8, 8});
  Session alone = Session::create(model).value();
  const auto expected = floats_of(alone.run(std::vector<Datum>{image}).value()[0]);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Session session = Session::create(model, {.thread_pool = pool}).value();
      for (int run = 0; run < 50; ++run)
        EXPECT_EQ(floats_of(session.run(std::vector<Datum>{image}).value()[0]), expected);
    });
}

TEST(Library, LogsGoToTheCaller) {
  std::vector<std::string> lines;
  const LogSink log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  const Model model = Model::load((source_folder() / "examples/digits/digits.onnx").string(), {.log = log}).value();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("loaded onnx"), std::string::npos) << lines[0];
  Session session = Session::create(model, {.log = log}).value();
  ASSERT_TRUE(session.run(std::vector<Datum>{Tensor(DType::kF32, {1, 1, 8, 8})}).ok());
  ASSERT_GE(lines.size(), 2u);
  EXPECT_NE(lines[1].find("planned '"), std::string::npos) << lines[1];
}

TEST(Library, ProfilesNameNodesAndBeginAnew) {
  Session session = Session::create(adder_model(), {.profile = true}).value();
  const std::vector<Datum> inputs{two_floats(1, 2), {}};
  ASSERT_TRUE(session.run(inputs).ok() && session.run(inputs).ok());
  auto profile = session.profile();
  ASSERT_FALSE(profile.empty());
  for (size_t i = 0; i < profile.size(); ++i) {
    EXPECT_EQ(profile[i].graph, 0u);
    EXPECT_EQ(profile[i].index, i);
    EXPECT_EQ(profile[i].calls, 2u);
  }
  session.reset_profile();
  EXPECT_TRUE(session.profile().empty());
  ASSERT_TRUE(session.run(inputs).ok());
  EXPECT_EQ(session.profile().at(0).calls, 1u);
}

TEST(Library, OperatorLibrariesThatAreNoneAreRefused) {
  const auto missing = load_custom_operators("no_such_library.so");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kIo);
  const auto foreign = load_custom_operators("libc.so.6");
  EXPECT_FALSE(foreign.ok());
}

}  // namespace
}  // namespace smelt
