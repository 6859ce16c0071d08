// Vulkan graphs: every kind of value, the operators that only they have, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/graph.h"
#include "runtime/model_access.h"
#include "support/vk_blob.h"

namespace smelt::executorch {
namespace {

TEST(Vulkan, OperatorsAndPrepack) {
  VkBlob b;
  const int32_t x = b.input({2, 2}), k = b.constant<float>(VkDataType::FLOAT32, {2}, {10, 20});
  const int32_t packed = b.tensor(VkDataType::FLOAT32, {2}), y = b.output({2, 2});
  b.call("et_vk.prepack.default", {k, packed});
  b.call("aten.add.Tensor", {x, packed, b.integer(2), y});
  expect_near(run(b, {floats({2, 2}, {1, 2, 3, 4})}), {21, 42, 23, 44});
}

TEST(Vulkan, ListsOfTensorsAndSeveralOutputs) {
  VkBlob b;
  const int32_t x = b.input({2, 3}), joined = b.tensor(VkDataType::FLOAT32, {4, 3});
  b.call("aten.cat.default", {b.list({x, x}), b.integer(0), joined});
  const int32_t first = b.output({1, 3}), second = b.output({3, 3});
  b.call("aten.split_with_sizes_copy.default", {joined, b.ints({1, 3}), b.integer(0), b.list({first, second})});
  expect_near(run(b, {floats({2, 3}, {1, 2, 3, 4, 5, 6})}, 1), {4, 5, 6, 1, 2, 3, 4, 5, 6});
}

TEST(Vulkan, StorageGoesWithTheValues) {
  for (const bool overridden : {false, true}) {
    VkBlob b;
    const int32_t x = b.input({2, 2});
    b.storage = vkgraph::VkStorageType::TEXTURE_2D;
    b.layout = vkgraph::VkMemoryLayout::TENSOR_HEIGHT_PACKED;
    const int32_t y = b.output({2, 2});
    if (overridden) {
      b.storage_override = vkgraph::VkStorageType::TEXTURE_3D;
      b.layout_override = vkgraph::VkMemoryLayout::TENSOR_CHANNELS_PACKED;
    }
    b.call("aten.relu.default", {x, y});
    const std::vector<std::byte> bytes = b.finish();
    const auto model = Model::load_bytes(bytes, nullptr, "test.vkd");
    ASSERT_TRUE(model.ok()) << model.error().message();
    const Graph& g = module_of(*model).graphs[0];
    const StorageHint in = g.value(g.inputs[0]).storage, out = g.value(g.outputs[0]).storage;
    EXPECT_EQ(in.storage, overridden ? Storage::kTexture3D : Storage::kAny);
    EXPECT_EQ(in.packing, overridden ? Packing::kChannels : Packing::kAny);
    EXPECT_EQ(out.storage, overridden ? Storage::kTexture3D : Storage::kTexture2D);
    EXPECT_EQ(out.packing, overridden ? Packing::kChannels : Packing::kHeight);
  }
}

TEST(Vulkan, SymbolsFollowTheInput) {
  VkBlob b;
  const int32_t x = b.input({12, 4}), n = b.symbol(), twice = b.symbol(), y = b.output({24, 2});
  b.call("sym_size.int", {x, b.integer(0), n});
  b.call("mul", {n, b.integer(2), twice});
  b.call("aten.view_copy.default", {x, b.list({twice, b.integer(2)}), y});
  expect_near(run(b, {floats({1, 4}, {1, 2, 3, 4})}), {1, 2, 3, 4});
}

TEST(Vulkan, StringsDoublesAndNulls) {
  VkBlob b;
  const int32_t x = b.input({3}), g = b.tensor(VkDataType::FLOAT32, {3}), y = b.output({3});
  b.call("aten.gelu.default", {x, b.string("none"), g});
  b.call("aten.clamp.default", {g, b.null(), b.real(0.5), y});
  expect_near(run(b, {floats({3}, {-1, 0, 2})}), {-0.15865525, 0, 0.5});
}

TEST(Vulkan, HalfGraphsOfFloatHostsComputeInFloat) {
  VkBlob b;
  const int32_t x = b.tensor(VkDataType::FLOAT16, {2}, -1, VkDataType::FLOAT32);
  const int32_t k = b.constant<uint16_t>(VkDataType::FLOAT16, {2}, {f32_to_f16(0.5f), f32_to_f16(3)});
  const int32_t y = b.tensor(VkDataType::FLOAT16, {2}, -1, VkDataType::FLOAT32);
  b.inputs = {static_cast<uint32_t>(x)};
  b.outputs = {static_cast<uint32_t>(y)};
  b.call("aten.mul.Tensor", {x, k, y});
  expect_near(run(b, {floats({2}, {1.0001f, 2})}), {0.50005, 6});
}

TEST(Vulkan, ConvolutionWithClamp) {
  VkBlob b;
  const int32_t x = b.input({1, 1, 1, 3}), w = b.constant<float>(VkDataType::FLOAT32, {1, 1, 1, 2}, {1, 2});
  const int32_t y = b.output({1, 1, 1, 2});
  b.call("et_vk.conv_with_clamp.default", {x, w, b.null(), b.ints({1, 1}), b.ints({0, 0}), b.ints({1, 1}),
                                           b.boolean(false), b.ints({0, 0}), b.integer(1), b.real(0), b.real(7), y});
  expect_near(run(b, {floats({1, 1, 1, 3}, {1, 2, 3})}), {5, 7});
}

TEST(Vulkan, RmsNorm) {
  VkBlob b;
  const int32_t x = b.input({1, 2}), w = b.constant<float>(VkDataType::FLOAT32, {2}, {1, 2}), y = b.output({1, 2});
  b.call("et_vk.rms_norm.default", {x, w, b.real(0), y});
  const double rms = std::sqrt((9.0 + 16) / 2);
  expect_near(run(b, {floats({1, 2}, {3, 4})}), {3 / rms, 8 / rms});
}

TEST(Vulkan, RotaryEmbeddingTurnsNeighbours) {
  VkBlob b;
  const int32_t q = b.input({1, 1, 1, 2}), k = b.input({1, 1, 1, 2});
  const int32_t cosine = b.input({1, 1}), sine = b.input({1, 1});
  const int32_t qo = b.output({1, 1, 1, 2}), ko = b.output({1, 1, 1, 2});
  b.call("et_vk.apply_rotary_emb.default", {q, k, cosine, sine, b.list({qo, ko})});
  expect_near(
      run(b,
          {floats({1, 1, 1, 2}, {1, 2}), floats({1, 1, 1, 2}, {3, 4}), floats({1, 1}, {0.6f}), floats({1, 1}, {0.8f})},
          1),
      {3 * 0.6 - 4 * 0.8, 3 * 0.8 + 4 * 0.6});
}

TEST(Vulkan, GridPriors) {
  VkBlob b;
  const int32_t x = b.input({1, 1, 2, 2}), y = b.output({4, 2});
  b.call("et_vk.grid_priors.default", {x, b.integer(8), b.real(0.5), y});
  expect_near(run(b, {floats({1, 1, 2, 2}, {0, 0, 0, 0})}), {4, 4, 12, 4, 4, 12, 12, 12});
}

TEST(Vulkan, FourBitLinear) {
  // Weights [2, 4] in groups of 2: row 0 is -8 7 1 0, row 1 is 2 2 -1 3; scales are [groups, out].
  const std::vector<uint8_t> packed{0xf0, 0x89, 0xaa, 0xb7};
  const std::vector<float> scales{0.5f, 1, 2, 0.25f};
  const std::vector<double> weights{-4, 3.5, 2, 0, 2, 2, -0.25, 0.75};
  const std::vector<float> x{1, -2, 3, 4};
  VkBlob b;
  const int32_t in = b.input({1, 4}), w = b.constant(VkDataType::UINT8, {2, 2}, packed);
  const int32_t s = b.constant(VkDataType::FLOAT32, {2, 2}, scales), y = b.output({1, 2});
  b.call("et_vk.linear_q4gsw.default", {in, w, s, b.integer(2), b.null(), y});
  std::vector<double> want(2, 0);
  for (size_t o = 0; o < 2; ++o)
    for (size_t i = 0; i < 4; ++i) want[o] += weights[o * 4 + i] * x[i];
  expect_near(run(b, {floats({1, 4}, x)}), want);

  VkBlob d;
  const int32_t dx = d.input({1, 4}), dw = d.constant(VkDataType::UINT8, {2, 2}, packed);
  const int32_t ds = d.constant(VkDataType::FLOAT32, {2, 2}, scales);
  const int32_t sums = d.constant<int32_t>(VkDataType::INT32, {2, 2}, {-1, 4, 1, 2});
  const int32_t scale = d.tensor(VkDataType::FLOAT32, {1}), zero = d.tensor(VkDataType::INT8, {1});
  const int32_t dy = d.output({1, 2});
  d.call("torchao.choose_qparams_affine.default",
         {dx, d.string("ASYMMETRIC"), d.ints({1, 4}), d.null(), d.integer(-128), d.integer(127), d.null(), d.null(),
          d.null(), d.boolean(false), d.list({scale, zero})});
  d.call("et_vk.linear_dq8ca_q4gsw.default", {dx, scale, zero, dw, sums, ds, d.integer(2), d.null(), dy});
  expect_near(run(d, {floats({1, 4}, x)}), want, 0.1);
}

TEST(Vulkan, Int8Weights) {
  VkBlob b;
  const int32_t x = b.input({1, 2}), w = b.constant<int8_t>(VkDataType::INT8, {2, 2}, {1, -2, 3, 4});
  const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2}, {0.5f, 2}), y = b.output({1, 2});
  b.call("aten._weight_int8pack_mm.default", {x, w, s, y});
  expect_near(run(b, {floats({1, 2}, {1, 2})}), {-1.5, 22});
}

