// What the XNNPACK reader accepts and refuses, with the words of its errors.
#include <gtest/gtest.h>

#include "smelt/model.h"
#include "support/xnn_blob.h"

namespace smelt::executorch::testing {
namespace {

constexpr auto kF32 = XNNDatatype::xnn_datatype_fp32, kQ8 = XNNDatatype::xnn_datatype_qint8;

std::string error_of(std::vector<std::byte> blob) {
  auto model = Model::load_bytes(blob, nullptr, "test.xnn");
  return model.ok() ? "" : model.error().message();
}

void add(XnnBlob& b, uint32_t x, uint32_t y, uint32_t out) {
  b.node(XNodeUnion::XNNAdd, fb_xnnpack::Create_XNNNode2x1(b.fbb, x, y, out));
}

/// The message of a graph that `build` writes.
template <class Build>
std::string error_from(Build build) {
  XnnBlob b;
  build(b);
  return error_of(b.finish());
}
void expect_says(const std::string& error, const std::string& words) {
  EXPECT_NE(error.find(words), std::string::npos) << "'" << error << "' does not say '" << words << "'";
}

TEST(XnnGraph, SortsNodes) {
  XnnBlob b;
  const uint32_t x = b.input(kF32, {2}), middle = b.internal(kF32, {2}), y = b.output(kF32, {2});
  add(b, middle, x, y);
  add(b, x, x, middle);
  auto model = Model::load_bytes(b.finish(), nullptr, "test.xnn");
  ASSERT_TRUE(model.ok()) << model.error().message();
  auto session = Session::create(*model, {.backend = BackendKind::kReference});
  auto out = session->run(std::vector<Datum>{Tensor::from<float>(DType::kF32, {2}, std::vector<float>{1, 2})});
  ASSERT_TRUE(out.ok()) << out.error().message();
  EXPECT_EQ(out->at(0).tensor.data<float>()[1], 6);
}

TEST(XnnGraph, RefusesWhatIsNoGraph) {
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2}), m = b.internal(kF32, {2}), y = b.output(kF32, {2});
                add(b, x, y, m);
                add(b, m, x, y);
              }),
              "a cycle");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2}), y = b.output(kF32, {2});
                add(b, x, 77, y);
              }),
              "node 0 XNNAdd: value 77 does not exist");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2}), m = b.internal(kF32, {2}), y = b.output(kF32, {2});
                add(b, x, m, y);
              }),
              "which nothing computes");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2}), y = b.output(kF32, {2});
                add(b, x, x, y);
                add(b, x, x, y);
              }),
              "already computed");
  expect_says(error_from([](XnnBlob& b) { b.input(kF32, {2}); }), "no output");
  expect_says(error_from([](XnnBlob& b) {
                b.input(kF32, {2});
                b.output(kF32, {2});
              }),
              "never computed");
}

TEST(XnnGraph, RefusesBadValues) {
  const auto with_constant = [](XNNDatatype type, const Dims& dims, size_t bytes, const XnnQuant& quant) {
    return error_from([&](XnnBlob& b) {
      const uint32_t x = b.input(kF32, dims), y = b.output(kF32, dims);
      add(b, x, b.constant(type, dims, std::vector<uint8_t>(bytes), quant), y);
    });
  };
  expect_says(with_constant(kF32, {4}, 12, {}), "needs more");
  expect_says(with_constant(kF32, {0xffffffffu, 0xffffffffu, 0xffffffffu}, 12, {}), "value 0");
  expect_says(with_constant(kQ8, {4}, 4, {}), "without quantization parameters");
  expect_says(with_constant(kQ8, {4}, 4, {.scales = {0.1f}, .torn = true}), "no quantization parameters");
  expect_says(with_constant(kQ8, {4}, 4, {.scales = {0.1f}, .channel_dim = 0, .torn = true}), "no quantization");
  expect_says(with_constant(kQ8, {4}, 4, {.scales = {0.1f}, .zero_point = 200}), "zero point 200");
  expect_says(with_constant(kQ8, {4}, 4, {.scales = {-1.0f}}), "scale");
  expect_says(with_constant(kQ8, {4}, 4, {.scales = {std::numeric_limits<float>::infinity()}}), "scale");
  expect_says(with_constant(XNNDatatype::xnn_datatype_qcint8, {4}, 4, {.scales = {1, 1}, .channel_dim = 0}),
              "2 scales for 4 channels");
  expect_says(with_constant(XNNDatatype::xnn_datatype_qcint8, {4}, 4, {.scales = {1, 1}, .channel_dim = 3}),
              "channel dimension 3");
  expect_says(with_constant(XNNDatatype::xnn_datatype_qbint4, {2, 6}, 6,
                            {.scales = {1, 1, 1}, .channel_dim = 0, .group_size = 4}),
              "group size 4");
  expect_says(
      with_constant(XNNDatatype::xnn_datatype_qbint4, {2, 4}, 4, {.scales = {1, 1}, .channel_dim = 2, .group_size = 4}),
      "channel dimension 2");
  expect_says(with_constant(XNNDatatype::xnn_datatype_qbint4, {2, 4}, 4,
                            {.scales = {1, 1}, .channel_dim = 0, .group_size = 4, .num_scales = 3}),
              "num_scales is 3");
  expect_says(
      with_constant(XNNDatatype::xnn_datatype_qcint8, {2}, 2, {.scales = {1, 1}, .channel_dim = 0, .num_scales = 1}),
      "num_scales is 1");
  expect_says(with_constant(static_cast<XNNDatatype>(99), {4}, 16, {}), "data type 99");
  expect_says(error_from([](XnnBlob& b) {
                b.dq_datatype = static_cast<XNNDatatype>(99);
                const uint32_t x = b.input(kF32, {2}), y = b.output(kF32, {2});
                add(b, x, x, y);
              }),
              "data type 99 of dynamic quantization");
}

