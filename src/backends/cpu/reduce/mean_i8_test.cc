#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(MeanI8, AxesAndRounding) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (const auto& [rounding, axes] : {std::pair{Rounding::kFixedDouble, std::vector<int64_t>{1, 2}},
                                         {Rounding::kFixedDouble, {2}},
                                         {Rounding::kFixedDouble, {3}},
                                         {Rounding::kXnnpack, {1, 2}},
                                         {Rounding::kXnnpack, {3}},
                                         {Rounding::kFloatHalfEven, {1, 2}},
                                         {Rounding::kFloatHalfEven, {3}}}) {
      auto attrs = std::make_shared<ReduceAttrs>();
      attrs->fn = Reduction::kMean;
      attrs->rounding = rounding;
      const bool s = dtype == DType::kI8;
      Tensor x = random_tensor(dtype, {2, 7, 9, 37}, s ? -128 : 0, s ? 127 : 255, 4);
      x.set_quant(per_tensor(0.05f, s ? -10 : 118));
      OpCase c{Cat(to_string(dtype), axes[0], static_cast<int>(rounding)), Op::kReduce, attrs, {x, i64(axes)}, {1}};
      c.outputs[0].dtype = dtype;
      c.outputs[0].quant = per_tensor(0.021f, s ? 3 : 127, rounding);
      check_on_cpu(c, "mean_i8");
    }
}

/// Means midway between two integers, whose rounding the order of float32 operations must not choose.
TEST(MeanI8, Ties) {
  for (const float scale : {0.02f, 0.05f, 0.1f, 1.0f})
    for (const Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kDoubleHalfAway}) {
      auto attrs = std::make_shared<ReduceAttrs>();
      attrs->fn = Reduction::kMean;
      attrs->rounding = Rounding::kFloatHalfEven;
      Tensor x = random_tensor(DType::kU8, {3, 2, 2, 203}, 0, 255, 4);
      x.set_quant(per_tensor(scale, 118));
      OpCase c{Cat("scale ", scale), Op::kReduce, attrs, {x, i64({1, 2})}, {1}};
      c.outputs[0].dtype = DType::kU8;
      c.outputs[0].quant = per_tensor(scale, 127, rounding);
      check_on_cpu(c, "mean_i8");
    }
}

/// Threads share the pixels of one image.
TEST(MeanI8, LargeImage) {
  for (const Rounding rounding : {Rounding::kFixedDouble, Rounding::kXnnpack, Rounding::kFloatHalfEven}) {
    auto attrs = std::make_shared<ReduceAttrs>();
    attrs->fn = Reduction::kMean;
    attrs->rounding = rounding;
    Tensor x = random_tensor(DType::kI8, {1, 40, 41, 37}, -128, 127, 4);
    x.set_quant(per_tensor(0.05f, -10));
    OpCase c{Cat("rounding ", static_cast<int>(rounding)), Op::kReduce, attrs, {x, i64({1, 2})}, {1}};
    c.outputs[0].dtype = DType::kI8;
    c.outputs[0].quant = per_tensor(0.021f, 3, rounding);
    c.threaded = true;
    check_on_cpu(c, "mean_i8");
  }
}

}  // namespace
}  // namespace smelt
