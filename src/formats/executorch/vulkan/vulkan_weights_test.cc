// Operators of Vulkan graphs on packed weights, and those of training steps.
#include <gtest/gtest.h>

#include "support/vk_blob.h"

namespace smelt::executorch {
namespace {

/// Two rows of four weights, the first of each pair in the high half: -7 7 0 -8 and 1 -1 2 -2.
const std::vector<uint8_t> kFourBits{0x1f, 0x80, 0x97, 0xa6};

TEST(VulkanWeights, FourBitsWithAScalePerChannel) {
  VkBlob b;
  const int32_t x = b.input({1, 4}), w = b.constant(VkDataType::UINT8, {2, 2}, kFourBits);
  const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2}, {0.5f, 2}), y = b.output({1, 2});
  b.call("et_vk.linear_qcs4w.default", {x, w, s, y});
  expect_near(run(b, {floats({1, 4}, {1, 2, 3, 4})}), {-12.5, -6});
}

TEST(VulkanWeights, FourBitsInGroups) {
  for (const char* name : {"et_vk.linear_q4gsw.default", "et_vk.q4gsw_linear.default"}) {
    VkBlob b;
    const int32_t x = b.input({1, 4}), w = b.constant(VkDataType::UINT8, {2, 2}, kFourBits);
    const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2, 2}, {0.5f, 2, 1, 0.25f}), y = b.output({1, 2});
    b.call(name, {x, w, s, b.integer(2), b.null(), y});
    expect_near(run(b, {floats({1, 4}, {1, 2, 3, 4})}), {-27.5, 2.5});
  }
}

TEST(VulkanWeights, GradientThroughFourBits) {
  VkBlob b;
  const int32_t d = b.input({2, 2}), w = b.constant(VkDataType::UINT8, {2, 2}, kFourBits);
  const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2, 2}, {0.5f, 2, 1, 0.25f}), y = b.output({2, 4});
  b.call("et_vk.linear_q4gsw_backward.default", {d, w, s, b.integer(2), y});
  expect_near(run(b, {floats({2, 2}, {1, 2, -1, 0.5f})}), {-0.5, 0.5, -9, 1, -4.5, 4.5, 7.75, 0.25});
}

TEST(VulkanWeights, GemmConvolution) {
  VkBlob b;
  const int32_t x = b.input({1, 1, 2, 3}), w = b.constant<float>(VkDataType::FLOAT32, {1, 1, 1, 2}, {1, -2});
  const int32_t bias = b.constant<float>(VkDataType::FLOAT32, {1}, {10}), y = b.output({1, 1, 2, 2});
  b.call("et_vk.conv2d_gemm.default", {x, w, bias, b.ints({1, 1}), b.ints({0, 0}), b.ints({1, 1}), b.boolean(false),
                                       b.ints({0, 0}), b.integer(1), y});
  expect_near(run(b, {floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})}), {7, 6, 4, 3});
}

TEST(VulkanWeights, EightBitWeightsOfConvolutions) {
  // One output channel; weights are [column, channel], the scales are padded to four.
  const std::vector<int8_t> weights{1, 2, -1, 3};
  const auto geometry = [](VkBlob& b) {
    return Ids{b.ints({1, 2}), b.ints({1, 1}), b.ints({0, 0}), b.ints({1, 1}), b.integer(1)};
  };
  const Tensor image = floats({1, 2, 1, 3}, {1, 2, 3, 0.4f, 0.6f, 5});
  VkBlob real;
  const auto constants = [&](VkBlob& b) {
    return std::pair{b.constant(VkDataType::INT8, {1, 4}, weights),
                     b.constant<float>(VkDataType::FLOAT32, {4}, {0.5f, 0, 0, 0})};
  };
  const auto call = [&](VkBlob& b, const char* name, Ids args, int32_t y) {
    for (int32_t v : geometry(b)) args.push_back(v);
    args.push_back(y);
    b.call(name, args);
  };
  int32_t x = real.input({1, 2, 1, 3});
  auto [w, s] = constants(real);
  call(real, "et_vk.conv2d_q8csw.default", {x, w, s, real.null()}, real.output({1, 1, 1, 2}));
  // 1 + 2 * 0.4 - 2 + 3 * 0.6, then 2 + 2 * 0.6 - 3 + 3 * 5, halved.
  expect_near(run(real, {image}), {0.8, 7.6});

  VkBlob rounded;  // x goes through int8 of scale 1: 1 2 3 and 0 1 5
  x = rounded.input({1, 2, 1, 3});
  std::tie(w, s) = constants(rounded);
  call(rounded, "et_vk.conv2d_q8ta_q8csw.default",
       {x, rounded.real(1), rounded.integer(0), w, rounded.null(), s, rounded.null()}, rounded.output({1, 1, 1, 2}));
  expect_near(run(rounded, {image}), {1, 8});

  VkBlob whole;
  x = whole.input({1, 2, 1, 3}, VkDataType::INT8);
  std::tie(w, s) = constants(whole);
  call(whole, "et_vk.conv2d_q8ta_q8csw_q8to.default",
       {x, whole.real(1), whole.integer(0), w, whole.null(), s, whole.real(0.5), whole.integer(-1), whole.null()},
       whole.output({1, 1, 1, 2}, VkDataType::INT8));
  expect_near(run(whole, {bytes({1, 2, 1, 3}, {1, 2, 3, 0, 1, 5})}), {1, 15});
}