TEST(XnnGraph, RefusesBadNodes) {
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2, 4}), y = b.output(kF32, {2, 3});
                const uint32_t w = b.constant(kF32, {3, 2, 2}, std::vector<float>(12));
                b.node(XNodeUnion::XNNFullyConnected, fb_xnnpack::CreateXNNFullyConnected(b.fbb, x, w, 0xffffffffu, y));
              }),
              "the filter has rank 3");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {1, 5, 5, 2}), y = b.output(kF32, {1, 3, 3, 4});
                const uint32_t w = b.constant(kF32, {4, 3, 3, 2}, std::vector<float>(72));
                b.node(XNodeUnion::XNNConv2d, fb_xnnpack::Create_XNNNodeConv(b.fbb, 0, 0, 0, 0, 5, 3, 1, 1, 1, 1, 2, 4,
                                                                             1, 0, 0, x, w, 0xffffffffu, y));
              }),
              "the filter has shape [4,3,3,2], [4,5,3,2] expected");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2, 3}), y = b.output(kF32, {3, 2});
                const Dims perm{1, 1};
                b.node(XNodeUnion::XNNStaticTranspose,
                       fb_xnnpack::CreateXNNStaticTransposeDirect(b.fbb, 2, &perm, x, y));
              }),
              "permutation");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2, 3}), y = b.output(kF32, {6});
                const Dims shape{0, 0};
                b.node(XNodeUnion::XNNStaticReshape, fb_xnnpack::CreateXNNStaticReshapeDirect(b.fbb, 2, &shape, x, y));
              }),
              "at most one");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {1, 5, 5, 2}), y = b.output(kF32, {1, 2, 2, 2});
                b.node(XNodeUnion::XNNMaxPooling2d,
                       fb_xnnpack::Create_XNNPooling2D(b.fbb, 0, 0, 0, 0, 2, 2, 0, 2, 1, 1, x, y));
              }),
              "vertical stride is 0");
  expect_says(error_from([](XnnBlob& b) {
                const uint32_t x = b.input(kF32, {2}), y = b.output(kF32, {2});
                b.node(XNodeUnion::XNNAdd, fb_xnnpack::Create_XNNNode2x1(b.fbb, x, x, y), std::pair{2.0f, 1.0f});
              }),
              "output range 2 to 1");
}

TEST(XnnGraph, AttentionHasScaleAndMask) {
  for (const bool scaled : {false, true})
    expect_says(
        error_from([=](XnnBlob& b) {
          const uint32_t x = b.input(kF32, {1, 2, 3, 4}), s = b.input(kF32, {4}), m = b.input(kF32, {3, 3});
          b.node(XNodeUnion::XNNScaledDotProductAttention,
                 fb_xnnpack::CreateXNNScaledDotProductAttention(
                     b.fbb, x, x, x, scaled ? s : 0xffffffffu, scaled ? 0xffffffffu : m, b.output(kF32, {1, 2, 3, 4})));
        }),
        "value 4294967295 does not exist");
}

TEST(XnnGraph, EveryCutIsRefused) {
  XnnBlob b;
  const uint32_t x = b.input(kF32, {4}), y = b.output(kF32, {4});
  add(b, x, b.constant(kF32, {4}, std::vector<float>(4)), y);
  const std::vector<std::byte> whole = b.finish();
  ASSERT_EQ(error_of(whole), "");
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(error_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)}), "") << n << " bytes";
}

}  // namespace
}  // namespace smelt::executorch::testing
