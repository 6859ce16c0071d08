// Kernels of the device that move elements, against the reference kernels.
#include <gtest/gtest.h>

#include "ops/gather/gather.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "tests/support/vulkan_texture.h"

namespace smelt::test {
namespace {

void expect_same(const OpRunner& op, double tolerance, const std::string& what) {
  SCOPED_TRACE(what);
  vulkan::check_same(op, {tolerance, tolerance});
}

/// In textures of every form, by that kernel, or the one for images of new sizes.
void expect_same_in_textures(const OpRunner& op, double tolerance, const std::string& what, const std::string& kernel) {
  SCOPED_TRACE(what);
  vulkan::check_forms(op, kernel + "|resize_texture", {tolerance, tolerance});
}

Tensor counted(DType dtype, const Shape& shape) {
  std::vector<double> v(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(i % 120 + 1);
  return tensor(dtype, shape, v);
}
Tensor ints(std::vector<double> v) { return tensor(DType::kI64, {static_cast<int64_t>(v.size())}, v); }

const DType kWidths[] = {DType::kI8, DType::kF16, DType::kF32, DType::kI64};

TEST(VulkanCopy, ConstantPositions) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : kWidths) {
    const Tensor x = counted(dtype, {2, 4, 6});
    const auto run = [&](OpRunner op, const char* what) {
      expect_same(op, 0, what);
      if (is_float(dtype)) expect_same_in_textures(op, 0, what, "strided_copy_texture|index_map_texture");
    };
    run(OpRunner(Op::kTranspose, make_attrs<TransposeAttrs>(std::vector<int64_t>{2, 0, 1})).input(x), "transpose");
    run(OpRunner(Op::kSlice, make_attrs<NoAttrs>())
            .input(x)
            .constant(ints({1, 4}))
            .constant(ints({4, 0}))
            .constant(ints({1, 2}))
            .constant(ints({2, -2})),
        "slice");
    run(OpRunner(Op::kConcat, make_attrs<AxisAttrs>(1)).input(x).input(counted(dtype, {2, 3, 6})).input(x), "concat");
    run(OpRunner(Op::kStack, make_attrs<AxisAttrs>(2)).input(x).input(x), "stack");
    SplitAttrs split;
    split.axis = 2;
    run(OpRunner(Op::kSplit, make_attrs<SplitAttrs>(split)).input(x).constant(ints({1, 3, 2})).outputs(3), "split");
    run(OpRunner(Op::kUnstack, make_attrs<AxisAttrs>(1)).input(x).outputs(4), "unstack");
    for (auto mode : {PadAttrs::Mode::kConstant, PadAttrs::Mode::kReflect, PadAttrs::Mode::kSymmetric,
                      PadAttrs::Mode::kEdge, PadAttrs::Mode::kWrap}) {
      PadAttrs pad;
      pad.mode = mode;
      run(OpRunner(Op::kPad, make_attrs<PadAttrs>(pad)).input(x).constant(ints({0, 1, 2, 1, 2, 3})), to_string(mode));
    }
    run(OpRunner(Op::kPad, make_attrs<PadAttrs>())
            .input(x)
            .constant(ints({0, 1, 2, 0, -1, 3}))
            .constant(tensor(dtype, {}, {9})),
        "pad with a value");
    run(OpRunner(Op::kPad, make_attrs<PadAttrs>())
            .input(x)
            .constant(ints({0, 1, 2, 0, -1, 3}))
            .input(tensor(dtype, {}, {9})),
        "pad with a dynamic value");
    run(OpRunner(Op::kExpand, make_attrs<NoAttrs>()).input(counted(dtype, {2, 1, 3})).constant(ints({2, 4, 3})),
        "expand");
    run(OpRunner(Op::kTile, make_attrs<NoAttrs>()).input(x).constant(ints({2, 3, 1})), "tile");
    run(OpRunner(Op::kReverse, make_attrs<NoAttrs>()).input(x).constant(ints({0, 2})), "reverse");
    run(OpRunner(Op::kTriangle, make_attrs<TriangleAttrs>()).input(x).constant(ints({1})), "triangle");
    run(OpRunner(Op::kRoll, make_attrs<NoAttrs>()).input(x).constant(ints({1, -2})).constant(ints({1, 2})), "roll");
    run(OpRunner(Op::kRepeatInterleave, make_attrs<AxisAttrs>(1)).input(x).constant(ints({1, 0, 3, 2})), "repeat");
    expect_same(OpRunner(Op::kFill, make_attrs<NoAttrs>()).constant(ints({3, 5})).input(tensor(dtype, {}, {7})), 0,
                "fill");
    BlockAttrs block;
    block.block = 2;
    run(OpRunner(Op::kDepthSpace, make_attrs<BlockAttrs>(block)).input(counted(dtype, {1, 8, 3, 2})), "depth to space");
    run(OpRunner(Op::kSpaceToBatch, make_attrs<NoAttrs>())
            .input(counted(dtype, {1, 3, 4, 2}))
            .constant(ints({2, 2}))
            .constant(tensor(DType::kI64, {2, 2}, {1, 0, 2, 2})),
        "space to batch");
    run(OpRunner(Op::kBatchToSpace, make_attrs<NoAttrs>())
            .input(counted(dtype, {4, 2, 3, 2}))
            .constant(ints({2, 2}))
            .constant(tensor(DType::kI64, {2, 2}, {1, 0, 0, 1})),
        "batch to space");
    run(OpRunner(Op::kSliceScatter, make_attrs<AxisAttrs>(2))
            .input(x)
            .input(counted(dtype, {2, 4, 2}))
            .constant(ints({1}))
            .constant(ints({5}))
            .constant(ints({2})),
        "slice scatter");
    GatherAttrs rows;
    rows.axis = 1;
    run(OpRunner(Op::kGather, make_attrs<GatherAttrs>(rows)).input(x).constant(ints({3, -1, 0, 0, 2})), "gather");
    run(OpRunner(Op::kScatterND, make_attrs<ScatterAttrs>())
            .input(x)
            .constant(tensor(DType::kI64, {2, 2}, {1, 3, 0, -1}))
            .input(counted(dtype, {2, 6})),
        "scatter");
    run(OpRunner(Op::kResize, make_attrs<ResizeAttrs>())
            .input(counted(dtype, {1, 2, 3, 3}))
            .absent()
            .constant(floats({4}, {1, 1, 2, 1.7})),
        "nearest");
  }
}

TEST(VulkanCopy, HasNoLimitOfElements) {
  SKIP_WITHOUT_GPU();
  constexpr int64_t kRows = 4099, kColumns = 4097;  // more than 2^24 elements
  Tensor x(DType::kI8, {kRows, kColumns});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<int8_t>()[i] = static_cast<int8_t>(i * 7);
  vulkan::check_on_gpu(OpRunner(Op::kTranspose, make_attrs<TransposeAttrs>()).input(x), "strided_copy", {0, 0});
}

TEST(VulkanCopy, QuantizedBordersAreTheZeroPoint) {
  SKIP_WITHOUT_GPU();
  expect_same(OpRunner(Op::kPad, make_attrs<PadAttrs>())
                  .input(quantized(DType::kI8, {2, 2}, {1, 2, 3, 4}, 0.5f, -7))
                  .constant(ints({1, 1, 1, 1})),
              0, "pad");
}

TEST(VulkanCopy, ConcatRescalesQuantizedValues) {
  SKIP_WITHOUT_GPU();
  for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble})
    expect_same(OpRunner(Op::kConcat, make_attrs<AxisAttrs>(1))
                    .input(quantized(DType::kI8, {2, 2}, {1, 20, -30, 40}, 0.5f, -7, rounding))
                    .input(quantized(DType::kI8, {2, 3}, {1, -20, 30, 4, 127, -128}, 0.25f, 3, rounding))
                    .outputs({ValueType::tensor(DType::kI8, Shape{2, 5}, per_tensor(0.5f, -7, rounding))}),
                0, "concat");
}

