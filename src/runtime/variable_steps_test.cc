#include "runtime/variable_steps.h"

#include <gtest/gtest.h>
#include <smelt/model.h>

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/model_access.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {

constexpr int64_t kRows = 64, kColumns = 32, kCacheBytes = kRows * kColumns * 4;

/// What else a model of a cache does.
enum class Also : uint8_t { kNothing, kUsesOldRows, kReadsAgain, kGivesCache, kWritesOther };

/// fresh [2, 32] goes into a cache [64, 32] from row `start` on; the result is tanh of the cache's product with itself.
Model cache_model(Also also) {
  auto module = std::make_shared<Module>();
  const ValueType type = ValueType::tensor(DType::kF32, Shape{kRows, kColumns});
  module->states.push_back({.name = "cache", .type = type});
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId fresh = b.input("fresh", ValueType::tensor(DType::kF32, Shape{2, kColumns}));
  const ValueId start = b.input("start", ValueType::tensor(DType::kI64, Shape{1}));
  const auto read = [&] { return b.op(Op::kStateRead, make_attrs<StateAttrs>(0), {}).value(); };
  const auto tanh = [&](ValueId x) { return b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value(); };
  const auto binary = [&](Binary kind, ValueId x, ValueId y) {
    return b.op(Op::kBinary, make_attrs<BinaryAttrs>(kind), {x, y}).value();
  };
  const ValueId old = read();
  KvAppendAttrs attrs;
  attrs.axis = 0;
  const ValueId cache = b.op(Op::kKvAppend, make_attrs<KvAppendAttrs>(attrs), {old, fresh, start}).value();
  ValueId y = tanh(cache);
  if (also == Also::kUsesOldRows) y = binary(Binary::kSub, y, old);
  if (also == Also::kReadsAgain) y = binary(Binary::kSub, y, read());
  const ValueId written = also == Also::kWritesOther ? binary(Binary::kMul, cache, cache) : cache;
  EXPECT_TRUE(b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(0), {written}, {}).ok());
  b.graph().outputs = {also == Also::kWritesOther ? tanh(cache) : y};
  if (also == Also::kGivesCache) b.graph().outputs.push_back(cache);
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

/// Three runs give what the reference gives. Returns the bytes of activations.
size_t check_runs(Also also) {
  SessionOptions reference;
  reference.backend = BackendKind::kReference;
  auto session = Session::create(cache_model(also)).value();
  auto expected = Session::create(cache_model(also), reference).value();
  for (int64_t start : {0, 2, 61}) {
    const std::vector<Datum> in{test::random_tensor(DType::kF32, {2, kColumns}, -1, 1, static_cast<unsigned>(start)),
                                Tensor::from<int64_t>(DType::kI64, {1}, std::vector<int64_t>{start})};
    const auto y = session.run(in).value(), want = expected.run(in).value();
    for (size_t i = 0; i < want.size(); ++i)
      for (int64_t j = 0; j < want[i].tensor.elements(); ++j)
        EXPECT_NEAR(y[i].tensor.data<float>()[j], want[i].tensor.data<float>()[j], 1e-6) << start;
  }
  return session.arena_bytes();
}

TEST(VariableSteps, RowsGoIntoTheVariable) { EXPECT_LT(check_runs(Also::kNothing), kCacheBytes + 4096); }

TEST(VariableSteps, OldRowsStayWhereTheyAreUsed) {
  for (const Also also : {Also::kUsesOldRows, Also::kReadsAgain, Also::kGivesCache, Also::kWritesOther})
    EXPECT_GE(check_runs(also), 2 * kCacheBytes) << static_cast<int>(also);
}

/// A start outside the cache is refused, and the variable keeps its rows.
TEST(VariableSteps, NothingIsWrittenOutside) {
  auto session = Session::create(cache_model(Also::kNothing)).value();
  const auto run = [&](int64_t start, float value) {
    const std::vector<float> row(2 * kColumns, value);
    return session.run({{Tensor::from<float>(DType::kF32, {2, kColumns}, row),
                         Tensor::from<int64_t>(DType::kI64, {1}, std::vector<int64_t>{start})}});
  };
  ASSERT_TRUE(run(0, 0.5f).ok());
  for (const int64_t start : {int64_t{-1}, int64_t{63}, int64_t{1} << 40}) EXPECT_FALSE(run(start, 9).ok());
  const auto y = run(2, 0.25f);
  ASSERT_TRUE(y.ok());
  EXPECT_NEAR((*y)[0].tensor.data<float>()[0], std::tanh(0.5f), 1e-6);
  EXPECT_EQ((*y)[0].tensor.data<float>()[kRows * kColumns - 1], 0);
}

}  // namespace
}  // namespace smelt
