#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Float16Row {
  int64_t k, n;
  bool bias;
  ActKind act = ActKind::kNone;
};
const Float16Row kFloat16Rows[] = {
    {8, 1, false}, {72, 3, true}, {200, 67, true, ActKind::kRelu}, {1024, 1000, true, ActKind::kTanh}};

Tensor float16_weights(const Shape& shape) { return widened(random_tensor(DType::kF16, shape, -1, 1, 2)); }

OpCase float16_case(const Float16Row& r, const char* of, Op op, std::shared_ptr<const Attrs> attrs, Tensor x,
                    Tensor w) {
  OpCase c{Cat(of, ' ', r.k, " x ", r.n), op, std::move(attrs), {std::move(x), std::move(w)}, {1}};
  if (r.bias) {
    c.inputs.push_back(random_tensor(DType::kF32, {r.n}, -1, 1, 3));
    c.constants.push_back(2);
  }
  c.threaded = true;
  return c;
}

TEST(RowTimesFloat16, Products) {
  if (!machine_has(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  for (const Float16Row& r : kFloat16Rows) {
    MatMulAttrs a;
    a.transpose_b = true;
    a.act.kind = r.act;
    check_on_cpu(float16_case(r, "product", Op::kMatMul, make_attrs<MatMulAttrs>(a),
                              random_tensor(DType::kF32, {1, r.k}, -1, 1, 1), float16_weights({r.n, r.k})),
                 "matmul_row_f16", 1e-4);
  }
}

TEST(RowTimesFloat16, ConvolutionsOfOnePixel) {
  if (!machine_has(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  for (const Float16Row& r : kFloat16Rows)
    for (const Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
      const bool last = layout == Layout::kChannelsLast;
      ConvAttrs a;
      a.strides = a.dilations = {1, 1};
      a.pads = {0, 0, 0, 0};
      a.layout = layout;
      a.filter = last ? FilterLayout::kOSI : FilterLayout::kOIS;
      a.act.kind = r.act;
      const Shape image = last ? Shape{1, 1, 1, r.k} : Shape{1, r.k, 1, 1},
                  filter = last ? Shape{r.n, 1, 1, r.k} : Shape{r.n, r.k, 1, 1};
      check_on_cpu(float16_case(r, "convolution", Op::kConv, make_attrs<ConvAttrs>(a),
                                random_tensor(DType::kF32, image, -1, 1, 1), float16_weights(filter)),
                   "conv_row_f16", 1e-4);
    }
}

}  // namespace
}  // namespace smelt