TEST(VulkanCopy, DynamicIndices) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : kWidths)
    for (DType index : {DType::kI32, DType::kI64}) {
      const Tensor x = counted(dtype, {3, 4, 5});
      GatherAttrs a;
      a.axis = 1;
      expect_same(
          OpRunner(Op::kGather, make_attrs<GatherAttrs>(a)).input(x).input(tensor(index, {2, 2}, {3, -1, 0, 2})), 0,
          "gather");
      expect_same(OpRunner(Op::kGatherElements, make_attrs<GatherAttrs>(a))
                      .input(x)
                      .input(tensor(index, {2, 2, 3}, {3, -1, 0, 2, 1, 1, 0, 0, 2, 3, 3, -4})),
                  0, "gather elements");
      expect_same(
          OpRunner(Op::kGatherND, make_attrs<GatherAttrs>()).input(x).input(tensor(index, {2, 2}, {2, 3, 0, -1})), 0,
          "gather tuples");
      expect_same(
          OpRunner(Op::kEmbeddingLookup, make_attrs<NoAttrs>()).input(tensor(index, {3}, {2, 0, 1})).constant(x), 0,
          "lookup");
    }
}

TEST(VulkanCopy, ScattersByDynamicIndices) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : kWidths)
    for (DType index : {DType::kI32, DType::kI64}) {
      const Tensor x = counted(dtype, {3, 4, 5}), at = tensor(index, {3}, {2, -4, 2});
      expect_same(OpRunner(Op::kIndexPut, make_attrs<IndexAttrs>())
                      .input(x)
                      .input(counted(dtype, {3, 3, 5}))
                      .absent()
                      .input(at),
                  0, "put");
      expect_same(OpRunner(Op::kIndexTensors, make_attrs<IndexAttrs>()).input(x).absent().input(at), 0, "index");
      expect_same(OpRunner(Op::kScatterND, make_attrs<ScatterAttrs>())
                      .input(x)
                      .input(tensor(index, {2, 1}, {2, -3}))
                      .input(counted(dtype, {2, 4, 5})),
                  0, "scatter rows");
      ScatterAttrs slices;
      slices.axis = 2;
      expect_same(OpRunner(Op::kIndexSelectPut, make_attrs<ScatterAttrs>(slices))
                      .input(x)
                      .input(tensor(index, {2}, {4, 0}))
                      .input(counted(dtype, {3, 4, 2})),
                  0, "put slices");
    }
}

