#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(BinaryXnnpack, FunctionsTypesAndShapes) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 7, 53}, {3, 7, 53}}, {{2, 5, 9}, {9}}, {{4, 6}, {1}}, {{3, 1}, {1, 300}}};
  for (const auto& [a, b] : shapes)
    for (const DType type : {DType::kI8, DType::kU8})
      for (const auto& [fn, coarse] : {std::pair{Binary::kAdd, 1.0f},
                                       {Binary::kSub, 1.0f},
                                       {Binary::kSub, 100.0f},
                                       {Binary::kMul, 1.0f},
                                       {Binary::kMul, 0.25f}}) {
        BinaryAttrs attrs(fn);
        attrs.rounding = Rounding::kXnnpack;
        if (fn == Binary::kAdd) attrs.act.kind = ActKind::kRelu6;
        const int32_t zero = type == DType::kU8 ? 120 : -5;
        OpCase c{Cat(to_string(fn), ' ', to_string(type), ' ', a.str(), b.str()),
                 Op::kBinary,
                 make_attrs<BinaryAttrs>(attrs),
                 {random_quantized(type, a, 0.05f, zero, 1), random_quantized(type, b, 0.035f, zero, 2)}};
        c.outputs[0].dtype = type;
        c.outputs[0].quant = per_tensor(0.05f * (fn == Binary::kMul ? 4.0f : 2.1f) * coarse, zero + 3);
        check_on_cpu(c, "binary_xnnpack");
      }
}

}  // namespace
}  // namespace smelt
