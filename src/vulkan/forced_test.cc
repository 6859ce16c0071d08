// Variants that the environment forces: both ways of the choice are tested wherever the tests run.
#include "cpu/testing.h"
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "vulkan/check_integer.h"
#include "vulkan/check_test.h"
#include "vulkan/fake_calls.h"

namespace smelt::vulkan {
namespace {

using testing::random_tensor;

class VulkanForced : public VulkanTest {};

TEST_F(VulkanForced, Winograd) {
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
                 {false, true, true}};
        if (bias) c.inputs.push_back(random_tensor(DType::kF32, {r.c_out}, -1, 1, 3));
        check_case(c, "vulkan:winograd_f32", {1e-4, 1e-5});
      }
}

TEST_F(VulkanForced, NoWinograd) {
  const Forced off("SMELT_VULKAN_WINOGRAD", "0");
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  auto op = runner_of(OpCase{
      "plain",
      Op::kConv,
      make_attrs<ConvAttrs>(a),
      {random_tensor(DType::kF32, {1, 20, 33, 64}, -1, 1, 1), random_tensor(DType::kF32, {64, 3, 3, 64}, -1, 1, 2)},
      {false, true}});
  ASSERT_TRUE(op.device(DeviceStorage::kBuffer).run_all().ok());
  EXPECT_NE(op.kernels().back(), "vulkan:winograd_f32");
}

/// Rows that a workgroup shares, with and without a view of other lanes' values.
TEST_F(VulkanForced, Subgroups) {
  for (const char* way : {"0", "1"})
    for (DType dtype : {DType::kF32, DType::kF16}) {
      const Forced choice("SMELT_VULKAN_SUBGROUPS", way);
      const Near near = dtype == DType::kF16 ? Near{2e-3, 2e-3} : Near{1e-4, 2e-5};
      const Tensor x = random_tensor(dtype, {3, 700}, -2, 2, 1);
      for (Reduction fn : {Reduction::kSum, Reduction::kMax, Reduction::kMin, Reduction::kLogSumExp, Reduction::kVar}) {
        ReduceAttrs a;
        a.fn = fn;
        check_case({Cat(to_string(fn), " ", way),
                    Op::kReduce,
                    make_attrs<ReduceAttrs>(a),
                    {x, test::tensor(DType::kI64, Shape{1}, {1})},
                    {false, true}},
                   "vulkan:reduce", near);
      }
      check_case({"softmax", Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}}, "vulkan:softmax_real", near);
      check_case({"norm",
                  Op::kLayerNorm,
                  make_attrs<LayerNormAttrs>(),
                  {x, random_tensor(dtype, {700}, -1, 1, 2), random_tensor(dtype, {700}, -1, 1, 3)},
                  {false, true, true}},
                 "vulkan:layer_norm", near);
    }
}

