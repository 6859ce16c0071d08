// SessionOptions::fp16: products in float16, weights and images stored so.
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "ops/signal/signal.h"
#include "runtime/model_access.h"
#include "tests/support/module.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

constexpr double kTolerance = 1e-2;

class VulkanFp16 : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (!IsSkipped() && !devices()->front().fp16) GTEST_SKIP() << "the device has no 16-bit arithmetic";
  }
};

constexpr StoragePreference kBuffers{{}, DeviceStorage::kBuffer, true};

OpCase product(DType dtype, const Tensor& a, const Tensor& b, std::vector<size_t> constants) {
  OpCase c;
  c.label = Cat("product ", a.shape().str(), " ", b.shape().str());
  c.op = Op::kMatMul;
  c.attrs = make_attrs<MatMulAttrs>();
  c.inputs = {a, b};
  c.constants = std::move(constants);
  c.outputs[0].dtype = dtype;
  return c;
}

template <class Attrs>
OpCase convolution(Op op, DType dtype, const Shape& x, const Shape& filter, Layout layout, FilterLayout order,
                   int64_t groups = 1) {
  Attrs a;
  a.layout = layout;
  a.filter = order;
  a.groups = groups;
  OpCase c;
  c.label = Cat(x.str(), " by ", filter.str());
  c.op = op;
  c.attrs = make_attrs<Attrs>(a);
  c.inputs = {random_tensor(dtype, x, -1, 1, 3), random_tensor(dtype, filter, -1, 1, 4)};
  c.constants = {1};
  c.outputs[0].dtype = dtype;
  return c;
}

TEST_F(VulkanFp16, Products) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    // Few columns: the rows go along the lanes.
    for (int64_t columns : {20, 3}) {
      const Tensor a = random_tensor(dtype, {30, 40}, -1, 1, 1), b = random_tensor(dtype, {40, columns}, -1, 1, 2);
      check_on_gpu(product(dtype, a, b, {}), "matmul_float", kTolerance, kBuffers);
      check_on_gpu(product(dtype, a, b, {1}), "matmul_float", kTolerance, kBuffers);
      check_on_gpu(product(dtype, a, b, {0}), "matmul_float", kTolerance, kBuffers);
    }
  }
}

TEST_F(VulkanFp16, Convolutions) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    check_on_gpu(convolution<ConvAttrs>(Op::kConv, dtype, {1, 9, 8, 6}, {12, 3, 3, 6}, Layout::kChannelsLast,
                                        FilterLayout::kOSI),
                 "conv_float", kTolerance, kBuffers);
    check_on_gpu(convolution<ConvTransposeAttrs>(Op::kConvTranspose, dtype, {1, 6, 9, 8}, {6, 12, 3, 3},
                                                 Layout::kChannelsFirst, FilterLayout::kIOS),
                 "conv_transpose_float", kTolerance, kBuffers);
  }
}

/// How far float16 is off.
double rounding(const OpCase& c) {
  const Tensor exact = OpRunner(c).backend(BackendKind::kReference).run();
  const Tensor rounded = OpRunner(c).device(DeviceStorage::kBuffer, {}, true).run();
  double off = 0;
  for (int64_t i = 0; i < exact.elements(); ++i)
    off = std::max(off, std::abs(get_double(exact, i) - get_double(rounded, i)));
  return off;
}

/// The rounding of products and weights shows, or they would not have been in float16.
TEST_F(VulkanFp16, Rounds) {
  const Tensor a = random_tensor(DType::kF32, {9, 64}, -1, 1, 1), b = random_tensor(DType::kF32, {64, 20}, -1, 1, 2);
  EXPECT_GT(rounding(product(DType::kF32, a, b, {1})), 1e-5);
}