TEST(VulkanCopy, GridSample) {
  SKIP_WITHOUT_GPU();
  std::vector<double> at;
  for (int i = 0; i < 2 * 3 * 4 * 2; ++i) at.push_back(-1.7 + 0.0737 * i);
  for (DType dtype : {DType::kF32, DType::kF16})
    for (auto mode : {GridSampleAttrs::Mode::kLinear, GridSampleAttrs::Mode::kNearest, GridSampleAttrs::Mode::kCubic})
      for (auto padding :
           {GridSampleAttrs::Padding::kZeros, GridSampleAttrs::Padding::kBorder, GridSampleAttrs::Padding::kReflection})
        for (bool corners : {false, true}) {
          GridSampleAttrs a;
          a.mode = mode;
          a.padding = padding;
          a.align_corners = corners;
          const auto check = [&](const Shape& x, const Shape& grid) {
            const auto sampled = OpRunner(Op::kGridSample, make_attrs<GridSampleAttrs>(a))
                                     .input(counted(dtype, x))
                                     .input(tensor(dtype, grid, at));
            expect_same(sampled, dtype == DType::kF32 ? 1e-4 : 4e-3, to_string(mode));
          };
          check({2, 2, 5, 4}, {2, 3, 4, 2});
          check({2, 2, 3, 2, 4}, {2, 2, 1, 4, 3});
        }
}

TEST(VulkanCopy, AnIndexOutOfRangeFailsTheRun) {
  SKIP_WITHOUT_GPU();
  for (DType index : {DType::kI32, DType::kI64})
    OpRunner(Op::kGather, make_attrs<GatherAttrs>())
        .input(counted(DType::kF32, {3, 2}))
        .input(tensor(index, {2}, {0, 3}))
        .backend(BackendKind::kVulkan)
        .error();
}

TEST(VulkanCopy, ResizesByWeights) {
  SKIP_WITHOUT_GPU();
  using Coord = ResizeAttrs::Coord;
  for (DType dtype : {DType::kF32, DType::kF16})
    for (auto mode : {ResizeAttrs::Mode::kNearest, ResizeAttrs::Mode::kLinear, ResizeAttrs::Mode::kCubic})
      for (Coord coord : {Coord::kHalfPixel, Coord::kHalfPixelSymmetric, Coord::kPytorchHalfPixel, Coord::kAlignCorners,
                          Coord::kAsymmetric, Coord::kTfHalfPixelNn})
        for (bool antialias : {false, true}) {
          ResizeAttrs a;
          a.mode = mode;
          a.coord = coord;
          a.antialias = antialias;
          expect_same(OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
                          .input(counted(dtype, {1, 2, 5, 6}))
                          .absent()
                          .constant(floats({4}, {1, 1, 1.8, 0.5})),
                      dtype == DType::kF32 ? 1e-5 : 2e-3, to_string(coord));
        }
}

TEST(VulkanCopy, ResizesOneAxis) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kF32, DType::kF16})
    for (double scale : {0.5, 1.7}) {
      ResizeAttrs a;
      a.mode = ResizeAttrs::Mode::kLinear;
      expect_same(OpRunner(Op::kResize, make_attrs<ResizeAttrs>(a))
                      .input(counted(dtype, {1, 2, 5, 6}))
                      .absent()
                      .constant(floats({4}, {1, 1, 1, scale})),
                  dtype == DType::kF32 ? 1e-5 : 2e-3, std::to_string(scale));
    }
}

}  // namespace
}  // namespace smelt::test
