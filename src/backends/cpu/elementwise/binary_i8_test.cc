#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(BinaryI8, TiesExtremesAndTypes) {
  struct Scales {
    float a, b, y;
  };
  // Among them results that lie halfway between integers, and such as saturate.
  const Scales scales[] = {{0.5f, 0.25f, 1.0f},
                           {0.037f, 0.0211f, 0.058f},
                           {1.0f, 1.0f, 0.003f},
                           {1e-20f, 3e19f, 0.7f},
                           {0.0041f, 1.0f, 0.0042f}};
  for (const Scales& s : scales)
    for (const Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul})
      for (const DType a : {DType::kI8, DType::kU8})
        for (const DType y : {DType::kI8, DType::kU8})
          for (const Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble})
            for (const ActKind act : {ActKind::kNone, ActKind::kRelu6}) {
              BinaryAttrs attrs(fn);
              attrs.act.kind = act;
              OpCase c{Cat(to_string(fn), ' ', s.a, ' ', s.y, ' ', to_string(a), ' ', to_string(y)),
                       Op::kBinary,
                       make_attrs<BinaryAttrs>(attrs),
                       {random_quantized(a, {3, 211}, s.a, a == DType::kI8 ? -7 : 119, 1),
                        random_quantized(DType::kI8, {3, 211}, s.b, 5, 2)},
                       {},
                       {ValueType::tensor(y, {}, per_tensor(s.y, y == DType::kI8 ? -3 : 200, rounding))}};
              check_on_cpu(c, "binary_i8");
            }
}

TEST(BinaryI8, OneValueForMany) {
  for (const Binary fn : {Binary::kAdd, Binary::kMul})
    for (const DType dtype : {DType::kI8, DType::kU8})
      for (const bool first : {false, true}) {
        const int32_t zero = dtype == DType::kI8 ? 5 : 130;
        const Tensor many = random_quantized(dtype, {3, 211}, 0.037f, zero, 1),
                     one = random_quantized(dtype, {3, 1}, 0.0211f, zero, 2);
        check_on_cpu({Cat(to_string(fn), ' ', to_string(dtype), first ? " one first" : " one second"),
                      Op::kBinary,
                      make_attrs<BinaryAttrs>(fn),
                      {first ? one : many, first ? many : one},
                      {},
                      {ValueType::tensor(dtype, {}, per_tensor(0.058f, zero, Rounding::kFloatHalfEven))}},
                     "binary_i8");
      }
}

}  // namespace
}  // namespace smelt
