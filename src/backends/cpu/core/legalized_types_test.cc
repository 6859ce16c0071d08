#include "backends/cpu/core/float16.h"
#include "base/cat.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/softmax/softmax.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(Float16, ConversionsAreExact) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const Isa isa : tested_isas()) {
    const Converter& c = converter(isa);
    std::vector<float> wide(all.size());
    std::vector<uint16_t> back(all.size());
    c.from_f16(all.data(), 65536, wide.data());
    c.to_f16(wide.data(), 65536, back.data());
    for (size_t i = 0; i < all.size(); ++i) {
      if (wide[i] != wide[i]) continue;  // NaN
      ASSERT_EQ(back[i], all[i]) << to_string(isa);
    }
  }
}

TEST(LegalizeTypes, Operators) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    const Tolerance loose{t == DType::kF16 ? 4e-3 : 4e-2, t == DType::kF16 ? 2e-3 : 1e-2};
    auto conv = std::make_shared<ConvAttrs>();
    conv->pads = {1, 1, 1, 1};
    check_on_cpu({Cat("conv ", to_string(t)),
                  Op::kConv,
                  conv,
                  {random_tensor(t, {1, 4, 9, 7}, -1, 1, 1), random_tensor(t, {6, 4, 3, 3}, -1, 1, 2),
                   random_tensor(t, {6}, -1, 1, 3)},
                  {1, 2}},
                 "legalized_types", loose);
    check_on_cpu({Cat("matmul ", to_string(t)),
                  Op::kMatMul,
                  make_attrs<MatMulAttrs>(),
                  {random_tensor(t, {5, 40}, -1, 1, 1), random_tensor(t, {40, 19}, -1, 1, 2)}},
                 "legalized_types", loose);
    check_on_cpu({Cat("add ", to_string(t)),
                  Op::kBinary,
                  make_attrs<BinaryAttrs>(Binary::kAdd),
                  {random_tensor(t, {5, 40}, -1, 1, 1), random_tensor(t, {40}, -1, 1, 2)},
                  {1}},
                 "legalized_types", loose);
    check_on_cpu({Cat("gelu ", to_string(t)),
                  Op::kUnary,
                  make_attrs<UnaryAttrs>(Unary::kGelu),
                  {random_tensor(t, {5, 40}, -3, 3, 1)}},
                 "legalized_types", loose);
    const Tensor image = random_tensor(t, {2, 6, 7, 20}, -2, 2, 1);
    auto pool = std::make_shared<PoolAttrs>();
    pool->kernel = {3, 3};
    pool->layout = Layout::kChannelsLast;
    check_on_cpu({Cat("pool ", to_string(t)), Op::kPool, pool, {image}}, "legalized_types", loose);
    check_on_cpu({Cat("softmax ", to_string(t)), Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {image}}, "legalized_types",
                 loose);
    check_on_cpu({Cat("attention ", to_string(t)), Op::kAttention, make_attrs<AttentionAttrs>(), {image, image, image}},
                 "legalized_types", loose);
    check_on_cpu({Cat("norm ", to_string(t)),
                  Op::kLayerNorm,
                  make_attrs<LayerNormAttrs>(),
                  {image, random_tensor(t, {20}, -1, 1, 2), random_tensor(t, {20}, -1, 1, 3)},
                  {1, 2}},
                 "legalized_types", loose);
    auto sum = std::make_shared<ReduceAttrs>();
    sum->fn = Reduction::kMean;
    check_on_cpu({Cat("mean ", to_string(t)), Op::kReduce, sum, {image, i64({1, 2})}, {1}}, "legalized_types", loose);
    GroupNormAttrs groups;
    groups.groups = 2;
    check_on_cpu({Cat("group norm ", to_string(t)),
                  Op::kGroupNorm,
                  make_attrs<GroupNormAttrs>(groups),
                  {image, random_tensor(t, {6}, -1, 1, 2), random_tensor(t, {6}, -1, 1, 3)},
                  {1, 2}},
                 "legalized_types", loose);
    ConvTransposeAttrs spread;
    spread.strides = {2, 2};
    spread.layout = Layout::kChannelsLast;
    spread.filter = FilterLayout::kIOS;
    check_on_cpu({Cat("transposed ", to_string(t)),
                  Op::kConvTranspose,
                  make_attrs<ConvTransposeAttrs>(spread),
                  {image, random_tensor(t, {20, 5, 3, 3}, -1, 1, 2)},
                  {1}},
                 "legalized_types", loose);
    ResizeAttrs linear;
    linear.mode = ResizeAttrs::Mode::kLinear;
    check_on_cpu({Cat("resize ", to_string(t)),
                  Op::kResize,
                  make_attrs<ResizeAttrs>(linear),
                  {image, Tensor(), Tensor(), i64({2, 9, 4, 20})},
                  {3}},
                 "legalized_types", loose);
  }
}

TEST(LegalizeTypes, Quantize) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    auto rows = std::make_shared<Quantization>();
    rows->kind = Quantization::Kind::kPerToken;
    rows->axis = 1;
    for (const QuantPtr& q : {per_tensor(0.02f, 3), QuantPtr(rows)})
      check_on_cpu({Cat("quantize ", to_string(t)),
                    Op::kQuantize,
                    make_attrs<NoAttrs>(),
                    {random_tensor(t, {5, 37}, -2, 3, 1)},
                    {},
                    {ValueType::tensor(DType::kI8, {5, 37}, q)}},
                   "legalized_types");
  }
}

TEST(LegalizeTypes, QuantizedWeights) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = true;
  for (DType t : {DType::kI8, DType::kI4}) {
    Tensor b = random_tensor(t, {19, 64}, t == DType::kI8 ? -128 : -8, t == DType::kI8 ? 127 : 7, 2);
    auto q = std::make_shared<Quantization>();
    q->kind = t == DType::kI8 ? Quantization::Kind::kPerAxis : Quantization::Kind::kPerBlock;
    q->axis = t == DType::kI8 ? 0 : 1;
    q->block = 32;
    q->scales.assign(t == DType::kI8 ? 19 : 38, 0.01f);
    b.set_quant(q);
    OpCase c{Cat("matmul ", to_string(t)), Op::kMatMul, attrs, {random_tensor(DType::kF32, {5, 64}, -1, 1, 1), b}, {1}};
    check_on_cpu(c, "legalized_types", {1e-5, 1e-5});
  }
}

}  // namespace
}  // namespace smelt
