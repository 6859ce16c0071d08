#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(BinaryFixed, FunctionsTypesAndShapes) {
  const std::pair<Shape, Shape> shapes[] = {{{3, 7, 53}, {3, 7, 53}},   {{2, 5, 9}, {9}},   {{4, 6}, {1}},
                                            {{3, 1}, {1, 300}},         {{2, 700, 3}, {3}}, {{40, 7, 16}, {40, 7, 1}},
                                            {{5, 1, 200}, {5, 9, 200}}, {{2, 30, 70}, {70}}};
  for (const auto& [a, b] : shapes)
    for (const DType type : {DType::kI8, DType::kU8, DType::kI16})
      for (const auto& [fn, coarse] : {std::pair{Binary::kAdd, 1.0f},
                                       {Binary::kSub, 1.0f},
                                       {Binary::kMul, 1.0f},
                                       {Binary::kSub, 2.0f},
                                       {Binary::kSub, 30.0f},
                                       {Binary::kMul, 500.0f}}) {
        BinaryAttrs attrs(fn);
        attrs.rounding = Rounding::kFixedDouble;
        if (fn == Binary::kAdd) attrs.act.kind = ActKind::kRelu6;
        const bool wide = type == DType::kI16;
        const int32_t zero = wide ? 0 : type == DType::kU8 ? 120 : -5;
        const float scale = wide ? 3e-4f : 0.05f;
        OpCase c{Cat(to_string(fn), ' ', to_string(type), ' ', a.str(), b.str()),
                 Op::kBinary,
                 make_attrs<BinaryAttrs>(attrs),
                 {random_quantized(type, a, scale, zero, 1), random_quantized(type, b, scale * 0.7f, zero, 2)}};
        c.outputs[0].dtype = type;
        c.outputs[0].quant = per_tensor(scale * (fn == Binary::kMul ? 90.0f : 2.1f) * coarse, wide ? 0 : zero + 3,
                                        Rounding::kFixedDouble);
        check_on_cpu(c, "binary_fixed");
      }
}

TEST(BinaryFixed, ProductsOfEveryPair) {
  for (const DType type : {DType::kI8, DType::kU8})
    for (const float coarse : {1.02f, 2.0f, 3.7f, 8.0f, 61.0f, 64.0f, 128.0f, 201.3f, 256.0f, 999.0f, 4096.0f}) {
      const int32_t least = type == DType::kI8 ? -128 : 0;
      Tensor a = random_quantized(type, {256, 1}, 0.125f, least + 120, 1),
             b = random_quantized(type, {1, 256}, 0.125f, least + 131, 2);
      for (int64_t i = 0; i < 256; ++i) {
        set_int(a, i, least + i);
        set_int(b, i, least + i);
      }
      BinaryAttrs attrs(Binary::kMul);
      attrs.rounding = Rounding::kFixedDouble;
      OpCase c{Cat(to_string(type), ' ', coarse), Op::kBinary, make_attrs<BinaryAttrs>(attrs), {a, b}};
      c.outputs[0].dtype = type;
      c.outputs[0].quant = per_tensor(coarse / 64, least + 125, Rounding::kFixedDouble);
      check_on_cpu(c, "binary_fixed");
    }
}

TEST(BinaryFixed, SquaredDifferences) {
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{40, 7, 16}, {40, 7, 1}}, {{3, 7, 53}, {3, 7, 53}}, {{1}, {300}}})
    for (const float coarse : {0.05f, 1.0f, 40.0f})
      for (const ActKind act : {ActKind::kNone, ActKind::kRelu6}) {
        BinaryAttrs attrs(Binary::kSquaredDifference, {act});
        attrs.rounding = Rounding::kFixedDouble;
        OpCase c{Cat(a.str(), b.str(), ' ', coarse),
                 Op::kBinary,
                 make_attrs<BinaryAttrs>(attrs),
                 {random_quantized(DType::kI8, a, 0.05f, -5, 1), random_quantized(DType::kI8, b, 0.07f, 9, 2)}};
        c.outputs[0].dtype = DType::kI8;
        c.outputs[0].quant = per_tensor(coarse, -128, Rounding::kFixedDouble);
        check_on_cpu(c, "binary_fixed");
      }
}

}  // namespace
}  // namespace smelt
