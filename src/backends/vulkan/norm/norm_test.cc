#include "ops/normalization/normalization.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanNorm : public VulkanTest {};

Tolerance near(DType dtype) { return dtype == DType::kF16 ? Tolerance{6e-3, 4e-3} : Tolerance{2e-5, 2e-5}; }
Tensor x_of(DType dtype, const Shape& shape) { return random_tensor(dtype, shape, -2, 3, 17); }
Tensor parameter(DType dtype, const Shape& shape) { return random_tensor(dtype, shape, 0.5, 1.5, 23); }

TEST_F(VulkanNorm, LayerNorm) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool rms : {false, true})
      for (int parameters = 0; parameters < 4; ++parameters)
        for (const Shape& shape : {Shape{3, 4, 10}, Shape{2, 3, 200}})
          for (int64_t axis : {-1, 1}) {
            LayerNormAttrs a;
            a.axis = axis;
            a.rms = rms;
            const Shape own = axis == 1 && parameters == 3 ? Shape{shape[1], 1} : Shape{shape[2]};
            check_on_gpu({Cat(shape.str(), " ", axis, " ", parameters),
                          Op::kLayerNorm,
                          make_attrs<LayerNormAttrs>(a),
                          {x_of(dtype, shape), parameters & 1 ? parameter(dtype, own) : Tensor(),
                           parameters & 2 ? parameter(dtype, own) : Tensor()},
                          {1, 2},
                          std::vector<ValueType>(parameters == 3 ? 3 : 1)},
                         "layer_norm", near(dtype));
          }
}

TEST_F(VulkanNorm, GroupNorm) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int variant = 0; variant < 8; ++variant)
      for (int64_t groups : {0, 1, 3}) {
        GroupNormAttrs a;
        a.groups = groups;
        a.layout = variant & 1 ? Layout::kChannelsLast : Layout::kChannelsFirst;
        a.per_group_affine = variant & 2;
        if (variant & 4) a.act.kind = ActKind::kRelu;
        const Shape own{a.per_group_affine && groups > 0 ? groups : 6};
        check_on_gpu({Cat(groups, " groups, variant ", variant),
                      Op::kGroupNorm,
                      make_attrs<GroupNormAttrs>(a),
                      {x_of(dtype, variant & 1 ? Shape{2, 5, 6, 6} : Shape{2, 6, 5, 7}), parameter(dtype, own),
                       parameter(dtype, own)},
                      {1, 2},
                      std::vector<ValueType>(variant & 4 ? 3 : 1)},
                     "group_norm", near(dtype));
      }
}

TEST_F(VulkanNorm, MeanVarianceAndLp) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2, 3}, {1}, {-1, -2}}) {
      MeanVarianceNormAttrs a;
      a.axes = axes;
      check_on_gpu({Cat(axes.size(), " axes"),
                    Op::kMeanVarianceNorm,
                    make_attrs<MeanVarianceNormAttrs>(a),
                    {x_of(dtype, Shape{2, 3, 5, 9})}},
                   "mean_variance_norm", near(dtype));
    }
    for (int64_t p : {1, 2})
      for (bool most : {false, true})
        for (int64_t axis : {0, 1}) {
          LpNormAttrs a;
          a.axis = axis;
          a.p = p;
          a.epsilon = most ? 30 : 1e-3;
          a.epsilon_max = most;
          check_on_gpu({Cat(p, " ", axis), Op::kLpNorm, make_attrs<LpNormAttrs>(a), {x_of(dtype, Shape{3, 90})}},
                       "lp_norm_float", near(dtype));
        }
  }
}

TEST_F(VulkanNorm, BatchNorm) {
  for (const auto& [dtype, own] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF16, DType::kF16}, std::pair{DType::kF16, DType::kF32}})
    for (int present = 0; present < 4; ++present)
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        BatchNormAttrs a;
        a.layout = layout;
        const Shape channels{layout == Layout::kChannelsFirst ? 5 : 7};
        check_on_gpu(
            {Cat("present ", present),
             Op::kBatchNorm,
             make_attrs<BatchNormAttrs>(a),
             {x_of(dtype, Shape{2, 5, 3, 7}), present & 1 ? parameter(own, channels) : Tensor(),
              present & 2 ? parameter(own, channels) : Tensor(), parameter(own, channels), parameter(own, channels)},
             {1, 2, 4}},
            "batch_norm", near(dtype));
      }
}

TEST_F(VulkanNorm, Lrn) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int64_t size : {1, 4, 5, 99})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        LrnAttrs a;
        a.size = size;
        a.alpha = 0.3;
        a.layout = layout;
        check_on_gpu({Cat("window ", size), Op::kLRN, make_attrs<LrnAttrs>(a), {x_of(dtype, Shape{2, 6, 3, 5})}}, "lrn",
                     near(dtype));
      }
}

}  // namespace
}  // namespace smelt::vulkan
