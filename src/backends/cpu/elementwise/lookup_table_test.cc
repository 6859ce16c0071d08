#include "backends/cpu/elementwise/lookup_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

Tensor bytes(DType dtype, const Shape& shape, float scale, int32_t zero, uint32_t seed) {
  const bool s = dtype == DType::kI8;
  Tensor t = random_tensor(dtype, shape, s ? -128 : 0, s ? 127 : 255, seed);
  t.set_quant(per_tensor(scale, zero));
  return t;
}

TEST(LookupTable, XnnpackRules) {
  for (Unary fn : {Unary::kIdentity, Unary::kLeakyRelu, Unary::kSigmoid, Unary::kTanh, Unary::kElu})
    for (DType dtype : {DType::kI8, DType::kU8}) {
      UnaryAttrs attrs(fn, fn == Unary::kElu ? 1 : 0.1, 1, 1);
      attrs.rounding = Rounding::kXnnpack;
      OpCase c{to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(attrs), {bytes(dtype, {3, 7, 11}, 0.05f, 3, 1)}};
      c.outputs[0].dtype = dtype;
      c.outputs[0].quant = per_tensor(0.02f, dtype == DType::kI8 ? -100 : 17);
      check_on_cpu(c, "unary_lookup_table");
    }
}

TEST(LookupTable, Unary) {
  for (Unary fn : {Unary::kHardSwish, Unary::kSigmoid, Unary::kTanh, Unary::kAbs})
    for (DType dtype : {DType::kI8, DType::kU8}) {
      OpCase c{to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(fn), {bytes(dtype, {3, 7, 11}, 0.05f, 3, 1)}};
      c.outputs[0].dtype = dtype;
      c.outputs[0].quant = per_tensor(0.01f, dtype == DType::kI8 ? -100 : 17);
      check_on_cpu(c, "unary_lookup_table");
    }
}

TEST(LookupTable, FunctionsOfManyScales) {
  std::vector<int8_t> all(256);
  for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = static_cast<int8_t>(i - 128);
  for (Unary fn : {Unary::kSigmoid, Unary::kTanh})
    for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kFloatHalfEven})
      for (int i = 0; i < 60; ++i) {
        UnaryAttrs attrs(fn);
        attrs.rounding = rounding;
        Tensor x = Tensor::view(DType::kI8, {16, 16}, all.data(), nullptr);
        x.set_quant(per_tensor(std::ldexp(1.0f + 0.017f * static_cast<float>(i), i % 30 - 25), i * 3 - 70));
        OpCase c{Cat(to_string(fn), ' ', i), Op::kUnary, make_attrs<UnaryAttrs>(attrs), {x}};
        c.outputs[0].dtype = DType::kI8;
        const bool usual = i % 3 > 0;
        c.outputs[0].quant = fn == Unary::kSigmoid
                                 ? per_tensor(usual ? 1.0f / 256 : 0.0001f * static_cast<float>(i + 1), -128)
                                 : per_tensor(usual ? 1.0f / 128 : 0.0001f * static_cast<float>(i + 1), 0);
        check_on_cpu(c, "unary_lookup_table");
      }
}

TEST(LookupTable, KeysAreEqualWhereTablesAre) {
  const ValueType y = ValueType::tensor(DType::kI8, {}, per_tensor(0.01f, 3));
  const auto key = [&](Op op, AttrsPtr attrs) {
    Node node;
    node.op = op;
    node.attrs = std::move(attrs);
    return TableKey(node, y);
  };
  const auto unary = [&](Unary fn, double a, Rounding rounding = Rounding::kFloatHalfEven) {
    UnaryAttrs attrs(fn, a);
    attrs.rounding = rounding;
    return key(Op::kUnary, make_attrs<UnaryAttrs>(attrs));
  };
  EXPECT_EQ(unary(Unary::kElu, 1), unary(Unary::kElu, 1));
  EXPECT_NE(unary(Unary::kElu, 1), unary(Unary::kElu, 0.5));
  EXPECT_NE(unary(Unary::kElu, 1), unary(Unary::kLeakyRelu, 1));
  EXPECT_NE(unary(Unary::kElu, 1), unary(Unary::kElu, 1, Rounding::kFixedDouble));
  EXPECT_NE(key(Op::kBinary, make_attrs<BinaryAttrs>()), key(Op::kUnary, make_attrs<UnaryAttrs>()));
  const auto shared = make_attrs<BinaryAttrs>(Binary::kMax);
  EXPECT_EQ(key(Op::kBinary, shared), key(Op::kBinary, shared));
}

TEST(LookupTable, Binary) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 16, 9, 11}, {2, 16, 9, 11}},
                                            {{2, 30, 40}, {1}},
                                            {{2, 30, 40}, {2, 1, 40}},
                                            {{64, 1, 40}, {30, 1}},
                                            {{1}, {50, 60}}};
  for (const auto& [a, b] : shapes)
    for (Binary fn : {Binary::kAdd, Binary::kMul, Binary::kSub, Binary::kMax, Binary::kLess}) {
      OpCase c{std::string(to_string(fn)) + a.str() + b.str(),
               Op::kBinary,
               make_attrs<BinaryAttrs>(fn),
               {bytes(DType::kI8, a, 0.05f, 3, 1), bytes(DType::kI8, b, 0.02f, -7, 2)},
               {1}};
      if (!gives_bool(fn)) {
        c.outputs[0].dtype = DType::kI8;
        c.outputs[0].quant = per_tensor(0.06f, 1);
      }
      check_on_cpu(c, "binary_lookup_table");
      if (fn == Binary::kAdd || fn == Binary::kMul || fn == Binary::kSub) check_on_cpu(c, "binary_i8");
    }
}

TEST(LookupTable, HashTablesOfBytes) {
  for (const DType type : {DType::kI8, DType::kU8})
    for (const int64_t keys : {3, 256, 300}) {
      OpCase c{Cat(to_string(type), ' ', keys),
               Op::kTableFind,
               make_attrs<NoAttrs>(),
               {bytes(type, {7, 45}, 0.05f, 3, 1), random_tensor(type, {keys}, 0, 100, 2),
                random_tensor(DType::kU8, {keys}, 0, 255, 3), random_tensor(DType::kU8, {1}, 9, 9, 4)},
               {1, 2, 3}};
      c.outputs[0].dtype = DType::kU8;
      check_on_cpu(c, "byte_lookup_table");
    }
}

TEST(LookupTable, SumsOfBytes) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble}) {
      BinaryAttrs attrs(Binary::kSub);
      attrs.alpha = 0.3;
      attrs.act.kind = ActKind::kRelu6;
      OpCase c{Cat(to_string(dtype), static_cast<int>(rounding)),
               Op::kBinary,
               make_attrs<BinaryAttrs>(attrs),
               {bytes(dtype, {5, 333}, 0.05f, 3, 1), bytes(dtype, {5, 333}, 0.02f, 17, 2)},
               {1}};
      c.outputs[0].dtype = dtype;
      c.outputs[0].quant = per_tensor(0.06f, 1, rounding);
      check_on_cpu(c, "binary_i8");
    }
}

}  // namespace
}  // namespace smelt
