// Regions, moved windows, unpooling and Fourier transforms.
#include "ops/conv/conv.h"
#include "ops/pool/pool.h"
#include "ops/signal/signal.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanRegions : public VulkanTest {};

Tolerance near(DType dtype) { return dtype == DType::kF16 ? Tolerance{4e-3, 4e-3} : Tolerance{2e-5, 2e-5}; }

Tensor reals(DType dtype, const Shape& shape, const std::vector<double>& v) { return tensor(dtype, shape, v); }

TEST_F(VulkanRegions, Align) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool max : {false, true})
      for (bool fp16 : {false, true})
        for (int64_t ratio : {0, 2}) {
          RoiAttrs a;
          a.max = max;
          a.half_pixel = fp16;
          a.height = 3;
          a.width = 2;
          a.sampling_ratio = ratio;
          a.scale = 0.5;
          // Inside, across the border, far away, turned inside out.
          const Tensor boxes =
              reals(dtype, {5, 4}, {1, 2, 9, 8, -4, -6, 7, 30, 60, 70, 90, 90, 8, 8, 1, 1, 0, 0, 40, 2});
          for (DType index : {DType::kI64, DType::kI32})
            check_on_gpu(
                {.label = Cat(max, fp16, ratio),
                 .op = Op::kRoiPool,
                 .attrs = make_attrs<RoiAttrs>(a),
                 .inputs = {random_tensor(dtype, {2, 3, 7, 9}, -2, 2, 1), boxes, reals(index, {5}, {0, 1, 0, 1, 1})}},
                "roi_pool", near(dtype));
        }
}

TEST_F(VulkanRegions, Pixels) {
  RoiAttrs a;
  a.legacy = true;
  a.height = 2;
  a.width = 3;
  a.scale = 0.5;
  OpCase c{.label = "pixels",
           .op = Op::kRoiPool,
           .attrs = make_attrs<RoiAttrs>(a),
           .inputs = {random_tensor(DType::kF32, {2, 3, 7, 9}, -2, 2, 1),
                      reals(DType::kF32, {3, 5}, {0, 1, 2, 9, 8, 1, -5, 3, 40, 50, 1, 30, 30, 50, 50})}};
  check_on_gpu(c, "roi_pool");
  c.inputs[1] = reals(DType::kF32, {1, 5}, {2, 1, 2, 9, 8});
  EXPECT_FALSE(run_on_gpu(c).ok());
}

TEST_F(VulkanRegions, CropAndResize) {
  for (bool nearest : {false, true}) {
    RoiAttrs a;
    a.crop_and_resize = true;
    a.nearest = nearest;
    a.extrapolation = -3;
    a.height = 4;
    a.width = 5;
    check_on_gpu({.label = Cat("crop ", nearest),
                  .op = Op::kRoiPool,
                  .attrs = make_attrs<RoiAttrs>(a),
                  .inputs = {random_tensor(DType::kF32, {2, 3, 7, 9}, -2, 2, 1),
                             reals(DType::kF32, {3, 4}, {0, 0, 1, 1, 0.9, 0.8, 0.1, 0.3, -0.5, 0.2, 0.6, 1.4}),
                             reals(DType::kI32, {3}, {1, 0, 1})}},
                 "roi_pool");
  }
}

TEST_F(VulkanRegions, DeformConv) {
  for (int64_t groups : {1, 2})
    for (int64_t offset_groups : {1, 2})
      for (int parts : {3, 4, 5}) {
        DeformConvAttrs a;
        a.groups = groups;
        a.offset_groups = offset_groups;
        a.strides = {1, 2};
        a.pads = {1, 0, 1, 1};
        a.dilations = {1, 2};
        const int64_t taps = 6;
        const Shape x{2, 4, 7, 9}, filter{10, 4 / groups, 2, 3}, y{2, 10, 8, 3};
        OpCase c{.label = Cat(groups, " ", offset_groups, " ", parts),
                 .op = Op::kDeformConv,
                 .attrs = make_attrs<DeformConvAttrs>(a),
                 .inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, filter, -1, 1, 2),
                            random_tensor(DType::kF32, {2, 2 * offset_groups * taps, y[2], y[3]}, -3, 3, 3)}};
        if (parts > 3) c.inputs.push_back(random_tensor(DType::kF32, {10}, -1, 1, 4));
        if (parts > 4) c.inputs.push_back(random_tensor(DType::kF32, {2, offset_groups * taps, y[2], y[3]}, 0, 1, 5));
        check_on_gpu(c, "deform_conv", {5e-5, 5e-5});
      }
}

TEST_F(VulkanRegions, Unpool) {
  MaxUnpoolAttrs a;
  a.kernel = {2, 2};
  a.strides = {2, 2};
  for (DType dtype : {DType::kF32, DType::kF16})
    for (DType index : {DType::kI64, DType::kI32})
      for (bool larger : {false, true}) {
        // Planes of 4 by 6.
        OpCase c{.label = Cat(to_string(index), " ", larger),
                 .op = Op::kMaxUnpool,
                 .attrs = make_attrs<MaxUnpoolAttrs>(a),
                 .inputs = {random_tensor(dtype, {1, 2, 2, 3}, 1, 2, 1),
                            reals(index, {1, 2, 2, 3}, {1, 2, 5, 12, 20, 23, 24, 27, 34, 36, 38, 46})},
                 .constants = {2}};
        if (larger) c.inputs.push_back(reals(DType::kI64, {4}, {1, 2, 5, 8}));
        check_on_gpu(c, "max_unpool", near(dtype));
        set_int(c.inputs[1], 3, 48);
        EXPECT_FALSE(run_on_gpu(c).ok());
      }
}

TEST_F(VulkanRegions, Fourier) {
  struct Row {
    Shape x;
    int64_t axis, length;
    bool inverse, onesided;
  };
  for (const Row& r :
       {Row{{2, 12, 1}, 1, 0, false, false}, Row{{2, 12, 1}, 1, 0, false, true}, Row{{3, 10, 4, 2}, 1, 0, false, false},
        Row{{3, 10, 4, 2}, 2, 7, true, false}, Row{{2, 10, 2}, 1, 16, false, false}, Row{{2, 7, 2}, 1, 0, true, true},
        Row{{2, 7, 2}, 1, 11, true, true}, Row{{2, 300, 1}, 1, 0, false, true}}) {
    DftAttrs a;
    a.inverse = r.inverse;
    a.onesided = r.onesided;
    a.axis = r.axis;
    OpCase c{.label = Cat(r.x.str(), " ", r.axis, " ", r.length, r.inverse, r.onesided),
             .op = Op::kDft,
             .attrs = make_attrs<DftAttrs>(a),
             .inputs = {random_tensor(DType::kF32, r.x, -1, 1, 1)},
             .constants = {1}};
    if (r.length > 0) c.inputs.push_back(reals(DType::kI64, {}, {static_cast<double>(r.length)}));
    check_on_gpu(c, "dft", {1e-4, 1e-4});
  }
}

}  // namespace
}  // namespace smelt::vulkan
