// Normalization and products of two matrices in textures, against the reference kernels.
#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "tests/support/vulkan_texture.h"

namespace smelt::vulkan {
namespace {

constexpr DType kReals[] = {DType::kF32, DType::kF16};

TEST(VulkanTextureNorm, Layer) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : kReals)
    for (const Shape& shape : {Shape{2, 5, 3, 7}, Shape{3, 301}, Shape{9}, Shape{2, 4, 8}})
      for (int axis = shape.rank() - 1; axis >= 0; axis -= 2)
        for (bool rms : {false, true}) {
          Shape own;
          for (int d = axis; d < shape.rank(); ++d) own.push_back(shape[d]);
          LayerNormAttrs attrs;
          attrs.axis = axis;
          attrs.rms = rms;
          std::vector<Tensor> in{random_tensor(dtype, shape, -3, 4, 1), random_tensor(dtype, own, -1, 2, 2)};
          if (!rms) in.push_back(random_tensor(dtype, own, -1, 1, 3));
          check_forms(make_case("layer norm", Op::kLayerNorm, attrs, in), "layer_norm_texture");
        }
  auto c = make_case("computed scale", Op::kLayerNorm, LayerNormAttrs{},
                     {random_tensor(DType::kF32, {3, 6}, -3, 4, 1), random_tensor(DType::kF32, {6}, -1, 2, 2)});
  c.constants.clear();
  check_forms(c, "layer_norm_texture");
}

TEST(VulkanTextureNorm, Group) {
  SKIP_WITHOUT_GPU();
  struct Case {
    Shape shape;
    int64_t groups;
    Layout layout;
    std::vector<Packing> packings;
  };
  const std::vector<Packing> all(std::begin(kPackings), std::end(kPackings));
  const Case cases[] = {
      {{2, 16, 3, 5}, 2, Layout::kChannelsFirst, all},
      {{2, 6, 3, 5}, 0, Layout::kChannelsFirst, all},
      {{1, 6, 5, 3}, 1, Layout::kChannelsFirst, all},
      {{1, 6, 5, 3}, 2, Layout::kChannelsFirst, {Packing::kWidth, Packing::kHeight}},
      {{2, 8, 40, 9}, 2, Layout::kChannelsFirst, all},
      {{2, 6, 11}, 3, Layout::kChannelsFirst, {Packing::kWidth, Packing::kChannels}},
      {{2, 3, 5, 8}, 2, Layout::kChannelsLast, all},
      {{3, 6}, 2, Layout::kChannelsFirst, {Packing::kHeight}},
  };
  for (DType dtype : kReals)
    for (const Case& k : cases) {
      GroupNormAttrs attrs;
      attrs.groups = k.groups;
      attrs.layout = k.layout;
      const int64_t channels = k.layout == Layout::kChannelsFirst ? k.shape[1] : k.shape.back();
      check_forms(make_case("group norm", Op::kGroupNorm, attrs,
                            {random_tensor(dtype, k.shape, -3, 4, 1), random_tensor(dtype, {channels}, -1, 2, 2),
                             random_tensor(dtype, {channels}, -1, 2, 3)}),
                  "group_norm_texture", k.packings);
    }
}

TEST(VulkanTextureNorm, OthersAlongAxes) {
  SKIP_WITHOUT_GPU();
  const Tensor x = random_tensor(DType::kF32, {2, 5, 3, 7}, -3, 4, 1);
  check_forms(make_case("mean and variance", Op::kMeanVarianceNorm, MeanVarianceNormAttrs{}, {x}),
              "mean_variance_norm_texture");
  for (int axis = 0; axis < 4; ++axis) {
    LpNormAttrs attrs;
    attrs.axis = axis;
    attrs.p = 1 + axis % 2;
    attrs.epsilon_max = axis > 1;
    attrs.epsilon = 1e-3;
    check_forms(make_case("norm", Op::kLpNorm, attrs, {x}), "lp_norm_texture");
  }
}

