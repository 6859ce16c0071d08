#include "ops/pool/pool.h"

#include "support/op_runner.h"

namespace smelt::test {
namespace {

OpRunner pool(const PoolAttrs& a) { return OpRunner(Op::kPool, make_attrs<PoolAttrs>(a)); }

TEST(Pool, MaximumInBothLayoutsAndTypes) {
  PoolAttrs a;
  a.kernel = {2, 2};
  a.strides = {1, 1};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kF64, DType::kI8, DType::kU8, DType::kI16}) {
    SCOPED_TRACE(to_string(dtype));
    a.layout = Layout::kChannelsFirst;
    expect_equal(pool(a).input(tensor(dtype, {1, 2, 2, 3}, {1, 5, 3, 2, 4, 9, 7, 0, 1, 2, 3, 4})).run(), {5, 9, 7, 4});
    a.layout = Layout::kChannelsLast;
    expect_equal(pool(a).input(tensor(dtype, {1, 2, 3, 1}, {1, 5, 3, 2, 4, 9})).run(), {5, 9});
  }
}

TEST(Pool, MaximumOf16BitsIsClamped) {
  PoolAttrs a;
  a.kernel = {2};
  a.pads = {1, 0};
  a.layout = Layout::kChannelsLast;
  a.act.kind = ActKind::kRelu6;
  const Tensor x = quantized(DType::kI16, {2, 2, 2}, {-30000, 5, 7, -9, 4, -1, 3, 6}, 1.0f, 0);
  expect_equal(pool(a).input(x).run(), {0, 5, 6, 5, 4, 0, 4, 6});
}

TEST(Pool, CeilKeepsWindowsThatStartInTheImage) {
  PoolAttrs a;
  a.kernel = {2};
  a.strides = {2};
  a.ceil_mode = true;
  expect_equal(pool(a).input(floats({1, 1, 5}, {1, 2, 3, 4, 5})).run(), {2, 4, 5});
  a.pads = {1, 1};
  expect_equal(pool(a).input(floats({1, 1, 4}, {1, 2, 3, 4})).run(), {1, 3, 4});
  // A window that would start behind the image and its front padding is dropped.
  a.strides = {3};
  a.kernel = {2};
  a.pads = {0, 1};
  expect_equal(pool(a).input(floats({1, 1, 3}, {1, 2, 3})).run(), {2});
}

TEST(Pool, MeansAndWhatTheyDivideBy) {
  PoolAttrs a;
  a.kind = PoolKind::kAverage;
  a.kernel = {3};
  a.strides = {2};
  a.pads = {1, 1};
  const auto run = [&] { return pool(a).input(floats({1, 1, 4}, {3, 6, 9, 12})).run(); };
  expect_near(run(), {4.5, 9});
  a.count_include_pad = true;
  expect_near(run(), {3, 9});
  a.ceil_mode = true;  // the third window covers one element and one padding
  expect_near(run(), {3, 9, 6});
  a.divisor_override = 2;
  expect_near(run(), {4.5, 13.5, 6});
}

TEST(Pool, MeansOfLongIntegers) {
  PoolAttrs a;
  a.kind = PoolKind::kAverage;
  a.kernel = {3};
  a.pads = {1, 1};
  const auto run = [&] { return pool(a).input(tensor(DType::kI64, {1, 1, 3}, {-7, 2, 9})).run(); };
  expect_equal(run(), {-2, 1, 5});
  a.count_include_pad = true;
  expect_equal(run(), {-1, 1, 3});
  a.divisor_override = 2;
  expect_equal(run(), {-2, 2, 5});
}

TEST(Pool, DilatedWindows) {
  PoolAttrs a;
  a.kernel = {2};
  a.dilations = {2};
  expect_equal(pool(a).input(floats({1, 1, 4}, {4, 9, 1, 2})).run(), {4, 9});
  a.kind = PoolKind::kAverage;
  expect_near(pool(a).input(floats({1, 1, 4}, {4, 9, 1, 2})).run(), {2.5, 5.5});
}

