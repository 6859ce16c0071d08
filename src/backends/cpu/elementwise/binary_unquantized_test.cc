#include <cmath>
#include <limits>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tests/support/cpu_check.h"
#include "tests/support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(BinaryUnquantized, FunctionsAndTypes) {
  for (const DType type : {DType::kI32, DType::kI64, DType::kF32, DType::kBool})
    for (int i = 0; i < static_cast<int>(Binary::kCount); ++i) {
      const auto fn = static_cast<Binary>(i);
      const bool logical = fn == Binary::kLogicalAnd || fn == Binary::kLogicalOr || fn == Binary::kLogicalXor;
      const bool bits = fn == Binary::kBitAnd || fn == Binary::kBitOr || fn == Binary::kBitXor;
      if (logical != (type == DType::kBool)) continue;
      if (!logical && fn != Binary::kAdd && fn != Binary::kSub && fn != Binary::kMul && fn != Binary::kMin &&
          fn != Binary::kMax && (fn < Binary::kEqual || fn > Binary::kGreaterEqual) && (!bits || type == DType::kF32))
        continue;
      for (const auto& [a, b] : {std::pair{Shape{5, 1, 9}, Shape{7, 9}}, {{90}, {}}, {{}, {90}}, {{1}, {}}}) {
        OpCase c{Cat(to_string(fn), ' ', to_string(type), a.str(), b.str()),
                 Op::kBinary,
                 make_attrs<BinaryAttrs>(fn),
                 {random_tensor(type, a, 0, type == DType::kBool ? 1 : 4, 1),
                  random_tensor(type, b, 0, type == DType::kBool ? 1 : 4, 2)}};
        check_on_cpu(c, type == DType::kF32 && !gives_bool(fn) ? "binary_f32" : "binary_unquantized");
      }
    }
  OpCase square{"x^2",
                Op::kBinary,
                make_attrs<BinaryAttrs>(Binary::kPow),
                {random_tensor(DType::kF32, {5, 9}, -4, 4, 1), Tensor::from<float>(DType::kF32, {}, std::vector{2.0f})},
                {1}};
  check_on_cpu(square, "binary_unquantized");
}

TEST(BinaryUnquantized, ExtremesOfQuantizedIntegers) {
  for (const DType type : {DType::kI8, DType::kU8, DType::kI16})
    for (const Binary fn : {Binary::kMin, Binary::kMax})
      for (const bool quantized : {false, true})
        for (const auto& [a, b] : {std::pair{Shape{5, 90}, Shape{5, 90}}, {{5, 1, 9}, {7, 9}}, {{90}, {}}}) {
          OpCase c{Cat(to_string(fn), ' ', to_string(type), quantized ? " quantized " : " ", a.str(), b.str()),
                   Op::kBinary,
                   make_attrs<BinaryAttrs>(fn),
                   {random_quantized(type, a, 0.05f, 3, 1), random_quantized(type, b, 0.05f, 3, 2)},
                   {},
                   {ValueType::tensor(type, {}, per_tensor(0.05f, 3))}};
          if (!quantized) {
            for (Tensor& x : c.inputs) x.set_quant(nullptr);
            c.outputs.clear();
          }
          check_on_cpu(c, "binary_unquantized");
        }
}

TEST(BinaryUnquantized, Shifts) {
  for (const DType type : {DType::kU32, DType::kU64})
    for (const Binary fn : {Binary::kShiftLeft, Binary::kShiftRight})
      check_on_cpu({Cat(to_string(fn), ' ', to_string(type)),
                    Op::kBinary,
                    make_attrs<BinaryAttrs>(fn),
                    {random_tensor(type, {5, 90}, 0, 4e9, 1), random_tensor(type, {5, 90}, 0, 70, 2)}},
                   "binary_unquantized");
}

TEST(BinaryUnquantized, ComparisonsOfFloat32) {
  for (const Binary fn :
       {Binary::kEqual, Binary::kNotEqual, Binary::kLess, Binary::kLessEqual, Binary::kGreater, Binary::kGreaterEqual})
    for (const auto& [a, b] :
         {std::pair{Shape{3, 101}, Shape{3, 101}}, {{3, 101}, {101}}, {{3, 101}, {3, 1}}, {{}, {40}}}) {
      OpCase c{Cat(to_string(fn), a.str(), b.str()),
               Op::kBinary,
               make_attrs<BinaryAttrs>(fn),
               {random_tensor(DType::kF32, a, -3, 3, 1), random_tensor(DType::kF32, b, -3, 3, 2)}};
      const float odd[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -0.0f,
                           0.0f};
      for (Tensor& t : c.inputs)
        for (int64_t i = 0; i < t.elements(); ++i) {  // ties
          float& v = t.data<float>()[i];
          v = i % 7 < 4 && i > 9 ? odd[i % 4] : std::round(v);
        }
      check_on_cpu(c, "binary_unquantized");
    }
}

/// 16-bit and unsigned integers over their whole range: sums wrap, comparisons know the sign.
TEST(BinaryUnquantized, ShortAndUnsigned) {
  for (const DType type : {DType::kI16, DType::kU16, DType::kU32, DType::kU64})
    for (const Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kMin, Binary::kMax, Binary::kEqual,
                            Binary::kLess, Binary::kGreaterEqual}) {
      OpCase c{Cat(to_string(fn), ' ', to_string(type)),
               Op::kBinary,
               make_attrs<BinaryAttrs>(fn),
               {Tensor(type, {5, 1, 9}), Tensor(type, {7, 9})}};
      for (Tensor& t : c.inputs)
        for (int64_t i = 0; i < t.elements(); ++i)
          set_int(t, i, static_cast<int64_t>(0x9e3779b97f4a7c15u * static_cast<uint64_t>(i + 3 * t.rank())));
      check_on_cpu(c, "binary_unquantized");
    }
}

TEST(BinaryUnquantized, IntegerDivision) {
  for (const DType type : {DType::kI32, DType::kI64})
    for (const Binary fn : {Binary::kDiv, Binary::kTruncDiv, Binary::kFloorDiv, Binary::kMod, Binary::kFmod}) {
      Tensor a = random_tensor(type, {9, 23}, -40, 40, 1);
      const Tensor b = random_tensor(type, {23}, -4, 4, 2);  // some are 0 and -1
      if (type == DType::kI32)
        a.data<int32_t>()[0] = a.data<int32_t>()[24] = std::numeric_limits<int32_t>::min();
      else
        a.data<int64_t>()[0] = a.data<int64_t>()[24] = std::numeric_limits<int64_t>::min();
      check_on_cpu({Cat(to_string(fn), ' ', to_string(type)), Op::kBinary, make_attrs<BinaryAttrs>(fn), {a, b}},
                   "binary_unquantized");
    }
}

TEST(BinaryUnquantized, DivisionByZeroIsAnErrorWhereChecked) {
  BinaryAttrs attrs(Binary::kFloorDiv);
  attrs.checked_division = true;
  const std::vector<int32_t> dividends{7, 8, 9}, divisors{2, 0, 3};
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    OpRunner runner(Op::kBinary, make_attrs<BinaryAttrs>(attrs));
    runner.input(Tensor::from<int32_t>(DType::kI32, {3}, dividends));
    runner.input(Tensor::from<int32_t>(DType::kI32, {3}, divisors));
    const auto y = runner.backend(backend).run_all();
    ASSERT_FALSE(y.ok());
    EXPECT_NE(y.error().message().find("element 1 of the divisor is 0"), std::string::npos) << y.error().message();
  }
}

}  // namespace
}  // namespace smelt