TEST(Vulkan, AffineBlocks) {
  VkBlob b;
  const int32_t x = b.input({2, 4}, VkDataType::INT8);
  const int32_t scale = b.constant<float>(VkDataType::FLOAT32, {2, 2}, {1, 2, 3, 4});
  const int32_t zero = b.constant<int8_t>(VkDataType::INT8, {2, 2}, {0, 1, 0, -1}), y = b.output({2, 4});
  b.call("torchao.dequantize_affine.default",
         {x, b.ints({1, 2}), scale, zero, b.null(), b.integer(-128), b.integer(127), b.integer(6), y});
  const std::vector<int8_t> stored{1, 2, 3, 4, 5, 6, 7, 8};
  expect_near(run(b, {Tensor::from<int8_t>(DType::kI8, {2, 4}, stored)}), {1, 2, 4, 6, 15, 18, 32, 36});
}

/// Stored int8 of a real number.
double quantized(double v, double scale, double zero) {
  return std::clamp(std::nearbyint(v / scale) + zero, -128.0, 127.0);
}

TEST(Vulkan, EightBitLinear) {
  VkBlob b;
  // Rows of the weights and the scales are padded to multiples of 4.
  const int32_t x = b.input({1, 3}, VkDataType::INT8);
  const int32_t w = b.constant<int8_t>(VkDataType::INT8, {2, 4}, {1, -2, 3, 99, 4, 5, -6, 99});
  const int32_t sums = b.constant<int32_t>(VkDataType::INT32, {4}, {2, 3, 0, 0});
  const int32_t s = b.constant<float>(VkDataType::FLOAT32, {4}, {0.5f, 0.25f, 9, 9});
  const int32_t bias = b.constant<float>(VkDataType::FLOAT32, {4}, {1, -1, 9, 9});
  const int32_t y = b.output({1, 2}, VkDataType::INT8);
  b.call("et_vk.q8ta_linear.default",
         {x, b.real(0.1), b.integer(2), w, sums, s, b.real(0.2), b.integer(-3), bias, b.string("relu"), y});
  const double in[] = {0.8, -0.5, 1.8};  // 10, -3, 20
  const double first = in[0] * 0.5 - in[1] * 1 + in[2] * 1.5 + 1, second = in[0] * 1 + in[1] * 1.25 - in[2] * 1.5 - 1;
  expect_near(run(b, {bytes({1, 3}, {10, -3, 20})}),
              {quantized(std::max(first, 0.0), 0.2, -3), quantized(std::max(second, 0.0), 0.2, -3)});
}