TEST(Pool, Norms) {
  PoolAttrs a;
  a.kind = PoolKind::kLp;
  a.kernel = {2};
  a.p = 3;
  expect_near(pool(a).input(floats({1, 1, 2}, {-1, 2})).run(), {std::cbrt(9.0)});
  a.p = 1;
  expect_near(pool(a).input(floats({1, 1, 2}, {-1, 2})).run(), {3});
  a.p = 2;
  expect_near(pool(a).input(floats({1, 1, 2}, {-3, 4})).run(), {5});
  a.mean_square = true;
  expect_near(pool(a).input(floats({1, 1, 2}, {-1, 7})).run(), {5});
}

TEST(Pool, GlobalWindows) {
  PoolAttrs a;
  a.global = true;
  a.kind = PoolKind::kAverage;
  const Tensor y = pool(a).input(floats({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})).unknown_shapes().run();
  EXPECT_EQ(y.shape(), (Shape{1, 2, 1, 1}));
  expect_equal(y, {2.5, 6.5});
  a.kind = PoolKind::kMax;
  expect_equal(pool(a).input(floats({1, 1, 2, 1, 2}, {1, 4, 3, 2})).run(), {4});
}

TEST(Pool, IndicesOfEveryKind) {
  PoolAttrs a;
  a.kernel = {2, 2};
  const Tensor x = floats({1, 2, 2, 3}, {0, 0, 1, 0, 2, 0, 5, 0, 0, 0, 0, 6});
  const auto indices = [&](PoolAttrs::Index kind) {
    a.index = kind;
    auto r = pool(a).input(x).outputs(2).run_all();
    EXPECT_TRUE(r.ok());
    return r.ok() ? values((*r)[1].tensor) : std::vector<double>{};
  };
  EXPECT_EQ(indices(PoolAttrs::Index::kTensorRow), (std::vector<double>{4, 4, 6, 11}));
  EXPECT_EQ(indices(PoolAttrs::Index::kTensorColumn), (std::vector<double>{3, 3, 6, 11}));
  EXPECT_EQ(indices(PoolAttrs::Index::kPlane), (std::vector<double>{4, 4, 0, 5}));
  EXPECT_EQ(indices(PoolAttrs::Index::kWindowColumn), (std::vector<double>{3, 1, 0, 3}));
}

TEST(Pool, QuantizedMeansRoundByTheirRule) {
  PoolAttrs a;
  a.kind = PoolKind::kAverage;
  a.kernel = {2};
  a.strides = {2};
  const Tensor x = quantized(DType::kI8, {1, 1, 4}, {1, 2, -1, -2}, 1.0f, 0);
  const ValueType y = ValueType::tensor(DType::kI8, {1, 1, 2}, per_tensor(1.0f, 0));
  a.rounding = Rounding::kFixedDouble;
  expect_equal(pool(a).input(x).outputs({y}).run(), {2, -2});
  const Tensor half = quantized(DType::kI8, {1, 1, 4}, {0, 1, -1, 0}, 1.0f, 0);
  expect_equal(pool(a).input(half).outputs({y}).run(), {1, -1});
  a.rounding = Rounding::kFloatHalfEven;
  expect_equal(pool(a).input(half).outputs({y}).run(), {0, 0});
  a.act = {ActKind::kRelu};
  a.rounding = Rounding::kFixedDouble;
  expect_equal(pool(a).input(x).outputs({y}).run(), {2, 0});
}

TEST(Pool, RefusesWindowsThatDoNotFit) {
  PoolAttrs a;
  a.kernel = {4};
  EXPECT_NE(pool(a).input(floats({1, 1, 3}, {1, 2, 3})).error().find("does not fit"), std::string::npos);
  a.kernel = {int64_t{1} << 40};
  EXPECT_NE(pool(a).input(floats({1, 1, 3}, {1, 2, 3})).error(), "");
  a.kernel = {0};
  EXPECT_NE(pool(a).input(floats({1, 1, 3}, {1, 2, 3})).error().find("size 0"), std::string::npos);
}

