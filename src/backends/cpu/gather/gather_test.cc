#include "ops/gather/gather.h"

#include "base/cat.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(Gather, DynamicIndices) {
  for (int64_t axis : {0, 1, 2}) {
    auto attrs = std::make_shared<GatherAttrs>();
    attrs->axis = axis;
    OpCase c{Cat("axis ", axis),
             Op::kGather,
             attrs,
             {random_tensor(DType::kF32, {4, 5, 6}, -9, 9, 1), i64({1, -1, 3, 0})},
             {0}};
    check_on_cpu(c, "gather");
  }
}

TEST(Gather, SlicesOfAnySize) {
  for (const DType t : {DType::kI8, DType::kI16, DType::kF32, DType::kI64})
    for (const Shape& x : {Shape{7, 9}, Shape{9, 1}, Shape{2, 9, 3}}) {
      auto attrs = std::make_shared<GatherAttrs>();
      attrs->axis = x[0] == 9 ? 0 : 1;
      OpCase c{Cat(to_string(t), " ", x.str()),
               Op::kGather,
               attrs,
               {random_tensor(t, x, -9, 9, 1), i64({8, -9, 3, 3})},
               {0}};
      check_on_cpu(c, "gather");
    }
}

// Constant indices of all slices, in their order and in another one.
TEST(Gather, AllSlices) {
  for (const Tensor& indices : {i64({0, 1, 2, 3, 4}), i64({0, 1, 2, 4, 3})})
    for (int64_t axis : {0, 1, 2}) {
      auto attrs = std::make_shared<GatherAttrs>();
      attrs->axis = axis;
      check_on_cpu(
          {Cat("axis ", axis), Op::kGather, attrs, {random_tensor(DType::kF32, {5, 5, 5}, -9, 9, 1), indices}, {1}},
          "gather");
    }
}

// Threads share the slices, or the bytes of a few large ones.
TEST(Gather, LargeAndManySlices) {
  for (const auto& [x, axis] : {std::pair<Shape, int64_t>{{3, 70'001}, 0}, {{2, 5, 20'003}, 1}, {{40, 6, 997}, 1}}) {
    auto attrs = std::make_shared<GatherAttrs>();
    attrs->axis = axis;
    check_on_cpu({x.str(), Op::kGather, attrs, {random_tensor(DType::kF32, x, -9, 9, 1), i64({2, -1})}, {0}}, "gather");
  }
}

// The message names the index, whichever thread meets it.
TEST(Gather, IndexOutside) {
  auto attrs = std::make_shared<GatherAttrs>();
  std::vector<int64_t> indices(64, 1);
  indices[63] = 4;
  const Tensor at = Tensor::from<int64_t>(DType::kI64, {64}, indices);
  const OpCase c{"outside", Op::kGather, attrs, {f32({4, 4000}), at}};
  KernelRunner runner(c);
  for (const int threads : {1, 3}) {
    const auto kernel = runner.make(*runner.choose(best_isa(), PackCache::Mode::kPack), best_isa(), threads);
    ASSERT_TRUE(kernel);
    const auto made = runner.run(*kernel, threads);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message().find('4'), std::string::npos) << made.error().message();
  }
}

}  // namespace
}  // namespace smelt
