#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanPerTokenDotProduct : public VulkanTest {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    if (!devices()->front().int8_dot_product) GTEST_SKIP() << "the device has no dot products of 8-bit values";
  }
};

/// Weights with scales of their own for each column, or `block` rows of it; 0: one scale for all.
struct Weights {
  DType dtype;
  int64_t block;  ///< -1: a column
  int32_t zero;
  bool transposed;
};

const Weights kWeights[] = {{DType::kI8, 0, 0, true},    {DType::kI8, -1, 0, true},  {DType::kI8, -1, 0, false},
                            {DType::kU8, -1, 128, true}, {DType::kI4, -1, 0, true},  {DType::kI4, 32, 0, true},
                            {DType::kU4, 16, 8, true},   {DType::kI4, 12, 0, true},  {DType::kI8, 16, 0, true},
                            {DType::kI8, 16, 0, false},  {DType::kU4, 24, 8, false}, {DType::kU4, -1, 3, true}};

Tensor weights(const Weights& w, int64_t k, int64_t n) {
  const bool small = w.dtype == DType::kI4 || w.dtype == DType::kU4;
  const double low = w.dtype == DType::kI8 ? -127 : w.dtype == DType::kI4 ? -8 : 0, high = low + (small ? 15 : 254);
  Tensor t = random_tensor(w.dtype, w.transposed ? Shape{n, k} : Shape{k, n}, low, high, 2);
  auto q = std::make_shared<Quantization>();
  const int columns = w.transposed ? 0 : 1;
  q->kind = w.block > 0 ? Quantization::Kind::kPerBlock
                        : (w.block < 0 ? Quantization::Kind::kPerAxis : Quantization::Kind::kPerTensor);
  q->axis = w.block > 0 ? 1 - columns : columns;
  q->block = std::max<int64_t>(w.block, 0);
  const int64_t scales = w.block == 0 ? 1 : n * (w.block > 0 ? (k + w.block - 1) / w.block : 1);
  for (int64_t i = 0; i < scales; ++i) q->scales.push_back(0.01f + 0.001f * static_cast<float>(i * 7 % 11));
  q->zero_points = {w.zero};
  t.set_quant(std::move(q));
  return t;
}

/// Rows and lengths of rows: one row in slices, few and many rows, lengths that are multiples of four.
struct Size {
  int64_t rows, k, n;
};
const Size kSizes[] = {{1, 2304, 40}, {1, 48, 9}, {3, 48, 30}, {37, 96, 70}, {2, 12, 5}};

std::string label(const Weights& w, const Size& s) {
  return Cat(to_string(w.dtype), w.transposed ? " transposed" : "", ", blocks of ", w.block, ", ", s.rows, " x ", s.k,
             " x ", s.n);
}

/// Sums are exact within a column; behind that, sums of blocks and biases round.
const Tolerance kNear{2e-4, 1e-5};

/// Rows that are quantized as they come.
TEST_F(VulkanPerTokenDotProduct, DynamicQuantFloat) {
  const Forced on("SMELT_VULKAN_DOT", "1");
  for (const Weights& w : kWeights)
    for (const Size& s : kSizes)
      for (bool asymmetric : {false, true}) {
        MatMulAttrs a;
        a.dynamic_quant = true;
        a.asymmetric_inputs = asymmetric;
        a.transpose_b = w.transposed;
        if (asymmetric) a.act = {ActKind::kRelu};
        OpCase c{label(w, s),
                 Op::kMatMul,
                 make_attrs<MatMulAttrs>(a),
                 {random_tensor(DType::kF32, {s.rows, s.k}, -3, 5, 1), weights(w, s.k, s.n)},
                 {1, 2}};
        if (asymmetric) c.inputs.push_back(random_tensor(DType::kF32, {s.n}, -1, 1, 3));
        check_on_gpu(c, "matmul_dynamic_quant_dot_product", kNear);
      }
}

/// Rows that come as integers, with a scale and zero point each or one for all, with and without integer dot products.
TEST_F(VulkanPerTokenDotProduct, Rows) {
  for (const char* dot_product : {"1", "0"}) {
    const Forced way("SMELT_VULKAN_DOT", dot_product);
    for (const Weights& w : kWeights)
      for (const Size& s : kSizes)
        for (bool one : {false, true}) {
          const Shape params = one ? Shape{} : Shape{s.rows, 1};
          MatMulAttrs a;
          a.transpose_b = w.transposed;
          OpCase c{label(w, s),
                   Op::kMatMul,
                   make_attrs<MatMulAttrs>(a),
                   {random_tensor(DType::kI8, {s.rows, s.k}, -128, 127, 1), weights(w, s.k, s.n),
                    one ? random_tensor(DType::kF32, {s.n}, -1, 1, 3) : Tensor(),
                    random_tensor(DType::kF32, params, 0.01, 0.03, 4), random_tensor(DType::kI8, params, -128, 127, 5)},
                   {1, 2}};
          check_on_gpu(c, *dot_product == '1' ? "matmul_per_token_dot_product" : "dequantize_linear_dynamic",
                       {1e-2, 1e-4});
        }
  }
}

}  // namespace
}  // namespace smelt::vulkan