/// Four products an instruction, or one.
TEST_F(VulkanForced, DotProducts) {
  const auto found = devices();
  if (!found->front().int8_dot_product) GTEST_SKIP() << "the device has no dot products of 8-bit values";
  const Forced on("SMELT_VULKAN_DOT", "1");
  struct Row {
    Layout layout;
    int64_t c_in, c_out, groups;
    DType x, w;
    int32_t x_zero, w_zero;
  };
  for (const Row& r : {Row{Layout::kChannelsLast, 8, 20, 1, DType::kI8, DType::kI8, 5, 0},
                       Row{Layout::kChannelsLast, 24, 12, 2, DType::kU8, DType::kI8, 120, 0},
                       Row{Layout::kChannelsLast, 13, 9, 1, DType::kU8, DType::kU8, 3, 131},
                       Row{Layout::kChannelsLast, 12, 8, 2, DType::kI8, DType::kI8, -128, 7},
                       Row{Layout::kChannelsFirst, 10, 16, 1, DType::kI8, DType::kI8, -3, 0},
                       Row{Layout::kChannelsFirst, 8, 33, 1, DType::kU8, DType::kU8, 255, 1}})
    for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kFixedSingle}) {
      const auto stored = [](DType t, const Shape& s, uint32_t seed, double scale, int32_t zero) {
        Tensor v = random_tensor(t, s, t == DType::kI8 ? -128 : 0, t == DType::kI8 ? 127 : 255, seed);
        v.set_quant(testing::per_tensor(static_cast<float>(scale), zero));
        return v;
      };
      ConvAttrs a;
      a.layout = r.layout;
      a.filter = r.layout == Layout::kChannelsLast ? FilterLayout::kOSI : FilterLayout::kOIS;
      a.pads = {1, 1, 1, 0};
      a.strides = {1, 2};
      a.groups = r.groups;
      a.rounding = rounding;
      const bool last = r.layout == Layout::kChannelsLast;
      const int64_t i = r.c_in / r.groups;
      testing::KernelCase c;
      c.label = Cat(to_string(r.layout), " ", r.c_in, " to ", r.c_out, " ", to_string(rounding));
      c.op = Op::kConv;
      c.attrs = make_attrs<ConvAttrs>(a);
      c.inputs = {stored(r.x, last ? Shape{2, 6, 9, r.c_in} : Shape{2, r.c_in, 6, 9}, 1, 0.02, r.x_zero),
                  stored(r.w, last ? Shape{r.c_out, 3, 3, i} : Shape{r.c_out, i, 3, 3}, 2, 0.004, r.w_zero),
                  random_tensor(DType::kI32, {r.c_out}, -5000, 5000, 3)};
      c.output.dtype = r.x;
      c.output.quant = testing::per_tensor(0.2f, r.x == DType::kI8 ? -7 : 99);
      check_on_gpu(c, "conv_dot");
      MatMulAttrs m;
      m.rounding = rounding;
      testing::KernelCase product;
      product.label = Cat("product of ", r.c_in, " ", to_string(rounding));
      product.op = Op::kMatMul;
      product.attrs = make_attrs<MatMulAttrs>(m);
      product.inputs = {stored(r.x, {11, r.c_in}, 4, 0.02, r.x_zero),
                        stored(r.w, {r.c_in, r.c_out}, 5, 0.004, r.w_zero)};
      product.output = c.output;
      check_on_gpu(product, "matmul_dot");
    }
}

TEST_F(VulkanForced, SumsOfDotProducts) {
  if (!devices()->front().int8_dot_product) GTEST_SKIP() << "the device has no dot products of 8-bit values";
  const Forced on("SMELT_VULKAN_DOT", "1");
  for (DType x : {DType::kI8, DType::kU8})
    for (DType w : {DType::kI8, DType::kU8})
      for (int zeros : {0, 1, 2})
        for (int64_t groups : {1, 2}) {
          OpCase c = conv_integer_case(x, w, zeros, groups, 10);
          check_case(c, "vulkan:conv_sums_dot");
          c.op = Op::kMatMulInteger;
          c.attrs = make_attrs<MatMulAttrs>();
          c.inputs[0] = any_bytes(x, {11, 4 * groups + 2}, 5);
          c.inputs[1] = any_bytes(w, {4 * groups + 2, 6}, 6);
          check_case(c, "vulkan:matmul_sums_dot");
        }
}

/// What is core in later versions is had by extensions.
TEST_F(VulkanForced, Extensions) {
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
TEST_F(VulkanForced, PlainDevices) {
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  testing::KernelCase c;
  c.label = "convolution";
  c.op = Op::kConv;
  c.attrs = make_attrs<ConvAttrs>(a);
  c.inputs = {random_tensor(DType::kF32, {1, 9, 8, 8}, -1, 1, 1), random_tensor(DType::kF32, {12, 3, 3, 8}, -1, 1, 2),
              random_tensor(DType::kF32, {12}, -1, 1, 3)};
  c.output.dtype = DType::kF32;
  StorageWish textures;
  textures.all = DeviceStorage::kTexture;
  for (const char* plain : {"1", "0"}) {
    const Forced way("SMELT_VULKAN_PLAIN", plain);
    const auto found = devices();
    ASSERT_TRUE(found.ok());
    const bool sets = !found->front().push_descriptors;
    EXPECT_TRUE(sets || *plain == '0');
    const FakeCall<&vkAllocateDescriptorSets> allocated;
    check_on_gpu(c, "conv_packed_f32|conv_real");
    check_on_gpu(c, "conv_texture", 1e-4, textures);
    EXPECT_EQ(allocated.count() > 0, sets);
  }
}

}  // namespace
}  // namespace smelt::vulkan