TEST(Vulkan, EightBitConvolutions) {
  const std::vector<int8_t> image{1, 2, 3, 4, 5, 6, 7, 8};  // 2 channels of 1 x 4
  const auto build = [](VkBlob& b, const char* name, const std::vector<uint32_t>& shape, const std::vector<int8_t>& w,
                        int64_t groups, const std::vector<uint32_t>& out, bool transposed) {
    const int32_t x = b.input({1, 2, 1, 4}, VkDataType::INT8), k = b.constant(VkDataType::INT8, shape, w);
    const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2}, {1, 0.5f});
    const int32_t y = b.output(out, VkDataType::INT8);
    Ids args{x,
             b.real(1),
             b.integer(0),
             k,
             b.null(),
             s,
             b.real(1),
             b.integer(1),
             b.null(),
             b.ints({1, 2}),
             b.ints({1, 1}),
             b.ints({0, 0})};
    if (transposed) args.push_back(b.ints({0, 0}));
    for (int32_t v : {b.ints({1, 1}), b.integer(groups), b.string("none"), y}) args.push_back(v);
    b.call(name, args);
  };
  VkBlob convolution, depthwise, transposed;
  build(convolution, "et_vk.q8ta_conv2d.default", {2, 4}, {1, 0, 0, 1, 2, 2, -2, 2}, 1, {1, 2, 1, 3}, false);
  expect_near(run(convolution, {bytes({1, 2, 1, 4}, image)}), {8, 10, 12, 11, 13, 15});
  build(depthwise, "et_vk.q8ta_conv2d_dw.default", {1, 2, 2}, {1, 2, 3, 4}, 2, {1, 2, 1, 3}, false);
  expect_near(run(depthwise, {bytes({1, 2, 1, 4}, image)}), {8, 12, 16, 18, 21, 24});
  // Channel o of the result is the sum of x[i] times w[o, column, i], spread over two columns.
  build(transposed, "et_vk.q8ta_conv2d_transposed.default", {2, 4}, {1, 0, 0, 1, 2, 2, -2, 2}, 1, {1, 2, 1, 5}, true);
  expect_near(run(transposed, {bytes({1, 2, 1, 4}, image)}), {2, 8, 10, 12, 9, 7, 13, 15, 17, 5});
}

