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

Sharing sharing_of_product(int64_t m, int64_t k, int64_t n, Isa isa = Isa::kAvx512) {
  const Node node = node_of(Op::kMatMul, make_attrs<MatMulAttrs>());
  const ValueType in[] = {ValueType::tensor(DType::kF32, {m, k}), ValueType::tensor(DType::kF32, {k, n})};
  const ValueType out[] = {ValueType::tensor(DType::kF32, {m, n})};
  return worthwhile_sharing(node, in, out, isa);
}

TEST(Work, LittleOfItStaysOnOneThreadAndSomeIsSharedByNearOnes) {
  EXPECT_EQ(sharing_of_product(1, 64, 64), Sharing::kNone);
  EXPECT_EQ(sharing_of_product(64, 256, 256), Sharing::kAll);
  EXPECT_EQ(sharing_of_product(1, 2048, 2048), Sharing::kAll) << "many weights are read once";
}

TEST(Work, LessStaysWhereThreadsMadeIt) {
  const Node node = node_of(Op::kMatMul, make_attrs<MatMulAttrs>());
  for (const int64_t m : {4, 40}) {
    const ValueType in[] = {ValueType::tensor(DType::kF32, {m, 96}), ValueType::tensor(DType::kF32, {96, 96})};
    const ValueType out[] = {ValueType::tensor(DType::kF32, {m, 96})};
    EXPECT_EQ(worthwhile_sharing(node, in, out, Isa::kVnni), Sharing::kNear);
    EXPECT_EQ(worthwhile_sharing(node, in, out, Isa::kVnni, true), m == 4 ? Sharing::kNear : Sharing::kAll);
  }
}

TEST(Work, SlowerLevelsShareSooner) {
  EXPECT_EQ(sharing_of_product(16, 128, 128), Sharing::kNear);
  EXPECT_EQ(sharing_of_product(16, 128, 128, Isa::kBaseline), Sharing::kAll);
}

TEST(Work, ConvolutionsCountTheirTaps) {
  ConvAttrs attrs;
  attrs.layout = Layout::kChannelsLast;
  attrs.filter = FilterLayout::kOSI;
  const Node node = node_of(Op::kConv, make_attrs<ConvAttrs>(attrs));
  const auto sharing = [&](int64_t size) {
    const ValueType in[] = {ValueType::tensor(DType::kF32, {1, 8, 8, 32}),
                            ValueType::tensor(DType::kF32, {32, size, size, 32})};
    const ValueType out[] = {ValueType::tensor(DType::kF32, {1, 8, 8, 32})};
    return worthwhile_sharing(node, in, out, Isa::kVnni);
  };
  EXPECT_EQ(sharing(1), Sharing::kNear);
  EXPECT_EQ(sharing(5), Sharing::kAll);
}

TEST(Work, OtherNodesCountTheirElements) {
  const Node node = node_of(Op::kSoftmax, make_attrs<SoftmaxAttrs>());
  for (const int64_t rows : {1, 4096}) {
    const ValueType x[] = {ValueType::tensor(DType::kF32, {rows, 64})};
    EXPECT_EQ(worthwhile_sharing(node, x, x, Isa::kVnni), rows == 1 ? Sharing::kNone : Sharing::kAll);
  }
}

}  // namespace
}  // namespace smelt
