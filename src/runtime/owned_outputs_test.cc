#include "runtime/owned_outputs.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/backends.h"
#include "tests/support/module.h"

namespace smelt {
namespace {

constexpr int64_t kRows = 4;

/// c = `cache`, by way of a Reshape, with `fresh` written into row `at`, and tanh(c), or, with `late`, c - cache.
Model cache_model(bool late, int64_t columns) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId cache = b.input("cache", ValueType::tensor(DType::kF32, Shape{kRows, columns}));
  const ValueId fresh = b.input("fresh", ValueType::tensor(DType::kF32, Shape{1, 1, columns}));
  const ValueId at = b.input("at", ValueType::tensor(DType::kI32, Shape{3}));
  const ValueId rows = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {cache, b.i64({1, kRows, columns})}).value();
  const ValueId c = b.op(Op::kDynamicUpdateSlice, make_attrs<NoAttrs>(), {rows, fresh, at}).value();
  const ValueId y = late ? b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kSub), {c, rows}).value()
                         : b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {c}).value();
  b.graph().outputs = {c, y};
  return ModelAccess::make(std::move(module));
}

class RunIntoTest : public ::testing::TestWithParam<BackendKind> {
  void SetUp() override { SMELT_SKIP_WITHOUT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, RunIntoTest, ::testing::ValuesIn(test::every_backend()));

TEST_P(RunIntoTest, OutputsMayHaveTheMemoryOfInputs) {
  constexpr int64_t kColumns = 1000;
  for (const bool late : {false, true})
    for (const int64_t shift : {-1, 0, 16}) {  // -1: apart
      SessionOptions options;
      options.backend = GetParam();
      auto session = Session::create(cache_model(late, kColumns), options).value();
      std::vector<float> memory(3 * kRows * kColumns, 0.5f), want(kRows * kColumns, 0.5f);
      const Tensor cache = Tensor::view(DType::kF32, {kRows, kColumns}, memory.data(), nullptr);
      float* const to = memory.data() + (shift < 0 ? 2 * kRows * kColumns : shift);
      std::vector<Tensor> outputs{Tensor::view(DType::kF32, {1, kRows, kColumns}, to, nullptr), Tensor()};
      for (const int32_t at : {2, 0, 2}) {
        Tensor fresh(DType::kF32, {1, 1, kColumns});
        fresh.data<float>()[7] = static_cast<float>(at + 1);
        std::vector<float> before(cache.data<float>(), cache.data<float>() + cache.elements());
        want = before;
        std::copy_n(fresh.data<float>(), kColumns, want.data() + at * kColumns);
        const Tensor start = Tensor::from<int32_t>(DType::kI32, {3}, std::vector<int32_t>{0, at, 0});
        const Status done = session.run_into(std::vector<Datum>{cache, fresh, start}, outputs);
        ASSERT_TRUE(done.ok()) << done.error().message();
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(to[i], want[i]) << late << shift << at;
          if (shift < 0) {
            ASSERT_EQ(cache.data<float>()[i], before[i]);
          }
          ASSERT_NEAR(outputs[1].data<float>()[i], late ? want[i] - before[i] : std::tanh(want[i]), 1e-6);
        }
      }
    }
}

/// Runs y = tanh(x) over any number of elements.
class TanhOfMany {
 public:
  TanhOfMany() {
    auto module = test::module_of_one_graph();
    Builder b(*module, 0);
    const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1}));
    b.graph().outputs = {b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value()};
    session_.emplace(Session::create(ModelAccess::make(std::move(module))).value());
  }
  Datum operator()(int64_t elements) {
    Tensor in(DType::kF32, {elements});
    in.data<float>()[elements - 1] = static_cast<float>(elements);
    auto out = session_->run(std::vector<Datum>{in});
    EXPECT_TRUE(out.ok());
    Datum y = out->at(0);
    EXPECT_EQ(y.tensor.shape(), Shape{elements});
    EXPECT_EQ(y.tensor.data<float>()[elements - 1], 1.0f);
    return y;
  }

 private:
  std::optional<Session> session_;
};

/// What orders the reader's last look and the next run is the memory itself: ThreadSanitizer watches this.
TEST(OwnedOutputs, AnotherThreadMayLetGo) {
  TanhOfMany run;
  Datum y = run(10'000);
  const void* const memory = y.tensor.raw();
  std::atomic<bool> done = false;
  std::thread reader([&done, seen = std::move(y)]() mutable {
    EXPECT_EQ(seen.tensor.data<float>()[9'999], 1.0f);
    seen = {};
    done.store(true, std::memory_order_relaxed);
  });
  while (!done.load(std::memory_order_relaxed)) std::this_thread::yield();
  EXPECT_EQ(run(10'000).tensor.raw(), memory);
  reader.join();
}

TEST(OwnedOutputs, MemoryThatCallersLetGoOfIsGivenAgain) {
  TanhOfMany run;
  Datum first = run(10'000), second = run(10'001);
  const void* const memory = first.tensor.raw();
  EXPECT_NE(second.tensor.raw(), memory);
  first = {};
  const Datum third = run(10'002);
  EXPECT_EQ(third.tensor.raw(), memory);  // a little larger, as caches grow
  const Datum fourth = run(10'002);
  EXPECT_NE(fourth.tensor.raw(), memory);
  EXPECT_NE(fourth.tensor.raw(), second.tensor.raw());
  second = {};
  const Datum small = run(2'100);  // 8,400 bytes do not keep 40,000
  const Datum large = run(100'000);
  EXPECT_EQ(third.tensor.data<float>()[10'001], 1.0f);
  EXPECT_EQ(small.tensor.data<float>()[2'099], 1.0f);
}

TEST(RunInto, WritesTheRowAlone) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto columns = static_cast<int64_t>(page / sizeof(float));
  void* const memory = mmap(nullptr, kRows * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::unique_ptr<void, void (*)(void*)> unmap(memory, [](void* p) { munmap(p, kRows * sysconf(_SC_PAGESIZE)); });
  ASSERT_EQ(mprotect(static_cast<char*>(memory) + 2 * page, page, PROT_READ | PROT_WRITE), 0);
  auto session = Session::create(cache_model(false, columns)).value();
  std::vector<Tensor> outputs{Tensor::view(DType::kF32, {1, kRows, columns}, memory, nullptr), Tensor()};
  Tensor fresh(DType::kF32, {1, 1, columns});
  fresh.data<float>()[3] = 5;
  const Tensor start = Tensor::from<int32_t>(DType::kI32, {3}, std::vector<int32_t>{0, 2, 0});
  const Tensor cache = Tensor::view(DType::kF32, {kRows, columns}, memory, nullptr);
  ASSERT_TRUE(session.run_into(std::vector<Datum>{cache, fresh, start}, outputs).ok());
  EXPECT_EQ(static_cast<const float*>(memory)[2 * columns + 3], 5);
}

}  // namespace
}  // namespace smelt
