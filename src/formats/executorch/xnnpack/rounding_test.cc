// Quantized nodes round as XNNPACK does, which differs from real numbers where a result lies between two integers.
#include "support/xnn_cases.h"

namespace smelt::executorch::testing {
namespace {

struct Integers {
  std::vector<int8_t> values;
  Dims dims;
  float scale;
  int zero;
};

/// The integers that a node makes of its inputs, on both back-ends.
void expect_integers(const std::vector<Integers>& inputs, const Integers& want,
                     const std::function<void(XnnBlob&, const std::vector<uint32_t>&, uint32_t)>& write) {
  XnnBlob b;
  std::vector<uint32_t> ids;
  std::vector<Datum> data;
  for (const Integers& x : inputs) {
    ids.push_back(b.input(kQ8, x.dims, {.scales = {x.scale}, .zero_point = x.zero}));
    data.emplace_back(Tensor::from<int8_t>(DType::kI8, shape_of(x.dims), x.values));
  }
  const uint32_t y = b.output(kQ8, want.dims, {.scales = {want.scale}, .zero_point = want.zero});
  write(b, ids, y);
  const std::vector<std::byte> blob = b.finish();
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    auto results = run_blob(blob, data, backend);
    ASSERT_TRUE(results.ok()) << results.error().message();
    const Tensor& got = results->at(0).tensor;
    for (size_t i = 0; i < want.values.size(); ++i) EXPECT_EQ(got.data<int8_t>()[i], want.values[i]) << "element " << i;
  }
}

auto one_input(XNodeUnion type) {
  return [type](XnnBlob& b, const std::vector<uint32_t>& in, uint32_t out) {
    b.node(type, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out));
  };
}
auto two_inputs(XNodeUnion type) {
  return [type](XnnBlob& b, const std::vector<uint32_t>& in, uint32_t out) {
    b.node(type, fb_xnnpack::Create_XNNNode2x1(b.fbb, in[0], in[1], out));
  };
}

TEST(XnnRounding, TiesOfMeansGoToEvenBehindTheZeroPoint) {
  expect_integers({{{3, 3, 4, 4}, {1, 2, 2, 1}, 0.5f, 3}}, {{0}, {1, 1}, 0.5f, -1},
                  one_input(XNodeUnion::XNNGlobalAvgPooling2d));
}

TEST(XnnRounding, TiesOfFunctionsGoToEvenBehindTheZeroPoint) {
  expect_integers({{{1, 3, -5, 2}, {4}, 1, 0}}, {{2, 2, 4, 2}, {4}, 2, 1}, one_input(XNodeUnion::XNNAbs));
  expect_integers({{{1, 3, -5}, {3}, 1, 0}, {{0, 0, 5}, {3}, 1, 0}}, {{2, 2, 4}, {3}, 2, 1},
                  two_inputs(XNodeUnion::XNNMaximum));
}

TEST(XnnRounding, TiesOfSumsGoUp) {
  expect_integers({{{1, -1, 3, -3}, {4}, 1, 0}, {{0, 0, 0, 0}, {4}, 1, 0}}, {{1, 0, 2, -1}, {4}, 2, 0},
                  two_inputs(XNodeUnion::XNNAdd));
}

TEST(XnnRounding, ConversionsHaveEightFractionalBits) {
  expect_integers({{{100, -100, 64}, {3}, 0.0137f, 0}}, {{2, -2, 1}, {3}, 1, 0}, one_input(XNodeUnion::XNNConvert));
}

TEST(XnnRounding, ScalarsAreValues) {
  expect_integers({{{5}, {}, 1, 0}, {{-2}, {}, 1, 0}}, {{3}, {}, 1, 0}, two_inputs(XNodeUnion::XNNAdd));
}

}  // namespace
}  // namespace smelt::executorch::testing