/// Products that are parts of other kernels; of too few columns for the kernel of software devices.
TEST_F(VulkanFp16, Parts) {
  const Forced no_dot_product("SMELT_VULKAN_DOT", "0");
  Tensor b = random_tensor(DType::kI8, {40, 3}, -127, 127, 2);
  b.set_quant(per_tensor(0.01f, 0));
  OpCase rows{"rows",
              Op::kMatMul,
              make_attrs<MatMulAttrs>(),
              {random_tensor(DType::kI8, {6, 40}, -128, 127, 1), b, Tensor(),
               random_tensor(DType::kF32, {6, 1}, 0.004, 0.008, 4), random_tensor(DType::kI8, {6, 1}, -9, 9, 5)},
              {1, 2}};
  MatMulAttrs rounded;
  rounded.dynamic_quant = true;
  const OpCase dynamic_quant{
      "hybrid", Op::kMatMul, make_attrs<MatMulAttrs>(rounded), {random_tensor(DType::kF32, {6, 40}, -1, 1, 1), b}, {1}};
  EinsumAttrs sums;
  sums.equation = "ij,kj->ik";
  const OpCase einsum{"einsum",
                      Op::kEinsum,
                      make_attrs<EinsumAttrs>(sums),
                      {random_tensor(DType::kF32, {6, 40}, -1, 1, 1), random_tensor(DType::kF32, {9, 40}, -1, 1, 2)}};
  for (const auto& [c, kernel] : {std::pair{rows, "matmul_float"}, std::pair{dynamic_quant, "matmul_dynamic_quant"},
                                  std::pair{einsum, "matmul_float"}}) {
    check_on_gpu(c, kernel, {3 * kTolerance, kTolerance}, kBuffers);
    EXPECT_GT(rounding(c), 1e-5);
  }
  DftAttrs waves;
  waves.axis = 1;
  OpCase dft{"no product of the model's", Op::kDft, make_attrs<DftAttrs>(waves), {}};
  dft.inputs = {random_tensor(DType::kF32, {2, 60, 2}, -1, 1, 1)};
  check_on_gpu(OpRunner(dft), "dft", {1e-4, 1e-5}, kBuffers);
}

TEST_F(VulkanFp16, QuantizedWeights) {
  Tensor b = random_tensor(DType::kI8, {40, 20}, -127, 127, 2);
  b.set_quant(per_tensor(0.01f, 0));
  OpCase c = product(DType::kF32, random_tensor(DType::kF32, {9, 40}, -1, 1, 1), b, {1});
  check_on_gpu(c, "matmul_float|matmul_packed_f32", kTolerance, kBuffers);
  c = convolution<ConvAttrs>(Op::kConv, DType::kF32, {1, 9, 8, 8}, {12, 3, 3, 4}, Layout::kChannelsLast,
                             FilterLayout::kOSI, 2);
  c.inputs[1] = random_tensor(DType::kI8, {12, 3, 3, 4}, -127, 127, 2);
  c.inputs[1].set_quant(per_tensor(0.01f, 0));
  check_on_gpu(c, "conv_float", kTolerance, kBuffers);
  check_on_gpu(c, "conv_texture", kTolerance, {{}, DeviceStorage::kTexture, true});
}

TEST_F(VulkanFp16, Textures) {
  for (Storage storage : {Storage::kTexture3D, Storage::kTexture2D})
    for (DType dtype : {DType::kF32, DType::kF16}) {
      StoragePreference preference{{storage, Packing::kChannels}, DeviceStorage::kTexture, true};
      for (int64_t groups : {1, 2, 3, 12})
        check_on_gpu(convolution<ConvAttrs>(Op::kConv, dtype, {2, 12, 8, 7}, {12, 12 / groups, 3, 3},
                                            Layout::kChannelsFirst, FilterLayout::kOIS, groups),
                     "conv_texture", kTolerance, preference);
      check_on_gpu(convolution<ConvTransposeAttrs>(Op::kConvTranspose, dtype, {1, 6, 9, 8}, {6, 12, 3, 3},
                                                   Layout::kChannelsFirst, FilterLayout::kIOS),
                   "conv_transpose_texture", kTolerance, preference);
      preference.result.packing = Packing::kWidth;
      const Tensor a = random_tensor(dtype, {2, 9, 40}, -1, 1, 1), b = random_tensor(dtype, {40, 21}, -1, 1, 2);
      check_on_gpu(product(dtype, a, b, {1}), "matmul_constant_texture", kTolerance, preference);
      check_on_gpu(product(dtype, a, b, {}), "matmul_texture", kTolerance, preference);
    }
}

/// Where it can't be had, a session says so.
TEST(Fp16, Refused) {
  auto module = test::module_of_one_graph();
  for (const BackendKind& backend : {BackendKind::kCpu, BackendKind::kReference}) {
    const auto session = Session::create(ModelAccess::make(module), {.backend = backend, .fp16 = true});
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.error().code(), ErrorCode::kInvalidInput);
  }
  SKIP_WITHOUT_GPU();
  const Forced core_only("SMELT_VULKAN_PLAIN", "1");
  // A device that others hold open stays as they opened it.
  if (device_info(**open_device(-1)).fp16) GTEST_SKIP() << "the device is open";
  const auto session = Session::create(ModelAccess::make(module), {.backend = BackendKind::kVulkan, .fp16 = true});
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code(), ErrorCode::kDevice);
  EXPECT_NE(session.error().message().find("shaderFloat16"), std::string::npos) << session.error().message();
}

}  // namespace
}  // namespace smelt::vulkan
