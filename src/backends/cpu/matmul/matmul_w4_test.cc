#include <algorithm>
#include <cstring>
#include <limits>

#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Product {
  int64_t m, k, n, block;
};
const Product kProducts[] = {{1, 256, 150, 32}, {1, 64, 5, 16}, {2, 96, 33, 32},    {7, 130, 70, 64},
                             {13, 48, 40, 256}, {5, 37, 66, 0}, {19, 1024, 34, 128}};

/// float32 rows times 4-bit weights with a zero point a block, or all the same.
OpCase product_case(const Product& p, DType w, bool shifted, int64_t row_block) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = true;
  attrs->row_block = row_block;
  OpCase c;
  c.label = Cat("m ", p.m, " k ", p.k, " n ", p.n, " block ", p.block, ' ', to_string(w), shifted ? " shifted" : "");
  c.op = Op::kMatMul;
  c.attrs = attrs;
  auto q = std::make_shared<Quantization>();
  q->kind = p.block ? Quantization::Kind::kPerBlock : Quantization::Kind::kPerAxis;
  q->axis = p.block ? 1 : 0;
  q->block = p.block;
  const int64_t blocks = p.block ? (p.k + p.block - 1) / p.block : 1;
  for (int64_t i = 0; i < blocks * p.n; ++i) {
    q->scales.push_back(0.003f + 0.0007f * static_cast<float>(i % 7));
    if (shifted) q->zero_points.push_back(static_cast<int32_t>(i % 16) - (w == DType::kI4 ? 8 : 0));
  }
  if (!shifted && w == DType::kU4) q->zero_points = {8};
  Tensor b = random_tensor(w, {p.n, p.k}, w == DType::kI4 ? -8 : 0, w == DType::kI4 ? 7 : 15, 2);
  b.set_quant(q);
  c.inputs = {random_tensor(DType::kF32, {p.m, p.k}, -2, 3, 1), b,
              p.m % 2 ? random_tensor(DType::kF32, {p.n}, -1, 1, 3) : Tensor()};
  c.constants = {1, 2};
  c.outputs[0].dtype = DType::kF32;
  c.threaded = true;
  return c;
}

template <class F>
void each_case(bool row_blocks, F&& body) {
  for (const Product& p : kProducts)
    for (const DType w : {DType::kI4, DType::kU4})
      for (const bool shifted : {false, true}) {
        if (row_blocks && !p.block) continue;
        body(product_case(p, w, shifted, row_blocks ? p.block : 0));
      }
}

TEST(MatMulW4, RealRows) {
  each_case(false, [](const OpCase& c) { check_on_cpu(c, "matmul_w4", {1e-5, 1e-5}); });
}

TEST(MatMulW4, BlocksOfRows) {
  each_case(true, [](const OpCase& c) { check_on_cpu(c, "matmul_w4", {1e-5, 1e-5}); });
}

TEST(MatMulI8, BlocksOfRows) {
  for (const Product& p : kProducts)
    for (const bool shifted : {false, true}) {
      if (!p.block) continue;
      OpCase c = product_case(p, DType::kU4, shifted, p.block);
      const QuantPtr q = c.inputs[1].quant();
      c.inputs[1] = random_tensor(DType::kU8, {p.n, p.k}, 0, 255, 2);
      auto wide = std::make_shared<Quantization>(*q);
      for (int32_t& z : wide->zero_points) z = shifted ? z * 17 : 128;
      c.inputs[1].set_quant(wide);
      check_on_cpu(c, "matmul_dynamic_quant", {1e-4, 1e-5});
    }
}

TEST(MatMulW4, ManyRowsOfFewColumns) {
  for (const int64_t row_block : {0, 32})
    check_on_cpu(product_case({70, 64, 9, 32}, DType::kU4, true, row_block), "matmul_w4");
}

TEST(MatMulW4, BlocksWithoutParams) {
  OpCase c = product_case({4, 64, 9, 32}, DType::kU4, true, 32);
  auto* x = c.inputs[0].data<float>();
  x[3] = std::numeric_limits<float>::infinity();
  x[64 + 40] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 32; ++i) x[128 + i] = 0;
  for (int i = 0; i < 32; ++i) x[192 + i] = 1e-39f * static_cast<float>(i);
  check_on_cpu(c, "matmul_w4");
}

TEST(MatMulW4, BlocksOfRowsAreEqualOnEveryLevel) {
  const auto kernel = std::find_if(all_kernels().begin(), all_kernels().end(),
                                   [](const KernelInfo& i) { return std::string(i.name) == "matmul_w4"; });
  ASSERT_NE(kernel, all_kernels().end());
  each_case(true, [&](const OpCase& c) {
    SCOPED_TRACE(c.label);
    KernelRunner runner(c);
    std::vector<Tensor> first;
    for (const Isa isa : tested_isas()) {
      auto got = runner.run(*runner.make(*kernel, isa));
      ASSERT_TRUE(got.ok());
      if (first.empty()) first = *got;
      EXPECT_EQ(std::memcmp((*got)[0].raw(), first[0].raw(), first[0].bytes()), 0) << to_string(isa);
    }
  });
}

TEST(MatMulW4, HalfPrecisionRows) {
  for (const int64_t row_block : {0, 32}) {
    OpCase c = product_case({3, 64, 9, 32}, DType::kU4, true, row_block);
    c.inputs[0] = random_tensor(DType::kF16, {3, 64}, -2, 3, 1);
    c.inputs[2] = Tensor();
    c.outputs[0].dtype = DType::kF16;
    check_on_cpu(c, "legalized_types", {1e-2, 1e-3});
  }
}

}  // namespace
}  // namespace smelt
