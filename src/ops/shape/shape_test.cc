#include "ops/shape/shape.h"

#include <gtest/gtest.h>

#include "support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

Tensor ints(const std::vector<double>& v) { return tensor(DType::kI64, Shape{static_cast<int64_t>(v.size())}, v); }
Tensor whole(double v, DType dtype = DType::kI64) { return tensor(dtype, Shape{}, {v}); }
Tensor counting(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, static_cast<double>(i % 7));
  return t;
}
AttrsPtr none() { return make_attrs<NoAttrs>(); }

/// Element types of every size, packed ones included.
const DType kTypes[] = {DType::kBool, DType::kI2,  DType::kU4,   DType::kI4,  DType::kU8,  DType::kF8E4M3FN,
                        DType::kI16,  DType::kF16, DType::kBF16, DType::kF32, DType::kI64, DType::kF64};

struct ReshapeRow {
  Shape x;
  std::vector<double> target;
  bool allow_zero;
  Shape want;
};

TEST(Reshape, Targets) {
  const ReshapeRow rows[] = {
      {{2, 3, 4}, {4, -1}, true, {4, 6}},
      {{2, 3, 4}, {0, -1}, false, {2, 12}},
      {{2, 3, 4}, {0, 0, 4}, false, {2, 3, 4}},
      {{0, 3}, {3, 0}, true, {3, 0}},
      {{1}, {}, true, {}},
      {{0, 3}, {-1, 3}, true, {0, 3}},
  };
  for (const ReshapeRow& r : rows)
    for (bool unknown : {false, true}) {
      auto attrs = std::make_shared<ReshapeAttrs>();
      attrs->allow_zero = r.allow_zero;
      OpRunner run(Op::kReshape, attrs);
      run.input(counting(DType::kF32, r.x)).input(ints(r.target));
      if (unknown) run.unknown_shapes();
      EXPECT_EQ(run.run().shape(), r.want) << r.want.str();
    }
}

TEST(Reshape, RefusesOtherSizes) {
  for (const std::vector<double>& target :
       std::vector<std::vector<double>>{{5}, {-1, -1}, {-1, 5}, {-2, 3}, {4611686018427387904.0, 4}}) {
    const Tensor x = counting(DType::kF32, {2, 3});
    EXPECT_NE(OpRunner(Op::kReshape, make_attrs<ReshapeAttrs>()).input(x).constant(ints(target)).error(), "");
    EXPECT_NE(OpRunner(Op::kReshape, make_attrs<ReshapeAttrs>()).input(x).input(ints(target)).error(), "");
  }
}

TEST(Reshape, RunsDecideIfAScalarFits) {
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    const auto run = [&](const Shape& shape, const std::vector<double>& dims) {
      OpRunner r(Op::kReshape, make_attrs<ReshapeAttrs>());
      r.input(counting(DType::kF32, shape)).input(ints(dims)).backend(backend);
      return r;
    };
    EXPECT_EQ(run({1, 1}, {}).run().shape(), Shape{});
    EXPECT_NE(run({0}, {}).error(), "");
    EXPECT_NE(run({2, 3}, {}).error(), "");
    EXPECT_NE(run({0}, {}).unknown_shapes().error(), "");
  }
}

TEST(Squeeze, AxesOfARun) {
  struct Row {
    Shape x;
    std::vector<double> axes;
    Shape want;
  };
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu})
    for (const bool unknown : {false, true}) {
      const auto run = [&](const Shape& shape, const std::vector<double>& axes) {
        OpRunner r(Op::kSqueeze, none());
        r.input(counting(DType::kF32, shape)).input(ints(axes)).backend(backend);
        return unknown ? r.unknown_shapes() : r;
      };
      for (const Row& r : {Row{{1, 1}, {0, 1}, {}}, Row{{1, 3}, {0, 0}, {3}}, Row{{1, 3, 1}, {0, -1}, {3}},
                           Row{{1, 3, 1}, {2}, {1, 3}}, Row{{1, 3}, {}, {1, 3}}, Row{{1}, {0}, {}}})
        EXPECT_EQ(run(r.x, r.axes).run().shape(), r.want) << r.want.str();
      for (const Row& r : {Row{{2, 3}, {0, 1}, {}}, Row{{0}, {0}, {}}, Row{{1, 1}, {0, 9}, {}}})
        EXPECT_NE(run(r.x, r.axes).error(), "") << r.x.str();
    }
}

