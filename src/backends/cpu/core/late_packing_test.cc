// What sessions, threads, methods and plans share while first runs pack weights for themselves and second ones for
// good.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/core/isa.h"
#include "base/cat.h"
#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/matmul/matmul.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/allocations.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr int64_t kColumns = 160;  ///< a matrix of so many rows and columns of floats is a large constant

Tensor weights(uint64_t seed) { return random_tensor(DType::kF32, {kColumns, kColumns}, -1, 1, seed); }

/// Adds x @ w for each of the weights.
ValueId products(Builder& b, ValueId x, const std::vector<Tensor>& weights) {
  for (size_t i = 0; i < weights.size(); ++i)
    x = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, b.constant(Cat("weights", i), weights[i])}).value();
  return x;
}

/// Two methods and two bodies with products of the same weights: "main" runs one of the bodies, by its input 1.
Model model_of_products() {
  const Tensor a = weights(1), b = weights(2), c = weights(3);
  auto module = std::make_shared<Module>();
  module->graphs.resize(4);
  module->methods = {{"main", 0}, {"other", 1}};
  const ValueType rows = ValueType::tensor(DType::kF32, Shape{-1, kColumns});
  const auto add = [&](int graph, const std::vector<Tensor>& of) {
    Builder made(*module, graph);
    made.graph().outputs = {products(made, made.input("x", rows), of)};
  };
  add(1, {a, b});
  add(2, {b, c});
  add(3, {c, a});
  Builder main(*module, 0);
  const ValueId x = main.input("x", rows);
  const ValueId choice = main.input("choice", ValueType::tensor(DType::kBool, Shape{}));
  IfAttrs branches;
  branches.then_graph = 2;
  branches.else_graph = 3;
  const ValueId y = main.op(Op::kIf, make_attrs<IfAttrs>(branches), {choice, products(main, x, {a})}).value();
  main.graph().outputs = {products(main, y, {b, a})};
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

/// What a run is asked for.
struct Asked {
  std::string method;
  int64_t rows = 4;
  bool choice = true;

  std::vector<Datum> inputs() const {
    std::vector<Datum> in{random_tensor(DType::kF32, {rows, kColumns}, -1, 1, static_cast<uint64_t>(rows))};
    if (method == "main") in.emplace_back(Tensor::from<bool>(DType::kBool, Shape{}, std::span(&choice, 1)));
    return in;
  }
  /// The output; undefined, and a failure, where there is none.
  Tensor run(Session& session) const {
    auto out = session.run(method, inputs());
    EXPECT_TRUE(out.ok()) << out.error().message();
    return out.ok() ? (*out)[0].tensor : Tensor();
  }
};

const std::vector<Asked> kAsked{{"main", 4, true}, {"other", 4}, {"main", 4, false}, {"main", 9, true},
                                {"other", 2},      {"main", 4},  {"main", 9, false}, {"other", 4}};

bool equal_bits(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// By sessions that make one run each, of models whose weights are packed before it.
std::vector<Tensor> expected() {
  std::vector<Tensor> out;
  for (const Asked& asked : kAsked) {
    auto session = Session::create(model_of_products(), {.method = asked.method});
    EXPECT_TRUE(session.ok() && session->prepare(asked.inputs()).ok());
    out.push_back(asked.run(*session));
  }
  return out;
}

TEST(LatePacking, MethodsBodiesAndShapesInAnyOrder) {
  const std::vector<Tensor> want = expected();
  for (const size_t max_plans : {1, 8})
    for (size_t first = 0; first < kAsked.size(); ++first) {
      auto session = Session::create(model_of_products(), {.max_plans = max_plans});
      ASSERT_TRUE(session.ok());
      for (size_t i = 0; i < 2 * kAsked.size(); ++i) {
        const size_t k = (first + i) % kAsked.size();
        EXPECT_TRUE(equal_bits(kAsked[k].run(*session), want[k])) << "from " << first << ", run " << i;
      }
    }
}

TEST(LatePacking, SessionsOfAModelRunAtOnce) {
  const std::vector<Tensor> want = expected();
  for (int round = 0; round < 8; ++round) {
    const Model model = model_of_products();
    std::vector<std::thread> crowd;
    std::vector<int> right(4);
    for (size_t t = 0; t < right.size(); ++t)
      crowd.emplace_back([&, t] {
        // A session after another, while those of other threads are at other runs.
        for (size_t lives = 1; lives <= 3; ++lives) {
          auto session = Session::create(model, {.threads = 1 + static_cast<int>(t % 2)});
          for (size_t i = 0; session.ok() && i < lives; ++i) {
            const size_t k = round % 2 == 0 ? 0 : (t + i) % kAsked.size();
            right[t] += equal_bits(kAsked[k].run(*session), want[k]) ? 1 : 0;
          }
        }
      });
    for (std::thread& t : crowd) t.join();
    EXPECT_EQ(right, std::vector<int>(4, 1 + 2 + 3)) << "round " << round;
  }
}

TEST(LatePacking, ModelsAndSessionsMayGoBetweenRuns) {
  const std::vector<Tensor> want = expected();
  std::optional<Model> model = model_of_products();
  auto first = Session::create(*model), second = Session::create(*model);
  ASSERT_TRUE(first.ok() && second.ok());
  std::optional<Session> gone(std::move(first).value());
  EXPECT_TRUE(equal_bits(kAsked[0].run(*gone), want[0]));
  EXPECT_TRUE(equal_bits(kAsked[0].run(*second), want[0]));
  model.reset();
  EXPECT_TRUE(equal_bits(kAsked[0].run(*gone), want[0]));
  gone.reset();
  for (int run = 1; run < 4; ++run) EXPECT_TRUE(equal_bits(kAsked[0].run(*second), want[0])) << "run " << run;
}

/// A convolution with filters (output channel, taps, input channel), the channels of its output times a matrix.
Model model_of_large_weights(FilterLayout filter, int64_t groups) {
  constexpr int64_t kChannels = 320;
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods = {{"main", 0}};
  Builder b(*module, 0);
  ConvAttrs a;
  a.pads = {1, 1, 1, 1};
  a.groups = groups;
  a.layout = Layout::kChannelsLast;
  a.filter = filter;
  const int64_t in = kChannels / groups;
  const Shape shape = filter == FilterLayout::kOSI ? Shape{kChannels, 3, 3, in} : Shape{kChannels, in, 3, 3};
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 4, 4, kChannels}));
  const ValueId y = b.op(Op::kConv, make_attrs<ConvAttrs>(a),
                         {x, b.constant("filter", random_tensor(DType::kF32, shape, -1, 1, 1)),
                          b.constant("bias", random_tensor(DType::kF32, {kChannels}, -1, 1, 2))})
                        .value();
  const Tensor matrix = random_tensor(DType::kF32, {kChannels, kChannels}, -1, 1, 3);
  b.graph().outputs = {b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {y, b.constant("matrix", matrix)}).value()};
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

