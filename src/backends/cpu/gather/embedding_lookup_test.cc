#include "base/cat.h"
#include "ops/gather/gather.h"
#include "tensor/numeric.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

Tensor table(DType dtype, const Shape& shape, QuantPtr quant) {
  Tensor t(dtype, shape);
  const int64_t low = int_min(dtype), codes = int_max(dtype) - low + 1;
  for (int64_t i = 0; i < t.elements(); ++i) set_int(t, i, low + (i * 7 + i / 5) % codes);
  t.set_quant(std::move(quant));
  return t;
}

OpCase lookup(const Tensor& ids, Tensor rows) {
  Shape y = ids.shape();
  for (int i = 1; i < rows.rank(); ++i) y.push_back(rows.shape()[i]);
  OpCase c{Cat(to_string(rows.dtype()), " ", rows.shape().str()),
           Op::kEmbeddingLookup,
           make_attrs<NoAttrs>(),
           {ids, std::move(rows)}};
  c.outputs = {ValueType::tensor(DType::kF32, y)};
  return c;
}

TEST(EmbeddingLookup, RowsOfIntegers) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI4, DType::kU4, DType::kI2, DType::kU2}) {
    const int32_t zero = is_signed_integer(dtype) ? 0 : 1;
    auto rows = std::make_shared<Quantization>();
    rows->kind = Quantization::Kind::kPerAxis;
    auto blocks = std::make_shared<Quantization>();
    blocks->kind = Quantization::Kind::kPerBlock;
    blocks->axis = 1;
    blocks->block = 32;
    for (int i = 0; i < 7; ++i) rows->scales.push_back(0.1f + 0.03f * static_cast<float>(i));
    for (int i = 0; i < 7 * 9; ++i) blocks->scales.push_back(0.1f + 0.01f * static_cast<float>(i));
    rows->zero_points.assign(rows->scales.size(), zero);
    blocks->zero_points.assign(blocks->scales.size(), zero);
    for (const QuantPtr& quant : {per_tensor(0.3f, zero), QuantPtr(rows), QuantPtr(blocks)}) {
      const Tensor weights = table(dtype, {7, 268}, quant);
      check_on_cpu(lookup(i64({6, 0, 3, 3}), weights), "embedding_lookup");
      check_on_cpu(lookup(tensor(DType::kI32, {2, 1}, {5, 2}), weights), "embedding_lookup");
    }
  }
}

TEST(EmbeddingLookup, ARowOutside) {
  const OpCase c = lookup(i64({1, 7, 2}), table(DType::kI8, {7, 12}, per_tensor(0.3f, 0)));
  KernelRunner runner(c);
  const auto kernel = runner.make(*runner.choose(best_isa(), PackCache::Mode::kPack), best_isa(), 1);
  ASSERT_TRUE(kernel);
  const auto made = runner.run(*kernel, 1);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find('7'), std::string::npos) << made.error().message();
}

}  // namespace
}  // namespace smelt
