#include "runtime/shape_guard.h"

#include <gtest/gtest.h>

#include "ops/attention/attention.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "runtime/compiled.h"
#include "runtime/executor.h"
#include "runtime/planned_environment.h"

namespace smelt {
namespace {

/// Grouped-query attention of one row, one head of 4, with caches of 6 rows; fed: the last position and the total.
std::shared_ptr<Module> decoder() {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods = {{"main", 0}};
  Builder b(*module, 0);
  std::vector<ValueId> in;
  for (int i = 0; i < 3; ++i) in.push_back(b.input("x", ValueType::tensor(DType::kF32, Shape{1, 1, 4})));
  for (int i = 0; i < 2; ++i) in.push_back(b.input("past", ValueType::tensor(DType::kF32, Shape{1, 1, 6, 4})));
  in.push_back(b.input("last", ValueType::tensor(DType::kI32, Shape{1})));
  in.push_back(b.input("total", ValueType::tensor(DType::kI32, Shape{})));
  std::vector<ValueId> out(3);
  for (ValueId& id : out) id = b.value("y", {});
  EXPECT_TRUE(b.node_to(Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(GroupQueryAttrs{}), in, out).ok());
  b.graph().outputs = out;
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

std::vector<Datum> step(int32_t total) {
  std::vector<Datum> in;
  for (const Shape& s : {Shape{1, 1, 4}, Shape{1, 1, 4}, Shape{1, 1, 4}, Shape{1, 1, 6, 4}, Shape{1, 1, 6, 4}}) {
    Tensor t(DType::kF32, s);
    for (int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>(i % 5) - 2;
    in.emplace_back(t);
  }
  Tensor last(DType::kI32, Shape{1}), count(DType::kI32, Shape{});
  last.data<int32_t>()[0] = total - 1;
  count.data<int32_t>()[0] = total;
  in.emplace_back(last);
  in.emplace_back(count);
  return in;
}

/// Totals within the caches share a plan whose shapes are all known; ones beyond get their own.
TEST(ShapeGuard, PlansFitContentsThatGiveTheSameShapes) {
  SessionOptions options;
  const auto module = decoder();
  PlannedEnvironment env(module, options, Compiled(module).models(open_backends(options).value()));
  Executor obvious(module, options);
  const auto run = [&](int32_t total) {
    const auto in = step(total);
    env.control.begin(options, env.size, in);
    std::vector<Datum> got;
    ASSERT_TRUE(env.run(0, in, {}, got).ok());
    obvious.control.begin(options, obvious.size, in);
    const auto want = obvious.call(0, in, 0);
    ASSERT_TRUE(want.ok());
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(got[i].tensor.shape(), (*want)[i].tensor.shape());
      for (int64_t k = 0; k < got[i].tensor.elements(); ++k)
        ASSERT_FLOAT_EQ(got[i].tensor.data<float>()[k], (*want)[i].tensor.data<float>()[k]);
    }
  };
  for (int32_t total : {1, 2, 6, 3}) run(total);
  EXPECT_EQ(env.plans(0).size(), 1u);
  ASSERT_EQ(env.latest(0)->steps().size(), 1u);
  EXPECT_FALSE(env.latest(0)->steps()[0].is<DynamicStep>());
  for (int32_t total : {7, 7, 8, 7, 5}) run(total);
  EXPECT_EQ(env.plans(0).size(), 3u);
}

/// A plan made by types alone does not know, and is not taken for contents that say more.
TEST(ShapeGuard, PlansByTypesReadNoContents) {
  SessionOptions options;
  PlannedEnvironment env(decoder(), options, {});
  auto in = step(2);
  in[6] = Tensor::view(DType::kI32, Shape{}, nullptr, nullptr);
  env.control.begin(options, env.size, in);
  const auto blind = env.plan_for(0, in, GraphRole::kEntry, ContentUse::kTypesOnly);
  ASSERT_TRUE(blind.ok());
  EXPECT_TRUE((*blind)->steps()[0].is<DynamicStep>());
  const auto seeing = env.plan_for(0, step(2), GraphRole::kEntry, ContentUse::kRead);
  ASSERT_TRUE(seeing.ok());
  EXPECT_NE(*seeing, *blind);
  EXPECT_EQ(env.plans(0).size(), 2u);
}

}  // namespace
}  // namespace smelt
