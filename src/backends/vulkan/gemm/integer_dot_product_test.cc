// Products of 8-bit values and constants: every way against the reference.
#include <string_view>

#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "tests/support/vulkan_check.h"
#include "tests/support/vulkan_integer.h"

namespace smelt::vulkan {
namespace {

/// The ways to multiply 8-bit values by constants: four products an instruction, or cooperative matrices.
class VulkanDotProduct : public VulkanTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped()) return;
    const DeviceInfo device = devices()->front();
    const bool matrices = GetParam() == kMatrix;
    if (matrices ? !device.int8_matrices : !device.int8_dot_product)
      GTEST_SKIP() << "the device has no " << (matrices ? "cooperative matrices" : "dot products") << " of int8";
  }
  static constexpr std::string_view kMatrix = "SMELT_VULKAN_MATRIX";
  const Forced on_{GetParam(), "1"};
};
INSTANTIATE_TEST_SUITE_P(Ways, VulkanDotProduct, ::testing::Values("SMELT_VULKAN_DOT", "SMELT_VULKAN_MATRIX"));

TEST_P(VulkanDotProduct, Requantized) {
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
                       Row{Layout::kChannelsFirst, 8, 33, 1, DType::kU8, DType::kU8, 255, 1},
                       Row{Layout::kChannelsLast, 40, 70, 1, DType::kU8, DType::kI8, 17, 0},
                       Row{Layout::kChannelsFirst, 9, 130, 1, DType::kI8, DType::kI8, 4, 0}})
    for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kDoubleHalfAway}) {
      const auto quantized = [](DType t, const Shape& s, uint32_t seed, double scale, int32_t zero) {
        Tensor v = random_tensor(t, s, t == DType::kI8 ? -128 : 0, t == DType::kI8 ? 127 : 255, seed);
        v.set_quant(per_tensor(static_cast<float>(scale), zero));
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
      OpCase c;
      c.label = Cat(to_string(r.layout), " ", r.c_in, " to ", r.c_out, " ", to_string(rounding));
      c.op = Op::kConv;
      c.attrs = make_attrs<ConvAttrs>(a);
      c.inputs = {quantized(r.x, last ? Shape{2, 13, 12, r.c_in} : Shape{2, r.c_in, 13, 12}, 1, 0.02, r.x_zero),
                  quantized(r.w, last ? Shape{r.c_out, 3, 3, i} : Shape{r.c_out, i, 3, 3}, 2, 0.004, r.w_zero),
                  random_tensor(DType::kI32, {r.c_out}, -5000, 5000, 3)};
      c.constants = {1, 2};
      c.outputs[0].dtype = r.x;
      c.outputs[0].quant = per_tensor(0.2f, r.x == DType::kI8 ? -7 : 99);
      check_on_gpu(c, "conv_i8_dot_product");
      MatMulAttrs m;
      m.rounding = rounding;
      OpCase product;
      product.label = Cat("product of ", r.c_in, " ", to_string(rounding));
      product.op = Op::kMatMul;
      product.attrs = make_attrs<MatMulAttrs>(m);
      product.inputs = {quantized(r.x, {11, r.c_in}, 4, 0.02, r.x_zero),
                        quantized(r.w, {r.c_in, r.c_out}, 5, 0.004, r.w_zero)};
      product.constants = {1};
      product.outputs[0] = c.outputs[0];
      check_on_gpu(product, "matmul_i8_dot_product");
    }
}

TEST_P(VulkanDotProduct, Sums) {
  for (DType x : {DType::kI8, DType::kU8})
    for (DType w : {DType::kI8, DType::kU8})
      for (int zeros : {0, 1, 2})
        for (int64_t groups : {1, 2}) {
          OpCase c = conv_integer_case(x, w, zeros, groups, 10);
          check_on_gpu(c, "conv_integer_dot_product");
          c.op = Op::kMatMulInteger;
          c.attrs = make_attrs<MatMulAttrs>();
          c.inputs[0] = any_bytes(x, {11, 4 * groups + 2}, 5);
          c.inputs[1] = any_bytes(w, {4 * groups + 2, 6}, 6);
          check_on_gpu(c, "matmul_integer_dot_product");
        }
}

/// Images that are quantized as they come: channels in fours and not, groups, either layout.
TEST_P(VulkanDotProduct, DynamicQuantConv) {
  struct Row {
    Layout layout;
    int64_t c_in, c_out, groups;
  };
  for (const Row& r : {Row{Layout::kChannelsLast, 8, 20, 1}, Row{Layout::kChannelsLast, 13, 9, 1},
                       Row{Layout::kChannelsLast, 24, 12, 2}, Row{Layout::kChannelsFirst, 8, 5, 1}})
    for (bool asymmetric : {false, true}) {
      const bool last = r.layout == Layout::kChannelsLast;
      const int64_t i = r.c_in / r.groups;
      ConvAttrs a;
      a.dynamic_quant = true;
      a.asymmetric_inputs = asymmetric;
      a.layout = r.layout;
      a.filter = last ? FilterLayout::kOSI : FilterLayout::kOIS;
      a.pads = {1, 1, 1, 0};
      a.strides = {1, 2};
      a.groups = r.groups;
      if (asymmetric) a.act = {ActKind::kTanh};
      Tensor filter = random_tensor(DType::kI8, last ? Shape{r.c_out, 3, 3, i} : Shape{r.c_out, i, 3, 3}, -127, 127, 2);
      std::vector<float> scales;
      for (int64_t o = 0; o < r.c_out; ++o) scales.push_back(0.001f * static_cast<float>(1 + o % 5));
      filter.set_quant(asymmetric ? per_tensor(0.002f, 0) : per_axis(scales, 0));
      OpCase c{Cat(to_string(r.layout), " ", r.c_in, " to ", r.c_out, " in ", r.groups),
               Op::kConv,
               make_attrs<ConvAttrs>(a),
               {random_tensor(DType::kF32, last ? Shape{2, 6, 9, r.c_in} : Shape{2, r.c_in, 6, 9}, -2, 3, 1), filter},
               {1, 2}};
      if (asymmetric) c.inputs.push_back(random_tensor(DType::kF32, {r.c_out}, -1, 1, 3));
      check_on_gpu(c, "conv_dynamic_quant_dot_product", {2e-4, 1e-5});
    }
}

}  // namespace
}  // namespace smelt::vulkan
