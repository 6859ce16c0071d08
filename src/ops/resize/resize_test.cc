#include "ops/resize/resize.h"

#include "support/op_runner.h"

namespace smelt::test {
namespace {

using Mode = ResizeAttrs::Mode;
using Coord = ResizeAttrs::Coord;

ResizeAttrs attrs(Mode mode, Coord coord) {
  ResizeAttrs a;
  a.mode = mode;
  a.coord = coord;
  a.axes = {1};
  return a;
}

Tensor by_scale(const ResizeAttrs& a, const std::vector<double>& x, double scale, std::vector<double> roi = {}) {
  OpRunner r(Op::kResize, make_attrs<ResizeAttrs>(a));
  r.input(floats({1, static_cast<int64_t>(x.size())}, x));
  if (roi.empty())
    r.absent();
  else
    r.constant(floats({2}, roi));
  return r.constant(floats({1}, {scale})).run();
}

Tensor to_size(const ResizeAttrs& a, const Tensor& x, int64_t size) {
  return OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
      .input(x)
      .absent()
      .absent()
      .constant(tensor(DType::kI64, {1}, {static_cast<double>(size)}))
      .run();
}

TEST(Resize, LinearCoordinates) {
  const std::vector<double> x = {0, 4, 8, 12};
  expect_near(by_scale(attrs(Mode::kLinear, Coord::kHalfPixel), x, 2), {0, 1, 3, 5, 7, 9, 11, 12});
  expect_near(by_scale(attrs(Mode::kLinear, Coord::kAsymmetric), x, 2), {0, 2, 4, 6, 8, 10, 12, 12});
  expect_near(by_scale(attrs(Mode::kLinear, Coord::kAlignCorners), x, 1.75), {0, 2, 4, 6, 8, 10, 12});
  expect_near(by_scale(attrs(Mode::kLinear, Coord::kPytorchHalfPixel), x, 0.25), {0});
  expect_near(by_scale(attrs(Mode::kLinear, Coord::kHalfPixel), x, 0.5), {2, 10});
}

TEST(Resize, CropReadsARegionAndExtrapolates) {
  ResizeAttrs a = attrs(Mode::kLinear, Coord::kTfCropAndResize);
  a.extrapolation = -5;
  const Tensor y = OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
                       .input(floats({1, 3}, {0, 2, 4}))
                       .constant(floats({2}, {0.5, 1.5}))
                       .absent()
                       .constant(tensor(DType::kI64, {1}, {3}))
                       .run();
  expect_near(y, {2, 4, -5});
}

TEST(Resize, NearestRules) {
  ResizeAttrs a = attrs(Mode::kNearest, Coord::kAsymmetric);
  const std::vector<double> x = {0, 1, 2};
  a.nearest = ResizeAttrs::Nearest::kFloor;
  expect_equal(by_scale(a, x, 2), {0, 0, 1, 1, 2, 2});
  a.nearest = ResizeAttrs::Nearest::kCeil;
  expect_equal(by_scale(a, x, 2), {0, 1, 1, 2, 2, 2});
  a.nearest = ResizeAttrs::Nearest::kRoundPreferFloor;
  expect_equal(by_scale(a, x, 2), {0, 0, 1, 1, 2, 2});
  a.nearest = ResizeAttrs::Nearest::kRoundPreferCeil;
  expect_equal(by_scale(a, x, 2), {0, 1, 1, 2, 2, 2});
  a.nearest = ResizeAttrs::Nearest::kFloorOrCeil;
  expect_equal(by_scale(a, x, 2), {0, 0, 1, 1, 2, 2});
  expect_equal(by_scale(a, {0, 1, 2, 3, 4, 5}, 0.75), {0, 2, 3, 4});
}

TEST(Resize, CubicAtTheEdges) {
  ResizeAttrs a = attrs(Mode::kCubic, Coord::kAsymmetric);
  // At 0.5: weights -0.09375, 0.59375, 0.59375, -0.09375 around indices -1..2, the first clamped to 0.
  const Tensor y = by_scale(a, {1, 2, 4}, 2);
  EXPECT_NEAR(values(y)[1], -0.09375 + 0.59375 * 3 - 0.09375 * 4, 1e-5);
  a.exclude_outside = true;
  EXPECT_NEAR(values(by_scale(a, {1, 2, 4}, 2))[1], (0.59375 * 3 - 0.09375 * 4) / 1.09375, 1e-5);
}

TEST(Resize, AntialiasWidensTheKernel) {
  ResizeAttrs a = attrs(Mode::kLinear, Coord::kHalfPixel);
  a.antialias = true;
  a.exclude_outside = true;
  // Centre 0.5, support 2: weights 0.25, 0.75, 0.75, 0.25 at -1..2; -1 is left out.
  expect_near(by_scale(a, {0, 4, 8, 12}, 0.5), {(3 + 2) / 1.75, (1 * 4 * 0.25 + 8 * 0.75 + 12 * 0.75) / 1.75});
}

TEST(Resize, KeepsTheAspectRatio) {
  ResizeAttrs a;
  a.axes = {0, 1};
  a.keep = ResizeAttrs::Keep::kNotLarger;
  const auto shape = [&] {
    return OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
        .input(floats({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}))
        .absent()
        .absent()
        .constant(tensor(DType::kI64, {2}, {7, 8}))
        .run()
        .shape();
  };
  EXPECT_EQ(shape(), (Shape{4, 8}));
  a.keep = ResizeAttrs::Keep::kNotSmaller;
  EXPECT_EQ(shape(), (Shape{7, 14}));
}

TEST(Resize, IntegersMoveInNearestMode) {
  ResizeAttrs a = attrs(Mode::kNearest, Coord::kAsymmetric);
  a.nearest = ResizeAttrs::Nearest::kFloor;
  for (DType dtype : {DType::kI64, DType::kU8, DType::kBool, DType::kF16, DType::kF64}) {
    SCOPED_TRACE(to_string(dtype));
    expect_equal(to_size(a, tensor(dtype, {1, 2}, {1, 0}), 4), {1, 1, 0, 0});
  }
}

TEST(Resize, FixedPointBilinear) {
  ResizeAttrs a;
  a.mode = Mode::kLinear;
  a.coord = Coord::kAsymmetric;
  a.axes = {1, 2};
  a.tflite = true;
  a.rounding = Rounding::kFixedDouble;
  const auto run = [&](DType dtype, const std::vector<double>& v) {
    const Tensor x = quantized(dtype, {1, 1, 2, 1}, v, 1.0f, 0);
    const ValueType y = ValueType::tensor(dtype, {1, 1, 4, 1}, per_tensor(1.0f, 0));
    return OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
        .input(x)
        .absent()
        .absent()
        .constant(tensor(DType::kI32, {2}, {1, 4}))
        .outputs({y})
        .run();
  };
  expect_equal(run(DType::kI8, {-1, -2}), {-1, -2, -2, -2});  // -1.5 rounds away from zero
  expect_equal(run(DType::kU8, {1, 2}), {1, 2, 2, 2});
  expect_equal(run(DType::kI16, {100, 201}), {100, 151, 201, 201});
}

TEST(Resize, RefusesSenselessRequests) {
  ResizeAttrs a = attrs(Mode::kLinear, Coord::kHalfPixel);
  const auto message = [&](const Tensor& scales) {
    return OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
        .input(floats({1, 2}, {1, 2}))
        .absent()
        .constant(scales)
        .error();
  };
  EXPECT_NE(message(floats({1}, {-1})).find("not positive"), std::string::npos);
  EXPECT_NE(message(floats({2}, {1, 1})).find("scales"), std::string::npos);
  EXPECT_NE(message(floats({1}, {1e30})).find("size"), std::string::npos);
  a.axes = {5};
  EXPECT_NE(message(floats({1}, {1})).find("axis"), std::string::npos);
}

TEST(GridSample, PaddingRules) {
  GridSampleAttrs a;
  a.align_corners = true;
  const Tensor x = floats({1, 1, 1, 3}, {1, 2, 3}), grid = floats({1, 1, 4, 2}, {-1, 0, 0.5, 0, 2, 0, -2, 0});
  const auto run = [&] { return OpRunner(Op::kGridSample, make_attrs<GridSampleAttrs>(a)).input(x).input(grid).run(); };
  expect_near(run(), {1, 2.5, 0, 0});
  a.padding = GridSampleAttrs::Padding::kBorder;
  expect_near(run(), {1, 2.5, 3, 1});
  a.padding = GridSampleAttrs::Padding::kReflection;
  expect_near(run(), {1, 2.5, 2, 2});
  a.mode = GridSampleAttrs::Mode::kNearest;
  expect_near(run(), {1, 3, 2, 2});
}

TEST(AffineGrid, IdentityGivesTheImageCoordinates) {
  AffineGridAttrs a;
  const auto run = [&] {
    return OpRunner(Op::kAffineGrid, make_attrs<AffineGridAttrs>(a))
        .input(floats({1, 2, 3}, {1, 0, 0, 0, 1, 0.25}))
        .constant(tensor(DType::kI64, {4}, {1, 1, 2, 2}))
        .run();
  };
  expect_near(run(), {-0.5, -0.25, 0.5, -0.25, -0.5, 0.75, 0.5, 0.75});
  a.align_corners = true;
  expect_near(run(), {-1, -0.75, 1, -0.75, -1, 1.25, 1, 1.25});
}

}  // namespace
}  // namespace smelt::test
