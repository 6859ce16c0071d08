#include "base/cat.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

Tensor numbers(std::vector<int64_t> values) { return i64(values); }

Tensor counted(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.elements(); ++i) set_int(t, i, i % 127);
  return t;
}

TEST(StridedCopy, Transpositions) {
  const std::pair<Shape, std::vector<int64_t>> rows[] = {{{5, 7}, {1, 0}},
                                                         {{16, 33}, {1, 0}},
                                                         {{3, 50}, {1, 0}},
                                                         {{50, 4}, {1, 0}},
                                                         {{2, 19, 3}, {0, 2, 1}},
                                                         {{6, 2, 8}, {0, 2, 1}},
                                                         {{9, 24, 2}, {0, 2, 1}},
                                                         {{4, 5, 6, 7}, {0, 3, 1, 2}},
                                                         {{4, 5, 6, 7}, {3, 2, 1, 0}},
                                                         {{2, 6, 6, 5}, {0, 2, 1, 3}},
                                                         {{3, 4, 2, 2}, {2, 0, 1, 3}},
                                                         {{2, 3, 4, 16}, {1, 0, 2, 3}},
                                                         {{1, 9, 1, 4}, {3, 1, 0, 2}},
                                                         {{70, 2}, {1, 0}},
                                                         {{130, 70}, {1, 0}},
                                                         {{21, 300}, {1, 0}},
                                                         {{300, 21}, {1, 0}},
                                                         {{2, 17, 600}, {2, 0, 1}},
                                                         {{1, 700, 130}, {0, 2, 1}},
                                                         {{90, 5}, {1, 0}},
                                                         {{2, 71, 15}, {0, 2, 1}},
                                                         {{7001, 12}, {1, 0}},
                                                         // Columns that collide in a cache, or nearly.
                                                         {{40, 1024}, {1, 0}},
                                                         {{300, 1021}, {1, 0}},
                                                         {{2, 70, 1027}, {0, 2, 1}},
                                                         {{2, 2, 3, 2, 2}, {4, 1, 3, 0, 2}}};
  for (const auto& [shape, perm] : rows)
    for (DType t : {DType::kI8, DType::kI16, DType::kF32, DType::kF64}) {
      OpCase c{
          Cat(to_string(t), ' ', shape.str()), Op::kTranspose, make_attrs<TransposeAttrs>(perm), {counted(t, shape)}};
      c.threaded = true;
      check_on_cpu(c, "strided_copy");
    }
}

TEST(StridedCopy, TranspositionsToShortRowsOfBytes) {
  for (int64_t columns = 5; columns < 16; ++columns)
    for (const int64_t rows : {16, 17, 41, 1000}) {
      OpCase c{Cat(columns, " x ", rows),
               Op::kTranspose,
               make_attrs<TransposeAttrs>(std::vector<int64_t>{0, 2, 1}),
               {counted(DType::kU8, {2, columns, rows})}};
      c.threaded = true;
      check_on_cpu(c, "strided_copy");
    }
}