TEST(VulkanWeights, ParametersOfRows) {
  for (bool listed : {false, true}) {
    VkBlob b;
    const int32_t x = b.input({4, 2}), scales = b.output({4}), zeros = b.output({4}, VkDataType::INT8);
    Ids args{x, b.integer(-128), b.integer(127)};
    for (int32_t v : listed ? Ids{b.list({scales, zeros})} : Ids{scales, zeros}) args.push_back(v);
    b.call("etvk.choose_qparams_per_row.default", args);
    const Tensor rows = floats({4, 2}, {0, 255, -510, 0, 0, 0, -1e-9f, 1e-9f});
    expect_near(run(b, {rows}, 0), {1, 2, 0.1, 6.1e-5}, 1e-6);
    expect_near(run(b, {rows}, 1), {-128, 127, 127, 0}, 1);
  }
}

TEST(VulkanTraining, CrossEntropy) {
  VkBlob b;
  const int32_t x = b.input({3, 3}), labels = b.input({3}, VkDataType::INT32);
  b.call("et_vk.fused_ce.default", {x, labels, b.real(2), b.list({b.output({}), b.output({3, 3})})});
  const std::vector<int32_t> rows{1, -1, 2};
  const std::vector<Datum> inputs{floats({3, 3}, {1, 2, 0, 0, 0, 0, 3, 1, 2}),
                                  Tensor::from<int32_t>(DType::kI32, {3}, rows)};
  expect_near(run(b, inputs, 0), {0.9076}, 1e-4);
  expect_near(run(b, inputs, 1), {0.1224, -0.1674, 0.0450, 0, 0, 0, 0.3326, 0.0450, -0.3776}, 1e-4);
}

TEST(VulkanTraining, AdamWKeepsItsState) {
  VkBlob b;
  const int32_t param = b.constant<float>(VkDataType::FLOAT32, {2}, {1, -2});
  const int32_t m = b.constant<float>(VkDataType::FLOAT32, {2}, {0.1f, 0.2f});
  const int32_t v = b.constant<float>(VkDataType::FLOAT32, {2}, {0.3f, 0.4f});
  Ids args{param, m, v, b.input({2})};
  for (double number : {0.1, 0.9, 0.99, 1e-3, 0.01, 0.19, 0.0199}) args.push_back(b.real(number));
  args.push_back(b.list({b.output({2}), b.output({2}), b.output({2})}));
  b.call("et_vk.adamw_step.default", args);
  const Tensor grad = floats({2}, {0.5f, -0.6f});
  expect_near(run(b, {grad}, 0), {0.9800, -2.0121}, 1e-4);
  expect_near(run(b, {grad}, 1), {0.14, 0.12}, 1e-5);
  expect_near(run(b, {grad}, 1, 2), {0.9 * 0.14 + 0.05, 0.9 * 0.12 - 0.06}, 1e-5);
}

TEST(VulkanTraining, GradientOfWeights) {
  VkBlob b;
  const int32_t d = b.input({2, 1, 2}), x = b.input({2, 1, 3});
  b.call("et_vk.linear_dW.default", {d, x, b.output({2, 3})});
  expect_near(run(b, {floats({2, 1, 2}, {0, 1, 2, 3}), floats({2, 1, 3}, {0, 1, 2, 3, 4, 5})}), {6, 8, 10, 9, 13, 17});
}

TEST(VulkanTraining, WeightsBackToFourBits) {
  VkBlob b;
  const int32_t x = b.input({2, 5});
  const int32_t s = b.constant<float>(VkDataType::FLOAT32, {3, 2}, {0.5f, 0, 1, 1, 2, 4});
  b.call("et_vk.q4gsw_requant.default", {x, s, b.integer(2), b.output({2, 3}, VkDataType::UINT8)});
  // A scale of 0 stores zeros; an odd last number stands alone.
  expect_near(run(b, {floats({2, 5}, {0.5f, -3, 1.2f, 9, 2, 1, 1, 2, 3, -20})}), {41, 249, 9, 136, 186, 3});
}

}  // namespace
}  // namespace smelt::executorch