TEST(AdaptivePool, BinsOverlapWhereSizesDoNotDivide) {
  AdaptivePoolAttrs a;
  a.output = {2};
  const auto run = [&] {
    return OpRunner(Op::kAdaptivePool, make_attrs<AdaptivePoolAttrs>(a)).input(floats({1, 1, 3}, {1, 2, 6})).run();
  };
  expect_equal(run(), {1.5, 4});
  a.kind = PoolKind::kMax;
  expect_equal(run(), {2, 6});
}

TEST(MaxUnpool, PutsValuesBack) {
  MaxUnpoolAttrs a;
  a.kernel = {2, 2};
  a.strides = {2, 2};
  const Tensor x = floats({1, 1, 1, 2}, {5, 6}), at = tensor(DType::kI64, {1, 1, 1, 2}, {1, 6});
  const auto runner = [&] { return OpRunner(Op::kMaxUnpool, make_attrs<MaxUnpoolAttrs>(a)).input(x).input(at); };
  expect_equal(runner().run(), {0, 5, 0, 0, 0, 0, 6, 0});
  const Tensor larger = runner().constant(tensor(DType::kI64, {4}, {1, 1, 3, 5})).run();
  expect_equal(larger, {0, 5, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0});
  const Tensor far = tensor(DType::kI64, {1, 1, 1, 2}, {1, 8});
  EXPECT_NE(OpRunner(Op::kMaxUnpool, make_attrs<MaxUnpoolAttrs>(a)).input(x).input(far).error().find("outside"),
            std::string::npos);
}

TEST(RoiPool, RegionsOfAPlane) {
  const Tensor x = floats({1, 1, 4, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  RoiAttrs a;
  a.height = a.width = 2;
  a.half_pixel = true;
  a.sampling_ratio = 1;
  expect_near(OpRunner(Op::kRoiPool, make_attrs<RoiAttrs>(a))
                  .input(x)
                  .input(floats({1, 4}, {0, 0, 4, 4}))
                  .input(tensor(DType::kI64, {1}, {0}))
                  .run(),
              {2.5, 4.5, 10.5, 12.5});
  a.sampling_ratio = 0;
  for (bool max : {false, true}) {
    a.max = max;
    const Tensor inside_out = floats({1, 4}, {4, 0, 1, 4});
    expect_equal(OpRunner(Op::kRoiPool, make_attrs<RoiAttrs>(a))
                     .input(x)
                     .input(inside_out)
                     .input(tensor(DType::kI64, {1}, {0}))
                     .run(),
                 {0, 0, 0, 0});
  }
  a.max = false;
  a.legacy = true;
  expect_equal(OpRunner(Op::kRoiPool, make_attrs<RoiAttrs>(a)).input(x).input(floats({1, 5}, {0, 0, 0, 3, 3})).run(),
               {5, 7, 13, 15});
  EXPECT_NE(OpRunner(Op::kRoiPool, make_attrs<RoiAttrs>(a)).input(x).input(floats({1, 5}, {7, 0, 0, 3, 3})).error(),
            "");
  RoiAttrs crop;
  crop.crop_and_resize = true;
  crop.extrapolation = -1;
  expect_near(OpRunner(Op::kRoiPool, make_attrs<RoiAttrs>(crop))
                  .input(x)
                  .input(floats({1, 4}, {0, 0, 2, 1}))
                  .input(tensor(DType::kI32, {1}, {0}))
                  .constant(tensor(DType::kI32, {2}, {3, 2}))
                  .run(),
              {0, 3, 12, 15, -1, -1});
}

}  // namespace
}  // namespace smelt::test