TEST(Vulkan, EightBitAddAndRelu) {
  VkBlob b;
  const int32_t x = b.input({2}, VkDataType::INT8), sum = b.tensor(VkDataType::INT8, {2});
  const int32_t y = b.output({2}, VkDataType::INT8);
  b.call("et_vk.q8ta_add.default",
         {x, x, b.real(0.5), b.integer(1), b.real(0.25), b.integer(0), b.real(0.5), b.integer(0), b.real(2), sum});
  b.call("et_vk.q8ta_relu.default", {sum, b.real(0.5), b.integer(0), b.real(1), b.integer(-1), y});
  expect_near(run(b, {bytes({2}, {9, -7})}), {quantized(0.5 * 8 + 2 * 0.25 * 9, 1, -1), -1}, 1);
}

TEST(Vulkan, FourBitEmbedding) {
  for (bool linear : {false, true}) {
    VkBlob b;
    // Rows -8 7 and 1 0, then 2 -1 and 3 -4, written high half first.
    const std::vector<uint8_t> packed{0x0f, 0x98, 0xa7, 0xb4};
    const int32_t w = b.constant(VkDataType::UINT8, {2, 2}, packed);
    const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2, 2}, {1, 2, 0.5f, 3});
    const int32_t i = b.input({1}, VkDataType::INT32), y = b.output({1, 4});
    b.call("et_vk.embedding_q4gsw.default", {w, s, b.integer(2), i, b.boolean(linear), y});
    const std::vector<int32_t> index{1};
    expect_near(run(b, {Tensor::from<int32_t>(DType::kI32, {1}, index)}),
                linear ? std::vector<double>{-0.5, 1, -12, 9} : std::vector<double>{1, -0.5, 9, -12});
  }
}

