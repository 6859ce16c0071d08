#include "runtime/variable_steps.h"

#include <gtest/gtest.h>
#include <smelt/model.h>

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {

constexpr int64_t kRows = 64, kColumns = 32, kCacheBytes = kRows * kColumns * 4;

/// What else a model of a cache does.
enum class Also : uint8_t { kNothing, kUsesOldRows, kReadsAgain, kGivesCache, kWritesOther };

/// The cache with `fresh` from row `start` on.
ValueId updated(Builder& b, Op update, ValueId cache, ValueId fresh, ValueId start) {
  KvAppendAttrs append;
  append.axis = 0;
  const auto with = [&](Op op, AttrsPtr attrs, ValueId other) {
    return b.op(op, std::move(attrs), {start, other}).value();
  };
  const auto rows = [&] { return with(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), b.i64({0, 1})); };
  switch (update) {
    case Op::kDynamicUpdateSlice:
      return b
          .op(update, make_attrs<NoAttrs>(), {cache, fresh, with(Op::kConcat, make_attrs<AxisAttrs>(0), b.i64({0}))})
          .value();
    case Op::kIndexPut:
      return b.op(update, make_attrs<IndexAttrs>(), {cache, fresh, rows()}).value();
    case Op::kIndexSelectPut:
      return b.op(update, make_attrs<ScatterAttrs>(), {cache, rows(), fresh}).value();
    default:
      return b.op(update, make_attrs<KvAppendAttrs>(append), {cache, fresh, start}).value();
  }
}

/// fresh [2, 32] goes into a cache [64, 32] from row `start` on; the result is tanh of the cache's product with itself.
Model cache_model(Also also, Op update = Op::kKvAppend) {
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
  const ValueId cache = updated(b, update, old, fresh, start);
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
size_t check_runs(Also also, Op update = Op::kKvAppend) {
  SessionOptions reference;
  reference.backend = BackendKind::kReference;
  auto session = Session::create(cache_model(also, update)).value();
  auto expected = Session::create(cache_model(also, update), reference).value();
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

constexpr Op kUpdates[] = {Op::kKvAppend, Op::kDynamicUpdateSlice, Op::kIndexPut, Op::kIndexSelectPut};

TEST(VariableSteps, RowsGoIntoTheVariable) {
  for (const Op update : kUpdates)
    EXPECT_LT(check_runs(Also::kNothing, update), kCacheBytes + 4096) << to_string(update);
}

TEST(VariableSteps, OldRowsStayWhereTheyAreUsed) {
  for (const Also also : {Also::kUsesOldRows, Also::kReadsAgain, Also::kGivesCache, Also::kWritesOther})
    for (const Op update : kUpdates) EXPECT_GE(check_runs(also, update), 2 * kCacheBytes) << static_cast<int>(also);
}

/// A start outside the cache is refused, and the variable keeps its rows.
TEST(VariableSteps, NothingIsWrittenOutside) {
  for (const Op update : {Op::kKvAppend, Op::kIndexPut, Op::kIndexSelectPut}) {
    auto session = Session::create(cache_model(Also::kNothing, update)).value();
    const auto run = [&](int64_t start, float value) {
      const std::vector<float> row(2 * kColumns, value);
      return session.run({{Tensor::from<float>(DType::kF32, {2, kColumns}, row),
                           Tensor::from<int64_t>(DType::kI64, {1}, std::vector<int64_t>{start})}});
    };
    ASSERT_TRUE(run(0, 0.5f).ok());
    for (const int64_t start : {int64_t{-65}, int64_t{63}, int64_t{1} << 40}) EXPECT_FALSE(run(start, 9).ok());
    const auto y = run(2, 0.25f);
    ASSERT_TRUE(y.ok());
    EXPECT_NEAR((*y)[0].tensor.data<float>()[0], std::tanh(0.5f), 1e-6);
    EXPECT_EQ((*y)[0].tensor.data<float>()[kRows * kColumns - 1], 0);
  }
}

TEST(VariableSteps, RowsOfTheVariableItselfMove) {
  for (const Op update : {Op::kIndexPut, Op::kIndexSelectPut}) {
    auto module = std::make_shared<Module>();
    const ValueType type = ValueType::tensor(DType::kF32, Shape{3, 2});
    const std::vector<float> initial{1, 2, 3, 4, 5, 6};
    module->states.push_back({.name = "x", .type = type, .initial = Tensor::from<float>(DType::kF32, {3, 2}, initial)});
    module->graphs.resize(1);
    module->methods.push_back({"main", 0});
    Builder b(*module, 0);
    const ValueId at = b.input("at", ValueType::tensor(DType::kI64, Shape{3}));
    const ValueId x = b.op(Op::kStateRead, make_attrs<StateAttrs>(0), {}).value();
    const ValueId y = update == Op::kIndexPut ? b.op(update, make_attrs<IndexAttrs>(), {x, x, at}).value()
                                              : b.op(update, make_attrs<ScatterAttrs>(), {x, at, x}).value();
    EXPECT_TRUE(b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(0), {y}, {}).ok());
    b.graph().outputs = {b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {y}).value()};
    auto session = Session::create(ModelAccess::make(std::move(module))).value();
    const auto out = session.run({{Tensor::from<int64_t>(DType::kI64, {3}, std::vector<int64_t>{2, 0, 1})}});
    ASSERT_TRUE(out.ok()) << out.error().message();
    const std::vector<float> want{-3, -4, -5, -6, -1, -2};
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ((*out)[0].tensor.data<float>()[i], want[i]) << i;
  }
}

}  // namespace
}  // namespace smelt
