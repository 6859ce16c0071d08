#include "ops/matmul/matmul.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

OpRunner product(const Tensor& x, const Tensor& ids, const std::vector<Tensor>& matrices) {
  OpRunner r(Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(ExpertMatMulAttrs{}));
  r.input(x).input(ids);
  for (const Tensor& m : matrices) r.input(m);
  return r;
}

const Tensor kIds = tensor(DType::kI64, {2, 2}, {1, 0, 0, 0});
const std::vector<Tensor> kMatrices = {floats({1, 2}, {1, 2}), floats({1, 2}, {10, 0})};

TEST(ExpertMatMul, RowsOfTokensOrOfExperts) {
  expect_near(product(floats({2, 2}, {1, 2, 3, 4}), kIds, kMatrices).run(), {10, 5, 11, 11});
  const Tensor y = product(floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), kIds, kMatrices).run();
  EXPECT_EQ(y.shape(), (Shape{2, 2, 1}));
  expect_near(y, {10, 11, 17, 23});
}

TEST(ExpertMatMul, OneTokenForAll) {
  const Tensor ids = tensor(DType::kI64, {2, 2}, {1, 0, -1, -2}), x = floats({1, 2}, {1, 2});
  expect_near(product(x, ids, kMatrices).run(), {10, 5, 10, 5});
  expect_near(product(floats({1, 2, 2}, {1, 2, 3, 4}), ids, kMatrices).run(), {10, 11, 10, 11});
  const Tensor one = tensor(DType::kI64, {1, 1}, {0});
  expect_near(product(floats({2, 2}, {1, 2, 3, 4}), one, kMatrices).run(), {5, 11});
}

TEST(ExpertMatMul, MatricesOfColumns) {
  ExpertMatMulAttrs a;
  a.transposed = false;
  OpRunner r(Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(a));
  r.input(floats({1, 2}, {1, 10})).input(tensor(DType::kI32, {1, 1}, {0})).input(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  expect_near(r.run(), {41, 52, 63});
}

TEST(ExpertMatMul, QuantizedMatrices) {
  Tensor w = tensor(DType::kU4, {1, 2}, {9, 12});
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerBlock;
  q->axis = 1;
  q->block = 2;
  q->scales = {0.5f};
  q->zero_points = {8};
  w.set_quant(q);
  OpRunner r(Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(ExpertMatMulAttrs{}));
  r.input(floats({1, 2}, {1, 10})).input(tensor(DType::kI32, {1, 1}, {0})).constant(w);
  expect_near(r.run(), {20.5});
}

TEST(ExpertMatMul, Refuses) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const auto message = [](const OpRunner& r) { return r.run_all().error().message(); };
  EXPECT_NE(message(product(x, tensor(DType::kI64, {2, 1}, {0, 2}), kMatrices)).find("expert 2 of 2"),
            std::string::npos);
  EXPECT_NE(message(product(x, tensor(DType::kI64, {2, 1}, {0, -3}), kMatrices)).find("expert -3 of 2"),
            std::string::npos);
  EXPECT_NE(message(product(x, tensor(DType::kI64, {3, 1}, {0, 0, 0}), kMatrices)).find("do not fit"),
            std::string::npos);
  EXPECT_NE(message(product(x, kIds, {floats({1, 3}, {1, 2, 3})})).find("do not fit"), std::string::npos);
  EXPECT_NE(message(product(x, kIds, {kMatrices[0], floats({2, 2}, {1, 2, 3, 4})})).find("matrices of shapes"),
            std::string::npos);
  EXPECT_NE(message(product(x, floats({2, 1}, {0, 0}), kMatrices)).find("experts are float32"), std::string::npos);
}

}  // namespace
}  // namespace smelt::test