TEST(Vulkan, RotaryEmbeddingTurnsHalves) {
  VkBlob b;
  const int32_t q = b.input({1, 1, 1, 4}), k = b.input({1, 1, 1, 4});
  const int32_t c = b.constant<float>(VkDataType::FLOAT32, {2, 4}, {9, 9, 9, 9, 0.6f, 1, 0.6f, 1});
  const int32_t s = b.constant<float>(VkDataType::FLOAT32, {2, 4}, {9, 9, 9, 9, 0.8f, 0, 0.8f, 0});
  const int32_t qo = b.output({1, 1, 1, 4}), ko = b.output({1, 1, 1, 4});
  b.call("et_vk.apply_rotary_emb_hf.default", {q, k, c, s, b.integer(1), b.list({qo, ko})});
  const Tensor x = floats({1, 1, 1, 4}, {1, 2, 3, 4});
  expect_near(run(b, {x, x}), {0.6 - 3 * 0.8, 2, 3 * 0.6 + 0.8, 4});
}

std::string error_of(VkBlob& b) {
  auto model = Model::load_bytes(b.finish(), nullptr, "test.vkd");
  return model.ok() ? "" : model.error().message();
}
void expect_says(const std::string& error, const std::string& words) {
  EXPECT_NE(error.find(words), std::string::npos) << "'" << error << "' does not say '" << words << "'";
}

TEST(Vulkan, RefusesBadGraphs) {
  {
    VkBlob b;
    const int32_t x = b.input({2}), y = b.output({2});
    b.call("aten.no_such_operator.default", {x, y});
    expect_says(error_of(b), "call 0 aten.no_such_operator.default");
  }
  {
    VkBlob b;
    const int32_t x = b.input({2}), y = b.output({2});
    b.call("aten.add.Tensor", {x, 99, y});
    expect_says(error_of(b), "argument 99 is no value");
  }
  {
    VkBlob b;
    const int32_t m = b.tensor(VkDataType::FLOAT32, {2}), y = b.output({2});
    b.call("aten.relu.default", {m, y});
    expect_says(error_of(b), "before it is computed");
  }
  {
    VkBlob b;
    const int32_t x = b.input({2});
    b.output({2});
    b.call("aten.relu.default", {x, b.integer(1)});
    expect_says(error_of(b), "a Int");
  }
  {
    VkBlob b;
    b.input({2});
    b.outputs = {77};
    expect_says(error_of(b), "output 77 is no value");
  }
  {
    VkBlob b;
    const int32_t x = b.input({2}), k = b.tensor(VkDataType::FLOAT32, {2}, 5), y = b.output({2});
    b.call("aten.mul.Tensor", {x, k, y});
    expect_says(error_of(b), "constant 5, the graph has 0");
  }
  {
    VkBlob b;
    const int32_t x = b.input({2}), k = b.constant<float>(VkDataType::FLOAT32, {4}, {1, 2}), y = b.output({2});
    b.call("aten.mul.Tensor", {x, k, y});
    expect_says(error_of(b), "needs more");
  }
}

}  // namespace
}  // namespace smelt::executorch
