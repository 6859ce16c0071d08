// Variants that the environment forces: both ways of the choice are tested wherever the tests run.
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tests/support/vulkan_check.h"
#include "tests/support/vulkan_fake_calls.h"
#include "tests/support/vulkan_integer.h"

namespace smelt::vulkan {
namespace {

class VulkanEnvironment : public VulkanTest {};

TEST_F(VulkanEnvironment, Winograd) {
  const Forced on("SMELT_VULKAN_WINOGRAD", "1");
  struct Row {
    Shape x;
    int64_t c_out;
    std::vector<int64_t> pads;
  };
  for (const Row& r : {Row{{2, 7, 6, 8}, 12, {1, 1, 1, 1}}, Row{{1, 9, 8, 5}, 7, {0, 0, 0, 0}},
                       Row{{1, 3, 3, 16}, 16, {1, 0, 1, 2}}, Row{{1, 20, 33, 32}, 64, {1, 1, 1, 1}}})
    for (bool bias : {false, true})
      for (ActKind act : {ActKind::kNone, ActKind::kRelu6}) {
        ConvAttrs a;
        a.layout = Layout::kChannelsLast;
        a.filter = FilterLayout::kOSI;
        a.pads = r.pads;
        a.act.kind = act;
        OpCase c{Cat(r.x.str(), " to ", r.c_out),
                 Op::kConv,
                 make_attrs<ConvAttrs>(a),
                 {random_tensor(DType::kF32, r.x, -1, 1, 1),
                  random_tensor(DType::kF32, {r.c_out, 3, 3, r.x.back()}, -1, 1, 2)},
                 {1, 2}};
        if (bias) c.inputs.push_back(random_tensor(DType::kF32, {r.c_out}, -1, 1, 3));
        check_on_gpu(c, "winograd_f32", {1e-4, 1e-5});
      }
}

TEST_F(VulkanEnvironment, NoWinograd) {
  const Forced off("SMELT_VULKAN_WINOGRAD", "0");
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  auto op = OpRunner(OpCase{
      "plain",
      Op::kConv,
      make_attrs<ConvAttrs>(a),
      {random_tensor(DType::kF32, {1, 20, 33, 64}, -1, 1, 1), random_tensor(DType::kF32, {64, 3, 3, 64}, -1, 1, 2)},
      {1}});
  ASSERT_TRUE(op.device(DeviceStorage::kBuffer).run_all().ok());
  EXPECT_NE(op.kernels().back(), "vulkan:winograd_f32");
}

/// Rows that a workgroup shares, with and without a view of other lanes' values.
TEST_F(VulkanEnvironment, Subgroups) {
  for (const char* way : {"0", "1"})
    for (DType dtype : {DType::kF32, DType::kF16}) {
      const Forced choice("SMELT_VULKAN_SUBGROUPS", way);
      const Tolerance near = dtype == DType::kF16 ? Tolerance{2e-3, 2e-3} : Tolerance{1e-4, 2e-5};
      const Tensor x = random_tensor(dtype, {3, 700}, -2, 2, 1);
      for (Reduction fn : {Reduction::kSum, Reduction::kMax, Reduction::kMin, Reduction::kLogSumExp, Reduction::kVar}) {
        ReduceAttrs a;
        a.fn = fn;
        check_on_gpu({Cat(to_string(fn), " ", way),
                      Op::kReduce,
                      make_attrs<ReduceAttrs>(a),
                      {x, tensor(DType::kI64, Shape{1}, {1})},
                      {1}},
                     "reduce", near);
      }
      check_on_gpu({"softmax", Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}}, "softmax_float", near);
      check_on_gpu({"norm",
                    Op::kLayerNorm,
                    make_attrs<LayerNormAttrs>(),
                    {x, random_tensor(dtype, {700}, -1, 1, 2), random_tensor(dtype, {700}, -1, 1, 3)},
                    {1, 2}},
                   "layer_norm", near);
    }
}

/// What is core in later versions is had by extensions.
TEST_F(VulkanEnvironment, Extensions) {
  const DeviceInfo now = devices()->front();
  const Forced way("SMELT_VULKAN_PLAIN", "2");
  const DeviceInfo old = devices()->front();
  EXPECT_EQ(old.api_version.substr(0, 3), "1.1");
  EXPECT_FALSE(old.timeline_semaphores);
  // A driver need not list what its version includes.
  if (!old.storage8 || !old.int8_dot_product) GTEST_SKIP() << "the driver has no such extensions";
  EXPECT_EQ(old.fp16, now.fp16);
  EXPECT_EQ(old.int8, now.int8);
  EXPECT_EQ(old.fast_int8_dot_product, now.fast_int8_dot_product);
}

/// Descriptors lie in sets or in the command buffer.
TEST_F(VulkanEnvironment, DevicesWithoutExtensions) {
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  OpCase c;
  c.label = "convolution";
  c.op = Op::kConv;
  c.attrs = make_attrs<ConvAttrs>(a);
  c.inputs = {random_tensor(DType::kF32, {1, 9, 8, 8}, -1, 1, 1), random_tensor(DType::kF32, {12, 3, 3, 8}, -1, 1, 2),
              random_tensor(DType::kF32, {12}, -1, 1, 3)};
  c.constants = {1, 2};
  c.outputs[0].dtype = DType::kF32;
  StoragePreference textures;
  textures.all = DeviceStorage::kTexture;
  for (const char* core_only : {"1", "0"}) {
    const Forced way("SMELT_VULKAN_PLAIN", core_only);
    const auto found = devices();
    ASSERT_TRUE(found.ok());
    const bool sets = !found->front().push_descriptors;
    EXPECT_TRUE(sets || *core_only == '0');
    const FakeCall<&vkAllocateDescriptorSets> allocated;
    check_on_gpu(c, "conv_packed_f32|conv_float");
    check_on_gpu(c, "conv_texture", 1e-4, textures);
    EXPECT_EQ(allocated.count() > 0, sets);
  }
}

}  // namespace
}  // namespace smelt::vulkan