TEST(LatePacking, ThreadsPackTogether) {
  const std::vector<Datum> x{random_tensor(DType::kF32, {1, 4, 4, 320}, -1, 1, 4)};
  for (const FilterLayout filter : {FilterLayout::kOSI, FilterLayout::kOIS})
    for (const int64_t groups : {1, 2})
      for (const Isa isa : machine_isas()) {
        SCOPED_TRACE(Cat("order ", static_cast<int>(filter), ", ", groups, " groups, ", to_string(isa)));
        Tensor want;
        for (const int threads : {1, 3}) {
          const Model model = model_of_large_weights(filter, groups);
          auto session = Session::create(model, {.threads = threads, .isa = to_string(isa)});
          ASSERT_TRUE(session.ok());
          for (int run = 0; run < 2; ++run) {
            auto out = session->run(x);
            ASSERT_TRUE(out.ok()) << out.error().message();
            if (!want.defined()) want = (*out)[0].tensor;
            EXPECT_TRUE(equal_bits((*out)[0].tensor, want)) << threads << " threads, run " << run;
          }
        }
      }
}

TEST(LatePacking, MemoryMayRunOutInAnyRun) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const Asked& asked = kAsked[0];
  const std::vector<Datum> inputs = asked.inputs();
  const Tensor want = expected()[0];
  bool through = false;
  // Every allocation up to some, then ever fewer of them.
  for (int n = 0; n < 100'000 && !through; n += 1 + n / 64) {
    auto session = Session::create(model_of_products());
    ASSERT_TRUE(session.ok());
    Allocations::left = n;
    const bool first = session->run(inputs).ok();
    through = session->run(inputs).ok() && first;
    Allocations::left = -1;
    for (int run = 0; run < 3; ++run)
      EXPECT_TRUE(equal_bits(asked.run(*session), want)) << "after " << n << " allocations, run " << run;
  }
  EXPECT_TRUE(through);
}

}  // namespace
}  // namespace smelt
