// Cooperative matrices: their shaders as devices take them, and real products. Those of 8-bit values are in
// dot_test.cc.
#include "backends/vulkan/device/cooperative_matrix.h"

#include <algorithm>
#include <map>

#include "backends/vulkan/device/pipelines.h"
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

constexpr uint32_t kTypeMatrix = 4456, kMultiplyAdd = 4459, kConstant = 43, kCapability = 17;

/// Instructions of a module, by their words.
std::vector<std::span<const uint32_t>> instructions(std::span<const uint32_t> module) {
  std::vector<std::span<const uint32_t>> out;
  for (size_t at = 5; at < module.size(); at += module[at] >> 16) {
    if (module[at] >> 16 == 0 || (module[at] >> 16) > module.size() - at) {
      ADD_FAILURE() << "an instruction of " << (module[at] >> 16) << " words at word " << at;
      break;
    }
    out.push_back(module.subspan(at, module[at] >> 16));
  }
  return out;
}

TEST(VulkanCooperativeMatrixModules, AreOfTheExtensionThatDevicesHave) {
  int found = 0;
  for (const Shader& s : all_shaders()) {
    const auto module = to_khr_cooperative_matrix(s.words());
    ASSERT_EQ(module.empty(), !uses_cooperative_matrix(s.words())) << s.name;
    if (module.empty()) continue;
    SCOPED_TRACE(s.name);
    ++found;
    std::map<uint32_t, uint32_t> uses, constants, types;
    size_t before = instructions(s.words()).size(), after = 0, products = 0;
    bool capable = false;
    for (const auto i : instructions(module)) {
      ++after;
      const uint32_t code = i[0] & 0xffff;
      ASSERT_LT(code, 5357u) << "an operation of SPV_NV_cooperative_matrix";
      capable = capable || (code == kCapability && i[1] == 6022);
      if (code == kConstant) constants[i[2]] = i[3];
      if (code == kTypeMatrix) uses[i[1]] = constants.at(i[6]);
      if (i.size() > 2 && uses.count(i[1])) types[i[2]] = i[1];
      if (code != kMultiplyAdd) continue;
      ++products;
      for (uint32_t use = 0; use < 3; ++use) EXPECT_EQ(uses.at(types.at(i[3 + use])), use);
      EXPECT_EQ(uses.at(i[1]), 2u);
    }
    EXPECT_TRUE(capable);
    EXPECT_EQ(after, before + 3) << "three constants come with it";
    EXPECT_EQ(uses.size(), 3u);
    EXPECT_GE(products, 1u);
  }
  EXPECT_GE(found, 7);
}

class VulkanCooperativeMatrix : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (!IsSkipped() && !devices()->front().half_matrices)
      GTEST_SKIP() << "the device has no cooperative matrices of float16";
  }
  const Forced on_{"SMELT_VULKAN_MATRIX", "1"};
};

constexpr StoragePreference kFp16{{}, DeviceStorage::kBuffer, true};
constexpr double kTolerance = 1e-2;

TEST_F(VulkanCooperativeMatrix, Convolutions) {
  struct Row {
    Layout layout;
    int64_t c_in, c_out, groups;
  };
  for (DType dtype : {DType::kF32, DType::kF16})
    for (const Row& r : {Row{Layout::kChannelsLast, 8, 20, 1}, Row{Layout::kChannelsLast, 13, 70, 1},
                         Row{Layout::kChannelsLast, 24, 12, 2}, Row{Layout::kChannelsFirst, 10, 65, 1},
                         Row{Layout::kChannelsFirst, 36, 8, 2}})
      for (bool bias : {false, true}) {
        const bool last = r.layout == Layout::kChannelsLast;
        const int64_t i = r.c_in / r.groups;
        ConvAttrs a;
        a.layout = r.layout;
        a.filter = last ? FilterLayout::kOSI : FilterLayout::kOIS;
        a.pads = {1, 1, 1, 0};
        a.strides = {1, 2};
        a.groups = r.groups;
        if (bias) a.act = {ActKind::kRelu};
        OpCase c;
        c.label = Cat(to_string(dtype), " ", to_string(r.layout), " ", r.c_in, " to ", r.c_out, " in ", r.groups);
        c.op = Op::kConv;
        c.attrs = make_attrs<ConvAttrs>(a);
        c.inputs = {random_tensor(dtype, last ? Shape{2, 13, 12, r.c_in} : Shape{2, r.c_in, 13, 12}, -1, 1, 1),
                    random_tensor(dtype, last ? Shape{r.c_out, 3, 3, i} : Shape{r.c_out, i, 3, 3}, -0.2, 0.2, 2)};
        c.constants = {1, 2};
        if (bias) c.inputs.push_back(random_tensor(dtype, {r.c_out}, -1, 1, 3));
        c.outputs[0].dtype = dtype;
        check_on_gpu(c, "conv_matrix", kTolerance, kFp16);
      }
}

TEST_F(VulkanCooperativeMatrix, Rows) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (const auto& [rows, k, n] : {std::array<int64_t, 3>{1, 64, 64}, {70, 130, 66}, {33, 7, 5}})
      for (bool transposed : {false, true}) {
        MatMulAttrs a;
        a.transpose_b = transposed;
        OpCase c;
        c.label = Cat(to_string(dtype), " ", rows, " x ", k, " x ", n);
        c.op = Op::kMatMul;
        c.attrs = make_attrs<MatMulAttrs>(a);
        c.inputs = {random_tensor(dtype, {rows, k}, -1, 1, 1),
                    random_tensor(dtype, transposed ? Shape{n, k} : Shape{k, n}, -0.3, 0.3, 2)};
        c.constants = {1};
        c.outputs[0].dtype = dtype;
        check_on_gpu(c, "matmul_matrix", kTolerance, kFp16);
      }
}

/// Integer weights of a float product are reals, too.
TEST_F(VulkanCooperativeMatrix, QuantizedWeights) {
  Tensor w = random_tensor(DType::kI8, {40, 24}, -127, 127, 2);
  w.set_quant(per_tensor(0.002f, 3));
  OpCase c;
  c.label = "int8 weights";
  c.op = Op::kMatMul;
  c.attrs = make_attrs<MatMulAttrs>();
  c.inputs = {random_tensor(DType::kF32, {9, 40}, -1, 1, 1), w};
  c.constants = {1};
  check_on_gpu(c, "matmul_matrix", kTolerance, kFp16);
}

}  // namespace
}  // namespace smelt::vulkan