/// Means and inverse deviations, where something reads them.
TEST(VulkanTextureNorm, Statistics) {
  SKIP_WITHOUT_GPU();
  const Tensor x = random_tensor(DType::kF32, {2, 6, 3, 5}, -3, 4, 1);
  LayerNormAttrs layer;
  GroupNormAttrs group;
  group.groups = 3;
  const std::pair<Op, AttrsPtr> ops[] = {{Op::kLayerNorm, std::make_shared<LayerNormAttrs>(layer)},
                                         {Op::kGroupNorm, std::make_shared<GroupNormAttrs>(group)}};
  for (const auto& [op, attrs] : ops) {
    const bool layers = op == Op::kLayerNorm;
    const Tensor scale = random_tensor(DType::kF32, {layers ? 5 : 6}, -1, 2, 2);
    check_forms(OpRunner(op, attrs).input(x).constant(scale).constant(scale).outputs(3),
                layers ? "layer_norm_texture" : "group_norm_texture", {2e-5, 2e-5});
  }
}

TEST(VulkanTextureNorm, Batch) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : kReals)
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      BatchNormAttrs attrs;
      attrs.layout = layout;
      const int64_t channels = layout == Layout::kChannelsFirst ? 5 : 7;
      check_forms(make_case("batch norm", Op::kBatchNorm, attrs,
                            {random_tensor(dtype, {2, 5, 3, 7}, -3, 4, 1), random_tensor(dtype, {channels}, -1, 2, 2),
                             random_tensor(dtype, {channels}, -1, 2, 3), random_tensor(dtype, {channels}, -1, 2, 4),
                             random_tensor(dtype, {channels}, 0.5, 2, 5)}),
                  "batch_norm_texture");
    }
}

TEST(VulkanTexture, Cast) {
  SKIP_WITHOUT_GPU();
  for (DType from : kReals) {
    const DType to = from == DType::kF32 ? DType::kF16 : DType::kF32;
    for (const Shape& shape : {Shape{2, 5, 3, 7}, Shape{5}}) {
      auto c = make_case("cast", Op::kCast, CastAttrs(to), {random_tensor(from, shape, -3, 4, 1)});
      c.outputs[0].dtype = to;
      check_forms(c, "cast_texture");
    }
  }
}

TEST(VulkanTexture, CastOfIntegers) {
  SKIP_WITHOUT_GPU();
  for (DType from : {DType::kI32, DType::kBool})
    for (DType to : kReals) {
      Tensor x(from, {2, 5, 3, 7});
      for (int64_t i = 0; i < x.elements(); ++i) set_int(x, i, from == DType::kBool ? i % 3 == 0 : i % 50 - 20);
      auto c = make_case("cast", Op::kCast, CastAttrs(to), {x});
      c.outputs[0].dtype = to;
      check_forms(c, "cast_texture");
    }
}

TEST(VulkanTexture, Product) {
  SKIP_WITHOUT_GPU();
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 5, 6}, {2, 3, 6, 7}},  // a dense batch
                                            {{3, 9, 11}, {1, 11, 6}},      // one b for all
                                            {{2, 1, 4, 8}, {3, 8, 4}},     // both repeat
                                            {{1, 5}, {5, 1}},
                                            {{6, 13}, {13, 9}}};
  const auto turned = [](Shape s) {
    std::swap(s[s.rank() - 1], s[s.rank() - 2]);
    return s;
  };
  for (const auto& [a, b] : shapes)
    for (DType dtype : kReals)
      for (int turn = 0; turn < 4; ++turn) {
        MatMulAttrs attrs;
        attrs.transpose_a = turn & 1;
        attrs.transpose_b = turn & 2;
        attrs.alpha = turn == 3 ? 0.5 : 1;
        if (turn == 2) attrs.act.kind = ActKind::kRelu;
        std::vector<Tensor> in{random_tensor(dtype, turn & 1 ? turned(a) : a, -1, 1, 1),
                               random_tensor(dtype, turn & 2 ? turned(b) : b, -1, 1, 2)};
        if (turn == 2) in.push_back(random_tensor(dtype, {b.back()}, -1, 1, 3));
        auto c = make_case("product", Op::kMatMul, attrs, in);
        c.constants = {2};
        check_forms(c, "matmul_texture", {Packing::kWidth});
      }
}

}  // namespace
}  // namespace smelt::vulkan
