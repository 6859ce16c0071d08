#include "backends/cpu/matmul/column_ranges.h"

#include <cstring>
#include <functional>

#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr int64_t kColumns = 1000;

OpCase one_row(const std::string& label, Tensor a, Tensor b, Tensor c, ValueType y) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = true;
  attrs->dynamic_quant = a.dtype() == DType::kF32 && b.dtype() == DType::kI8;
  OpCase out;
  out.label = label;
  out.op = Op::kMatMul;
  out.attrs = attrs;
  out.inputs = {std::move(a), std::move(b), std::move(c)};
  out.constants = {1, 2};
  out.outputs[0] = std::move(y);
  return out;
}

Tensor column_weights(DType dtype, int64_t k, QuantPtr quant) {
  const double most = bit_width(dtype) == 4 ? 7 : 127;
  Tensor b = random_tensor(dtype, {kColumns, k}, dtype == DType::kF32 ? -1 : -most, dtype == DType::kF32 ? 1 : most, 2);
  b.set_quant(std::move(quant));
  return b;
}

std::vector<float> column_scales(int64_t count) {
  std::vector<float> scales;
  for (int64_t i = 0; i < count; ++i) scales.push_back(0.003f + 0.0007f * static_cast<float>(i % 7));
  return scales;
}

QuantPtr column_blocks(int64_t k, int64_t block) {
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerBlock;
  q->axis = 1;
  q->block = block;
  q->scales = column_scales(kColumns * (k / block));
  return q;
}

std::vector<OpCase> column_cases() {
  const auto row = [](int64_t k) { return random_tensor(DType::kF32, {1, k}, -1, 1, 1); };
  const Tensor bias = random_tensor(DType::kF32, {kColumns}, -1, 1, 3), none;
  const Tensor sums = random_tensor(DType::kI32, {kColumns}, -3000, 3000, 3);
  const ValueType real = ValueType::tensor(DType::kF32);
  Tensor bytes = random_tensor(DType::kI8, {1, 640}, -128, 127, 1);
  bytes.set_quant(per_tensor(0.02f, -5));
  ValueType byte = ValueType::tensor(DType::kI8);
  byte.quant = per_tensor(1.5f, 2);
  return {
      one_row("float32", row(300), column_weights(DType::kF32, 300, nullptr), bias, real),
      one_row("float32 without a bias", row(517), column_weights(DType::kF32, 517, nullptr), none, real),
      one_row("int8", bytes, column_weights(DType::kI8, 640, per_tensor(0.004f, 0)), sums, byte),
      one_row("int8, a scale a column", bytes, column_weights(DType::kI8, 640, per_axis(column_scales(kColumns), 0)),
              sums, byte),
      one_row("rows quantized at run time", row(640),
              column_weights(DType::kI8, 640, per_axis(column_scales(kColumns), 0)), bias, real),
      one_row("4 bits, a scale a column", row(1280),
              column_weights(DType::kI4, 1280, per_axis(column_scales(kColumns), 0)), bias, real),
      one_row("4 bits in blocks", row(1280), column_weights(DType::kI4, 1280, column_blocks(1280, 32)), none, real),
  };
}

TEST(ColumnRanges, GiveTheBitsOfTheWholeProduct) {
  for (const OpCase& c : column_cases())
    for (const Isa isa : tested_isas())
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(Cat(c.label, ", ", to_string(isa), ", threads ", threads));
        KernelRunner runner(c);
        PackCache packs, of_ranges;
        const auto whole = make_kernel(runner.spec(isa, threads, packs));
        if (!whole) continue;
        const auto expected = runner.run(*whole, threads);
        ASSERT_TRUE(expected.ok());
        const KernelSpec spec = runner.spec(isa, threads, of_ranges);
        ASSERT_TRUE(has_column_ranges(spec));
        RecycledMemory memory(size_t{4} << 20);
        KernelRunnerContext context(runner, threads, 0);
        const Status ran = run_column_ranges(spec, memory, context);
        ASSERT_TRUE(ran.ok()) << ran.error().message();
        const Tensor &want = (*expected)[0], &got = context.outputs()[0];
        EXPECT_EQ(std::memcmp(want.raw(), got.raw(), want.bytes()), 0);
        EXPECT_EQ(of_ranges.bytes(), 0u) << "nothing is kept";
      }
}

TEST(ColumnRanges, OfOtherProductsThereAreNone) {
  const auto expect_none = [](const std::function<void(OpCase&)>& change) {
    OpCase c = column_cases()[0];
    change(c);
    KernelRunner runner(c);
    PackCache packs;
    EXPECT_FALSE(has_column_ranges(runner.spec(Isa::kBaseline, 1, packs)));
  };
  expect_none([](OpCase& c) { c.inputs[0] = random_tensor(DType::kF32, {2, 300}, -1, 1, 1); });
  expect_none([](OpCase& c) { c.constants = {1}; });
  expect_none([](OpCase& c) { c.constants = {2}; });
  expect_none([](OpCase& c) {
    c.attrs = std::make_shared<MatMulAttrs>();
    c.inputs[1] = random_tensor(DType::kF32, {300, kColumns}, -1, 1, 2);
  });
  expect_none([](OpCase& c) {  // a small one
    c.inputs[0] = random_tensor(DType::kF32, {1, 100}, -1, 1, 1);
    c.inputs[1] = random_tensor(DType::kF32, {kColumns, 100}, -1, 1, 2);
  });
}

}  // namespace
}  // namespace smelt