TEST(StridedCopy, Expansions) {
  const std::pair<Shape, std::vector<int64_t>> rows[] = {
      {{5, 1}, {5, 7}},       {{1, 16}, {3, 16}},           {{1}, {2, 3, 40}},
      {{2, 1, 3}, {2, 9, 3}}, {{4, 1, 1, 5}, {4, 2, 3, 5}}, {{1, 6, 1}, {33, 6, 50}},
      {{3, 4}, {1, 1}}};
  for (const auto& [shape, to] : rows)
    for (DType t : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
      check_on_cpu({Cat(to_string(t), ' ', shape.str()),
                    Op::kExpand,
                    make_attrs<NoAttrs>(),
                    {counted(t, shape), numbers(to)},
                    {1}},
                   "strided_copy");
}

TEST(StridedCopy, BordersThatRepeat) {
  for (PadAttrs::Mode mode :
       {PadAttrs::Mode::kReflect, PadAttrs::Mode::kSymmetric, PadAttrs::Mode::kEdge, PadAttrs::Mode::kWrap})
    for (DType t : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
      for (const auto& pads :
           {std::vector<int64_t>{0, 2, 3, 0, 1, 2}, {0, 1, 0, 0, 2, 0}, {1, 0, -2, 0, -1, 4}, {0, 0, 7, 0, 0, 9}}) {
        PadAttrs a;
        a.mode = mode;
        check_on_cpu({Cat(to_string(mode), ' ', to_string(t), ' ', pads[2]),
                      Op::kPad,
                      make_attrs<PadAttrs>(a),
                      {counted(t, {2, 5, 6}), numbers(pads)},
                      {1}},
                     "strided_copy");
      }
}

TEST(StridedCopy, BlocksAndBatches) {
  struct Row {
    Shape shape;
    std::vector<int64_t> block, edge;
  };
  const Row to_batch[] = {{{2, 4, 6, 3}, {2, 3}, {0, 0, 0, 0}},
                          {{1, 5, 7, 2}, {2, 2}, {1, 2, 4, 1}},
                          {{3, 8, 5}, {4}, {0, 0}},
                          {{2, 3}, {1}, {2, 3}},
                          {{1, 1, 1, 4}, {3, 2}, {1, 1, 0, 1}}};
  const Row to_space[] = {
      {{12, 2, 3, 3}, {2, 3}, {0, 0, 0, 0}}, {{4, 4, 6, 2}, {2, 2}, {1, 2, 4, 1}}, {{8, 8, 5}, {4}, {3, 6}}};
  for (DType t : {DType::kI8, DType::kF32}) {
    for (const Row& r : to_batch)
      check_on_cpu({Cat(to_string(t), ' ', r.shape.str()),
                    Op::kSpaceToBatch,
                    make_attrs<NoAttrs>(),
                    {counted(t, r.shape), numbers(r.block), numbers(r.edge)},
                    {1, 2}},
                   "strided_copy");
    for (const Row& r : to_space)
      check_on_cpu({Cat(to_string(t), ' ', r.shape.str()),
                    Op::kBatchToSpace,
                    make_attrs<NoAttrs>(),
                    {counted(t, r.shape), numbers(r.block), numbers(r.edge)},
                    {1, 2}},
                   "strided_copy");
  }
}

TEST(StridedCopy, SlicesAndBorders) {
  for (DType t : {DType::kU8, DType::kF32, DType::kI64}) {
    const Tensor x = counted(t, {3, 8, 10});
    check_on_cpu({"slice",
                  Op::kSlice,
                  make_attrs<NoAttrs>(),
                  {x, numbers({1, 9}), numbers({7, 0}), numbers({1, 2}), numbers({2, -3})},
                  {1, 2, 3, 4}},
                 "strided_copy");
    check_on_cpu({"sized", Op::kSliceSize, make_attrs<NoAttrs>(), {x, numbers({1, 2, 3}), numbers({2, -1, 5})}, {1, 2}},
                 "strided_copy");
    auto masks = std::make_shared<StridedSliceAttrs>();
    masks->shrink_axis_mask = 1;
    check_on_cpu({"strided",
                  Op::kStridedSlice,
                  masks,
                  {x, numbers({2, 1, 0}), numbers({3, 8, 10}), numbers({1, 3, 2})},
                  {1, 2, 3}},
                 "strided_copy");
    check_on_cpu({"pad", Op::kPad, make_attrs<PadAttrs>(), {x, numbers({0, 2, -1, 1, 0, 3}), counted(t, {1})}, {1, 2}},
                 "strided_copy");
    Tensor seven(t, {});
    set_int(seven, 0, 7);
    check_on_cpu({"pad sevens", Op::kPad, make_attrs<PadAttrs>(), {x, numbers({0, 2, 1, 1, 0, 3}), seven}, {1, 2}},
                 "strided_copy");
    check_on_cpu({"all cropped", Op::kPad, make_attrs<PadAttrs>(), {x, numbers({0, -8, 0, 0, 2, 0})}, {1}},
                 "strided_copy");
  }
}

TEST(StridedCopy, Joins) {
  for (int64_t axis : {0, 1, 2, -1}) {
    Shape a{3, 4, 5}, b{3, 4, 5}, e{3, 4, 5};
    b[static_cast<int>(axis < 0 ? axis + 3 : axis)] = 7;
    e[static_cast<int>(axis < 0 ? axis + 3 : axis)] = 0;
    for (DType t : {DType::kI8, DType::kF32}) {
      check_on_cpu({Cat("axis ", axis),
                    Op::kConcat,
                    make_attrs<AxisAttrs>(axis),
                    {counted(t, a), counted(t, b), counted(t, e)},
                    {1, 2}},
                   "strided_copy");
      check_on_cpu({Cat("axis ", axis), Op::kStack, make_attrs<AxisAttrs>(axis), {counted(t, a), counted(t, a)}, {1}},
                   "strided_copy");
    }
  }
}

// Threads share large copies: blocks, or the rows and columns of few blocks.
TEST(StridedCopy, Threads) {
  const auto check = [](const char* label, Op op, AttrsPtr attrs, std::vector<Tensor> inputs) {
    OpCase c{label, op, std::move(attrs), std::move(inputs), {}};
    for (size_t i = op == Op::kConcat ? c.inputs.size() : 1; i < c.inputs.size(); ++i) c.constants.push_back(i);
    c.threaded = true;
    check_on_cpu(c, "strided_copy");
  };
  const auto image = [](const Shape& shape) { return counted(DType::kF32, shape); };
  check("channels", Op::kConcat, make_attrs<AxisAttrs>(3),
        {image({1, 17, 17, 40}), image({1, 17, 17, 131}), image({1, 17, 17, 3})});
  check("lines", Op::kConcat, make_attrs<AxisAttrs>(1), {image({3, 5, 2000}), image({3, 4, 2000})});
  check("border", Op::kPad, make_attrs<PadAttrs>(), {image({1, 301, 70}), numbers({0, 7, 0, 0, 2, 0})});
  check("twice", Op::kTile, make_attrs<NoAttrs>(), {image({5, 7000}), numbers({2, 3})});
  check("reversed", Op::kReverse, make_attrs<NoAttrs>(), {image({3, 9001}), numbers({1})});
}

TEST(StridedCopy, Blocks) {
  for (bool to_depth : {false, true})
    for (bool crd : {false, true})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        auto attrs = std::make_shared<BlockAttrs>();
        attrs->block = 2;
        attrs->to_depth = to_depth;
        attrs->channel_first_order = crd;
        attrs->layout = layout;
        check_on_cpu(
            {Cat(to_depth, crd, to_string(layout)), Op::kDepthSpace, attrs, {counted(DType::kF32, {2, 8, 4, 8})}},
            "strided_copy");
      }
}

TEST(StridedCopy, SplitsAlongEveryAxis) {
  for (DType t : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (int axis = 0; axis < 3; ++axis) {
      OpCase c{"two slices", Op::kSplit, nullptr, {counted(t, {4, 6, 8})}};
      SplitAttrs split;
      split.axis = axis;
      split.count = 2;
      c.attrs = make_attrs<SplitAttrs>(split);
      c.outputs.resize(2);
      check_on_cpu(c, "strided_copy");
      c.label = "one entry each";
      c.op = Op::kUnstack;
      c.attrs = make_attrs<AxisAttrs>(axis);
      c.outputs.resize(static_cast<size_t>(c.inputs[0].dim(axis)));
      check_on_cpu(c, "strided_copy");
    }
}

TEST(StridedCopy, OtherOperators) {
  for (DType t : {DType::kI8, DType::kF16, DType::kF32, DType::kI64}) {
    const Tensor x = counted(t, {3, 5, 5});
    const auto check = [&](const char* label, Op op, AttrsPtr attrs, std::vector<Tensor> inputs) {
      check_on_cpu({Cat(label, ' ', to_string(t)), op, std::move(attrs), std::move(inputs), {1, 2, 3, 4}},
                   "strided_copy");
    };
    const AttrsPtr none = make_attrs<NoAttrs>();
    check("tile", Op::kTile, none, {x, numbers({2, 3, 1, 2})});
    check("reverse", Op::kReverse, none, {x, numbers({0, 2})});
    DiagonalAttrs axes;
    axes.axis1 = 1;
    axes.axis2 = 0;
    check("sequences", Op::kReverseSequence, make_attrs<DiagonalAttrs>(axes), {x, numbers({0, 3, 5})});
    check("diagonal", Op::kDiagonal, make_attrs<DiagonalAttrs>(axes), {x});
    check("diagonal matrices", Op::kMatrixDiag, none, {x});
    check("new diagonals", Op::kMatrixSetDiag, none, {x, counted(t, {3, 5})});
    for (bool upper : {false, true}) {
      TriangleAttrs a;
      a.upper = upper;
      check("triangle", Op::kTriangle, make_attrs<TriangleAttrs>(a), {x, numbers({1})});
    }
    AsStridedAttrs strided;
    strided.size = {2, 3, 4};
    strided.stride = {7, 0, 3};
    strided.offset = 2;
    check("as strided", Op::kAsStrided, make_attrs<AsStridedAttrs>(strided), {x});
    UnfoldAttrs windows;
    windows.axis = 1;
    windows.size = 3;
    windows.step = 2;
    check("unfold", Op::kUnfold, make_attrs<UnfoldAttrs>(windows), {x});
    check("roll", Op::kRoll, none, {x, numbers({-1, 3, 4}), numbers({0, 2, 2})});
    check("roll of all", Op::kRoll, none, {x, numbers({-7}), numbers({})});
    check("crop and pad", Op::kCenterCropPad, none, {x, numbers({8, 2}), numbers({0, 2})});
    check("repeat", Op::kRepeatInterleave, make_attrs<AxisAttrs>(1), {x, numbers({1, 0, 3, 2, 2})});
    check("repeat alike", Op::kRepeatInterleave, make_attrs<AxisAttrs>(2), {x, numbers({3})});
    check("update", Op::kDynamicUpdateSlice, none, {x, counted(t, {2, 5, 1}), numbers({9, 0, 2})});
    check("slice scatter", Op::kSliceScatter, make_attrs<AxisAttrs>(1),
          {x, counted(t, {3, 2, 5}), numbers({1}), numbers({5}), numbers({2})});
    ScatterAttrs circular;
    circular.axis = 1;
    circular.reduction = ScatterAttrs::Reduce::kAdd;
    check("cache", Op::kTensorScatter, make_attrs<ScatterAttrs>(circular),
          {x, counted(t, {3, 4, 5}), numbers({0, 3, 11})});
    OpCase fill{"fill", Op::kFill, none, {numbers({3, 7}), counted(t, {1})}, {0}};
    check_on_cpu(fill, "strided_copy");
  }
}

}  // namespace
}  // namespace smelt