TEST(Transpose, EveryType) {
  for (DType dtype : kTypes) {
    const Tensor x = counting(dtype, {2, 3, 5});
    const Tensor y = OpRunner(Op::kTranspose, make_attrs<TransposeAttrs>(std::vector<int64_t>{2, 0, 1})).input(x).run();
    ASSERT_EQ(y.shape(), (Shape{5, 2, 3})) << to_string(dtype);
    const auto from = values(x), got = values(y);
    for (int64_t i = 0; i < 30; ++i) {
      const int64_t a = i / 6, b = i / 3 % 2, c = i % 3;
      EXPECT_EQ(got[static_cast<size_t>(i)], from[static_cast<size_t>(b * 15 + c * 5 + a)]) << to_string(dtype);
    }
  }
  EXPECT_NE(OpRunner(Op::kTranspose, make_attrs<TransposeAttrs>(std::vector<int64_t>{0, 0}))
                .input(floats({2, 2}, {1, 2, 3, 4}))
                .error(),
            "");
}

TEST(Transpose, GoesByTiles) {
  const Shape shape{3, 37, 5, 21};
  const std::vector<int64_t> perm{0, 3, 1, 2};
  Tensor x(DType::kI32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) x.data<int32_t>()[i] = static_cast<int32_t>(i);
  const Tensor y = OpRunner(Op::kTranspose, make_attrs<TransposeAttrs>(perm)).input(x).run();
  ASSERT_EQ(y.shape(), (Shape{3, 21, 37, 5}));
  int64_t at = 0;
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t c = 0; c < 21; ++c)
      for (int64_t h = 0; h < 37; ++h)
        for (int64_t w = 0; w < 5; ++w) ASSERT_EQ(y.data<int32_t>()[at++], ((n * 37 + h) * 5 + w) * 21 + c);
}

struct SliceRow {
  std::vector<double> starts, ends, axes, steps, want;
  Shape shape;
};

