#include <cmath>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

Tensor quantized_8bit(DType dtype, const Shape& shape, float scale, int32_t zero, uint32_t seed) {
  const bool s = dtype == DType::kI8;
  Tensor t = random_tensor(dtype, shape, s ? -128 : 0, s ? 127 : 255, seed);
  t.set_quant(per_tensor(scale, zero));
  return t;
}

TEST(Quantize, LookupTablesAndAffine) {
  OpCase d{"dequantize", Op::kDequantize, make_attrs<NoAttrs>(), {quantized_8bit(DType::kU8, {5, 100}, 0.05f, 3, 1)}};
  d.outputs[0].dtype = DType::kF32;
  check_on_cpu(d, "dequantize_lookup_table");
  for (DType t : {DType::kU8, DType::kI8})
    for (int zero : {-128, -3, 0, 127, 255}) {
      if (zero < (t == DType::kI8 ? -128 : 0) || zero > (t == DType::kI8 ? 127 : 255)) continue;
      d.inputs = {quantized_8bit(t, {5, 103}, 0.37f, zero, 1)};
      check_on_cpu(d, "dequantize_affine", {0, 0});
    }
  OpCase q{"requantize", Op::kQuantize, make_attrs<NoAttrs>(), {quantized_8bit(DType::kU8, {5, 100}, 0.05f, 3, 1)}};
  q.outputs[0].dtype = DType::kI8;
  q.outputs[0].quant = per_tensor(0.04f, -8);
  check_on_cpu(q, "quantize_lookup_table");
}

TEST(Quantize, IntegersToOtherParams) {
  const DType types[] = {DType::kI8, DType::kU8, DType::kI16, DType::kI32};
  for (DType from : types)
    for (DType to : types)
      for (float scale : {0.0001f, 0.7f, 31.0f}) {
        OpCase c{Cat(to_string(from), " to ", to_string(to), ' ', scale), Op::kQuantize, make_attrs<NoAttrs>(), {}};
        Tensor x = random_tensor(from, {3, 50}, from == DType::kU8 ? 0 : -128, from == DType::kI32 ? 1e9 : 127, 1);
        x.set_quant(per_tensor(0.5f, 3, Rounding::kFixedDouble));
        c.inputs = {x};
        c.outputs[0] =
            ValueType::tensor(to, {3, 50}, per_tensor(scale, to == DType::kU8 ? 100 : -5, Rounding::kFixedDouble));
        check_on_cpu(c, "requantize");
      }
}

TEST(Quantize, Floats) {
  std::vector<float> x;
  for (int i = -700; i < 700; ++i) x.push_back(static_cast<float>(i) * 0.025f);  // ties among them
  x.insert(x.end(), {NAN, INFINITY, -INFINITY, 1e30f, -0.0f});
  const Tensor real = Tensor::from<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x);
  for (DType to : {DType::kI8, DType::kU8}) {
    for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble}) {
      OpCase c{"quantize", Op::kQuantize, make_attrs<NoAttrs>(), {real}};
      c.outputs[0].dtype = to;
      c.outputs[0].quant = per_tensor(0.05f, to == DType::kI8 ? -8 : 99, rounding);
      check_on_cpu(c, "quantize_f32");
    }
    auto attrs = std::make_shared<QuantizeLinearAttrs>();
    attrs->to = to;
    OpCase c{"linear",
             Op::kQuantizeLinear,
             attrs,
             {real, random_tensor(DType::kF32, {}, 0.05, 0.05, 1), random_tensor(to, {}, 7, 7, 1)},
             {1, 2}};
    check_on_cpu(c, "quantize_linear_f32");
    attrs = std::make_shared<QuantizeLinearAttrs>();
    attrs->to = DType::kF32;
    OpCase back{"back",
                Op::kDequantizeLinear,
                attrs,
                {random_tensor(to, {3, 50}, 0, 127, 1), random_tensor(DType::kF32, {}, 0.05, 0.05, 1),
                 random_tensor(to, {}, 7, 7, 1)},
                {1, 2}};
    check_on_cpu(back, "dequantize_linear_lookup_table");
    check_on_cpu(back, "dequantize_linear_affine", {0, 0});
    back.constants.clear();
    check_on_cpu(back, "dequantize_linear_affine_run_time", {0, 0});
    back.inputs.pop_back();
    check_on_cpu(back, "dequantize_linear_affine_run_time", {0, 0});
  }
}

}  // namespace
}  // namespace smelt
