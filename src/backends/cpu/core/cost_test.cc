#include "backends/cpu/core/cost.h"

#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"

namespace smelt {
namespace {

Node node_of(Op op, AttrsPtr attrs) {
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  return n;
}

int threads_of_product(int64_t m, int64_t k, int64_t n, Isa isa = Isa::kAvx512) {
  const Node node = node_of(Op::kMatMul, make_attrs<MatMulAttrs>());
  const ValueType in[] = {ValueType::tensor(DType::kF32, {m, k}), ValueType::tensor(DType::kF32, {k, n})};
  const ValueType out[] = {ValueType::tensor(DType::kF32, {m, n})};
  return worthwhile_threads(4, node, in, out, isa);
}

TEST(Work, LittleOfItStaysOnOneThread) {
  EXPECT_EQ(threads_of_product(1, 64, 64), 1);
  EXPECT_EQ(threads_of_product(64, 256, 256), 4);
  EXPECT_EQ(threads_of_product(1, 2048, 2048), 4) << "many weights are read once";
}

TEST(Work, LessStaysWhereThreadsMadeIt) {
  const Node node = node_of(Op::kMatMul, make_attrs<MatMulAttrs>());
  for (const int64_t m : {4, 40}) {
    const ValueType in[] = {ValueType::tensor(DType::kF32, {m, 96}), ValueType::tensor(DType::kF32, {96, 96})};
    const ValueType out[] = {ValueType::tensor(DType::kF32, {m, 96})};
    EXPECT_EQ(worthwhile_threads(2, node, in, out, Isa::kVnni), 1);
    EXPECT_EQ(worthwhile_threads(2, node, in, out, Isa::kVnni, true), m == 4 ? 1 : 2);
  }
}

TEST(Work, SlowerLevelsShareSooner) {
  EXPECT_EQ(threads_of_product(16, 128, 128), 1);
  EXPECT_EQ(threads_of_product(16, 128, 128, Isa::kBaseline), 4);
}

TEST(Work, ConvolutionsCountTheirTaps) {
  ConvAttrs attrs;
  attrs.layout = Layout::kChannelsLast;
  attrs.filter = FilterLayout::kOSI;
  const Node node = node_of(Op::kConv, make_attrs<ConvAttrs>(attrs));
  const auto threads = [&](int64_t size) {
    const ValueType in[] = {ValueType::tensor(DType::kF32, {1, 8, 8, 32}),
                            ValueType::tensor(DType::kF32, {32, size, size, 32})};
    const ValueType out[] = {ValueType::tensor(DType::kF32, {1, 8, 8, 32})};
    return worthwhile_threads(2, node, in, out, Isa::kVnni);
  };
  EXPECT_EQ(threads(1), 1);
  EXPECT_EQ(threads(5), 2);
}

TEST(Work, OtherNodesCountTheirElements) {
  const Node node = node_of(Op::kSoftmax, make_attrs<SoftmaxAttrs>());
  for (const int64_t rows : {1, 4096}) {
    const ValueType x[] = {ValueType::tensor(DType::kF32, {rows, 64})};
    EXPECT_EQ(worthwhile_threads(2, node, x, x, Isa::kVnni), rows == 1 ? 1 : 2);
  }
}

}  // namespace
}  // namespace smelt