TEST(Slice, ClampsAndSteps) {
  const SliceRow rows[] = {
      {{1}, {100}, {1}, {2}, {1, 3, 6, 8}, {2, 2}},
      {{-1}, {-100}, {1}, {-2}, {4, 2, 0, 9, 7, 5}, {2, 3}},
      {{0, 1}, {1, 3}, {0, 1}, {1, 1}, {1, 2}, {1, 2}},
      {{3}, {1}, {1}, {1}, {}, {2, 0}},
      {{2}, {2147483647}, {1}, {-1}, {2, 1, 0, 7, 6, 5}, {2, 3}},
      {{-9223372036854774784.0}, {9223372036854774784.0}, {0}, {1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {2, 5}},
      {{9223372036854774784.0}, {-9223372036854774784.0}, {1}, {-9223372036854774784.0}, {4, 9}, {2, 1}},
  };
  for (const SliceRow& r : rows)
    for (bool unknown : {false, true}) {
      OpRunner run(Op::kSlice, none());
      run.input(floats({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
      run.input(ints(r.starts)).input(ints(r.ends)).input(ints(r.axes)).input(ints(r.steps));
      if (unknown) run.unknown_shapes();
      const Tensor y = run.run();
      EXPECT_EQ(y.shape(), r.shape);
      expect_equal(y, r.want);
    }
}

TEST(StridedSlice, Masks) {
  const Tensor x = counting(DType::kF32, {2, 3, 4});
  const auto run = [&](StridedSliceAttrs a, std::vector<double> b, std::vector<double> e, std::vector<double> s) {
    return OpRunner(Op::kStridedSlice, make_attrs<StridedSliceAttrs>(a))
        .input(x)
        .input(ints(b))
        .input(ints(e))
        .input(ints(s))
        .run();
  };
  StridedSliceAttrs shrink;
  shrink.shrink_axis_mask = 1;
  EXPECT_EQ(run(shrink, {-1, 0, 0}, {0, 2, 4}, {1, 1, 2}).shape(), (Shape{2, 2}));
  StridedSliceAttrs ellipsis;
  ellipsis.ellipsis_mask = 1;
  ellipsis.new_axis_mask = 2;
  EXPECT_EQ(run(ellipsis, {0, 0, 1}, {0, 0, 3}, {1, 1, 1}).shape(), (Shape{2, 3, 1, 2}));
  StridedSliceAttrs masked;
  masked.begin_mask = masked.end_mask = 1;
  EXPECT_EQ(run(masked, {7}, {7}, {-1}).shape(), (Shape{2, 3, 4}));
  StridedSliceAttrs offset;
  offset.offset = true;
  EXPECT_EQ(run(offset, {0, 1}, {1, 2}, {1, 1}).shape(), (Shape{1, 2, 4}));
  EXPECT_NE(OpRunner(Op::kStridedSlice, make_attrs<StridedSliceAttrs>(shrink))
                .input(x)
                .input(ints({2}))
                .input(ints({3}))
                .input(ints({1}))
                .error(),
            "");
}

TEST(Concat, JoinsAndRescales) {
  for (DType dtype : kTypes) {
    const Tensor y = OpRunner(Op::kConcat, make_attrs<AxisAttrs>(-1))
                         .input(tensor(dtype, {2, 1}, {0, 1}))
                         .input(tensor(dtype, {2, 2}, {1, 0, 1, 1}))
                         .run();
    expect_equal(y, dtype == DType::kI2 ? values(y) : std::vector<double>{0, 1, 0, 1, 1, 1});
  }
  const Tensor a = quantized(DType::kU8, {2}, {10, 20}, 0.5f, 0, Rounding::kFixedDouble);
  const Tensor y = OpRunner(Op::kConcat, make_attrs<AxisAttrs>(0))
                       .input(a)
                       .input(quantized(DType::kU8, {1}, {7}, 1.0f, 3, Rounding::kFixedDouble))
                       .outputs({ValueType::tensor(DType::kU8, {3}, per_tensor(1.0f, 3, Rounding::kFixedDouble))})
                       .run();
  expect_equal(y, {8, 13, 7});
}

TEST(Split, SizesAndCounts) {
  auto attrs = std::make_shared<SplitAttrs>();
  attrs->axis = 1;
  auto out = OpRunner(Op::kSplit, attrs).input(floats({1, 5}, {0, 1, 2, 3, 4})).outputs(2).run_all();
  ASSERT_TRUE(out.ok());
  expect_equal((*out)[0].tensor, {0, 1, 2});
  expect_equal((*out)[1].tensor, {3, 4});
  out = OpRunner(Op::kSplit, attrs).input(floats({1, 5}, {0, 1, 2, 3, 4})).input(ints({4, -1})).outputs(2).run_all();
  ASSERT_TRUE(out.ok());
  expect_equal((*out)[1].tensor, {4});
}

TEST(Pad, Modes) {
  const struct {
    PadAttrs::Mode mode;
    std::vector<double> want;
  } rows[] = {
      {PadAttrs::Mode::kConstant, {0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0}},
      {PadAttrs::Mode::kEdge, {1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3}},
      {PadAttrs::Mode::kReflect, {1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3}},
      {PadAttrs::Mode::kSymmetric, {3, 3, 2, 1, 1, 2, 3, 3, 2, 1, 1}},
      {PadAttrs::Mode::kWrap, {3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}},
  };
  for (const auto& r : rows) {
    auto attrs = std::make_shared<PadAttrs>();
    attrs->mode = r.mode;
    expect_equal(OpRunner(Op::kPad, attrs).input(floats({3}, {1, 2, 3})).input(ints({4, 4})).run(), r.want);
  }
  const Tensor q = quantized(DType::kI8, {2}, {5, 6}, 0.1f, -3);
  expect_equal(OpRunner(Op::kPad, make_attrs<PadAttrs>()).input(q).input(ints({1, -1})).run(), {-3, 5});
}

TEST(Shapes, HugeResultsHitTheLimit) {
  const double huge = 1099511627776.0 * 4;
  const auto is_limit = [](const OpRunner& run) {
    auto r = run.run_all();
    return !r.ok() && r.error().code() == ErrorCode::kLimit;
  };
  EXPECT_TRUE(is_limit(OpRunner(Op::kExpand, none()).input(floats({1}, {1})).input(ints({huge}))));
  EXPECT_TRUE(is_limit(OpRunner(Op::kTile, none()).input(floats({1}, {1})).input(ints({huge}))));
  EXPECT_TRUE(is_limit(OpRunner(Op::kFill, none()).input(ints({huge, 2})).input(floats({}, {1}))));
  EXPECT_TRUE(is_limit(OpRunner(Op::kRange, none()).input(whole(0)).input(whole(huge)).input(whole(1))));
  EXPECT_TRUE(is_limit(OpRunner(Op::kPad, make_attrs<PadAttrs>()).input(floats({1}, {1})).input(ints({huge / 8, 0}))));
}

TEST(Shapes, MovesOfEveryType) {
  for (DType dtype : kTypes) {
    if (dtype == DType::kI2) continue;
    SCOPED_TRACE(to_string(dtype));
    const Tensor x = tensor(dtype, {2, 2}, {0, 1, 1, 0});
    expect_equal(OpRunner(Op::kReverse, none()).input(x).input(ints({1})).run(), {1, 0, 0, 1});
    expect_equal(OpRunner(Op::kTile, none()).input(x).input(ints({1, 2})).run(), {0, 1, 0, 1, 1, 0, 1, 0});
    expect_equal(OpRunner(Op::kExpand, none()).input(tensor(dtype, {2, 1}, {0, 1})).input(ints({2, 2})).run(),
                 {0, 0, 1, 1});
    expect_equal(OpRunner(Op::kRoll, none()).input(x).input(ints({1})).input(ints({})).run(), {0, 0, 1, 1});
    expect_equal(OpRunner(Op::kMatrixDiag, none()).input(tensor(dtype, {2}, {1, 1})).run(), {1, 0, 0, 1});
    expect_equal(OpRunner(Op::kTriangle, make_attrs<TriangleAttrs>()).input(tensor(dtype, {2, 2}, {1, 1, 1, 1})).run(),
                 {1, 1, 0, 1});
  }
}

TEST(Range, Bounds) {
  expect_equal(OpRunner(Op::kRange, none()).input(whole(10)).input(whole(4)).input(whole(-3)).run(), {10, 7});
  expect_equal(OpRunner(Op::kRange, none()).input(whole(1)).input(whole(1)).input(whole(1)).run(), {});
  EXPECT_NE(OpRunner(Op::kRange, none()).input(whole(1)).input(whole(2)).input(whole(0)).error(), "");
}

TEST(DepthSpace, Orders) {
  BlockAttrs a;
  a.block = 2;
  const Tensor x = counting(DType::kF32, {1, 4, 1, 2});  // 0..6, 0
  expect_equal(OpRunner(Op::kDepthSpace, make_attrs<BlockAttrs>(a)).input(x).run(), {0, 2, 1, 3, 4, 6, 5, 0});
  a.to_depth = true;
  const Tensor y =
      OpRunner(Op::kDepthSpace, make_attrs<BlockAttrs>(a)).input(floats({1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7})).run();
  expect_equal(y, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(SpaceToBatch, RoundTrip) {
  const Tensor x = floats({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const Tensor edges = tensor(DType::kI32, {2, 2}, {0, 0, 1, 0});
  const Tensor blocks = tensor(DType::kI32, {2}, {2, 2});
  const Tensor y = OpRunner(Op::kSpaceToBatch, none()).input(x).input(blocks).input(edges).run();
  EXPECT_EQ(y.shape(), (Shape{4, 1, 2, 1}));
  expect_equal(y, {0, 2, 1, 3, 0, 5, 4, 6});
  expect_equal(OpRunner(Op::kBatchToSpace, none()).input(y).input(blocks).input(edges).run(), {1, 2, 3, 4, 5, 6});
}

TEST(AsStrided, StaysInside) {
  AsStridedAttrs a;
  a.size = {2, 2};
  a.stride = {1, 2};
  expect_equal(OpRunner(Op::kAsStrided, make_attrs<AsStridedAttrs>(a)).input(floats({4}, {0, 1, 2, 3})).run(),
               {0, 2, 1, 3});
  a.offset = 1;
  EXPECT_NE(OpRunner(Op::kAsStrided, make_attrs<AsStridedAttrs>(a)).input(floats({4}, {0, 1, 2, 3})).error(), "");
}

}  // namespace
}  // namespace smelt
