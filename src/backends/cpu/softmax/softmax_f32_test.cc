#include "base/cat.h"
#include "ops/softmax/softmax.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(SoftmaxF32, Contiguous) {
  for (const Shape& shape : {Shape{3, 5, 37}, Shape{1000}, Shape{4, 1}, Shape{7, 16}, Shape{9, 7}, Shape{3, 60}})
    for (auto kind : {SoftmaxAttrs::Kind::kSoftmax, SoftmaxAttrs::Kind::kLogSoftmax}) {
      auto attrs = std::make_shared<SoftmaxAttrs>();
      attrs->kind = kind;
      attrs->beta = shape.rank() == 2 ? 0.5 : 1;
      OpCase c{Cat(to_string(kind), shape.str()), Op::kSoftmax, attrs, {random_tensor(DType::kF32, shape, -20, 9, 1)}};
      check_on_cpu(c, "softmax_f32", {1e-7, 1e-5});
    }
}

TEST(SoftmaxF32, Strided) {
  const std::pair<Shape, int64_t> rows[] = {{{2, 3, 33}, 1},    {{7, 5}, 0},    {{1, 21, 16, 40}, 1},
                                            {{2, 4, 1, 9}, -2}, {{300, 3}, 0},  {{5, 70, 4}, 1},
                                            {{90, 1}, 0},       {{2, 3, 2}, 1}, {{65, 8}, 0}};
  for (const auto& [shape, axis] : rows)
    for (auto kind : {SoftmaxAttrs::Kind::kSoftmax, SoftmaxAttrs::Kind::kLogSoftmax}) {
      auto attrs = std::make_shared<SoftmaxAttrs>();
      attrs->axis = axis;
      attrs->kind = kind;
      OpCase c{Cat(to_string(kind), shape.str()), Op::kSoftmax, attrs, {f32(shape)}};
      c.threaded = true;
      check_on_cpu(c, "softmax_strided_f32", {1e-7, 1e-5});
    }
}

TEST(SoftmaxF32, LeavesNegativeFactorsToTheReference) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->beta = -3;
  const OpCase c{"negative", Op::kSoftmax, attrs, {f32({3, 20})}};
  KernelRunner runner(c);
  const std::string why = runner.refusal(best_isa());
  for (const char* kernel : {"softmax_f32", "softmax_strided_f32"})
    EXPECT_NE(why.find(Cat(kernel, ": a negative factor")), std::string::npos) << why;
}

}  // namespace
}  // namespace smelt
