// float64, uint64 and powers of integers element by element, and divisions that must fail on 0.
#include <cmath>
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "tests/support/vulkan_float64.h"

namespace smelt::vulkan {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

class VulkanFloat64 : public VulkanDoubleTest {};

Tensor tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor t(dtype, shape);
  from_doubles(values.data(), t);
  return t;
}

Tensor long_tensor(DType dtype, const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>(dtype, Shape{static_cast<int64_t>(values.size())}, values);
}

constexpr Tolerance kExact{1e-14, 1e-14};

TEST_F(VulkanFloat64, BinaryFunctionsOfDoubles) {
  const Tensor x = tensor(DType::kF64, {2, 6}, {1.25, -3e200, kNan, 0, 7, 1e-300, -2.5, kInf, 5, 1.0 / 3, 8, -1});
  const Tensor y = tensor(DType::kF64, {6}, {0.1, 2, 3, -4, 7, 5e-301});
  for (Binary fn : {Binary::kAdd,       Binary::kSub,          Binary::kMul,        Binary::kDiv,
                    Binary::kMin,       Binary::kMax,          Binary::kPRelu,      Binary::kSquaredDifference,
                    Binary::kFloorDiv,  Binary::kTruncDiv,     Binary::kFmin,       Binary::kFmax,
                    Binary::kEqual,     Binary::kNotEqual,     Binary::kLess,       Binary::kLessEqual,
                    Binary::kGreater,   Binary::kGreaterEqual, Binary::kLogicalAnd, Binary::kLogicalOr,
                    Binary::kLogicalXor})
    for (ActKind act : {ActKind::kNone, ActKind::kRelu6}) {
      BinaryAttrs a(fn, Activation{act});
      if (fn == Binary::kAdd) a.alpha = 0.3;
      check_on_gpu({to_string(fn), Op::kBinary, make_attrs<BinaryAttrs>(a), {x, y}}, "binary_float64", kExact);
    }
}

TEST_F(VulkanFloat64, UnaryFunctionsOfDoubles) {
  const std::vector<double> values = {0,          -0.0,  0.5,   -0.5, 1.5,  2.5,   -2.5,
                                      1e15 + 0.5, -7.25, 1e300, 3,    kInf, -kInf, kNan};
  const Tensor x = tensor(DType::kF64, {static_cast<int64_t>(values.size())}, values);
  for (Unary fn :
       {Unary::kIdentity, Unary::kAbs,   Unary::kNeg,     Unary::kSqrt,       Unary::kRsqrt,    Unary::kSquare,
        Unary::kRelu,     Unary::kRelu6, Unary::kClamp,   Unary::kLeakyRelu,  Unary::kSign,     Unary::kFloor,
        Unary::kCeil,     Unary::kRound, Unary::kTrunc,   Unary::kReciprocal, Unary::kSoftsign, Unary::kNot,
        Unary::kIsNan,    Unary::kIsInf, Unary::kIsFinite})
    check_on_gpu({to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(fn, 0.1, 1.7), {x}}, "unary_float64", kExact);
  OpCase clamp{"clamp", Op::kClamp, make_attrs<NoAttrs>(), {x, tensor(DType::kF64, {}, {0.1})}, {1}};
  check_on_gpu(clamp, "clamp", kExact);
}

TEST_F(VulkanFloat64, CastsOfDoubles) {
  for (DType other : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8,
                      DType::kI16, DType::kU16, DType::kU32, DType::kBool})
    for (bool clamp : {false, true}) {
      CastAttrs to(other), from(DType::kF64);
      to.clamp = from.clamp = clamp;
      std::vector<double> values = {0, 1.0 / 3, 1, -1.5, 2.5, 300.25, 1e5, 3e9, -3e9, 1e18, -1e19, 1e19, kNan};
      if (is_float(other)) values = {0, 1.0 / 3, 1, -1.5, 65504, 1e-3, kInf, -kInf, kNan};
      const Tensor x = tensor(DType::kF64, {static_cast<int64_t>(values.size())}, values);
      check_on_gpu({Cat("to ", to_string(other), clamp), Op::kCast, make_attrs<CastAttrs>(to), {x}}, "cast");
      const Tensor y = tensor(other, {5}, {0, 1, 1, 0, 1});
      check_on_gpu({Cat("from ", to_string(other)), Op::kCast, make_attrs<CastAttrs>(from), {y}}, "cast");
    }
}

TEST_F(VulkanFloat64, SaturatingCasts) {
  for (DType to : {DType::kI64, DType::kU32}) {
    CastAttrs a(to);
    a.clamp = true;
    const Tensor x = tensor(DType::kF32, {8}, {0, -1, 7.75, 3e9, 5e9, -5e18, 1e20, kNan});
    check_on_gpu({to_string(to), Op::kCast, make_attrs<CastAttrs>(a), {x}}, "cast");
  }
}

TEST_F(VulkanFloat64, MovesOfDoubles) {
  const Tensor x = tensor(DType::kF64, {2, 3}, {1, 2, 3, 1e300, 5, -1}), y = tensor(DType::kF64, {3}, {7, 8, 1.0 / 3});
  const Tensor c = tensor(DType::kBool, {2, 1}, {1, 0});
  check_on_gpu({"where", Op::kWhere, make_attrs<NoAttrs>(), {c, x, y}}, "where", {0, 0});
}

TEST_F(VulkanFloat64, UnsignedLongs) {
  const Tensor x = long_tensor(DType::kU64, {0, 1, -1, INT64_MIN, 1LL << 40, 5});
  const Tensor y = long_tensor(DType::kU64, {3, 1, -1, 2, 1LL << 33, 64});
  for (Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kBitAnd, Binary::kBitOr, Binary::kBitXor,
                    Binary::kEqual, Binary::kNotEqual, Binary::kShiftLeft})
    check_on_gpu({to_string(fn), Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y}}, "binary_integer");
  for (DType to : {DType::kI32, DType::kU32, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kBool})
    check_on_gpu({Cat("to ", to_string(to)), Op::kCast, make_attrs<CastAttrs>(to), {x}}, "cast");
  const Tensor i = tensor(DType::kI32, {3}, {0, -1, 70000});
  check_on_gpu({"from int32", Op::kCast, make_attrs<CastAttrs>(DType::kU64), {i}}, "cast");
}

TEST_F(VulkanFloat64, PowersOfIntegers) {
  const std::vector<double> bases = {2, -2, 3, -3, 10, 0, 1, -1, 7, 2147483647.0, -2147483648.0, 46341, 5};
  const std::vector<double> powers = {-3, -2, -1, 0, 1, 2, 3, 5, 13, 19, 31, 32, 62, 63, 64, 1000};
  const auto m = static_cast<int64_t>(bases.size()), n = static_cast<int64_t>(powers.size());
  for (DType dtype : {DType::kI32, DType::kI64})
    check_on_gpu({to_string(dtype),
                  Op::kBinary,
                  make_attrs<BinaryAttrs>(Binary::kPow),
                  {tensor(dtype, {m, 1}, bases), tensor(dtype, {n}, powers)}},
                 "binary_integer");
}

TEST_F(VulkanFloat64, CheckedDivisions) {
  for (DType dtype : {DType::kI32, DType::kI64, DType::kI16})
    for (Binary fn : {Binary::kDiv, Binary::kFloorDiv, Binary::kMod}) {
      BinaryAttrs a(fn, Activation{dtype == DType::kI16 ? ActKind::kNone : ActKind::kRelu6});
      a.checked_division = true;
      OpCase c{Cat(to_string(fn), " ", to_string(dtype)), Op::kBinary, make_attrs<BinaryAttrs>(a)};
      c.inputs = {tensor(dtype, {2, 3}, {7, -7, 9, -32768, 100, 0}), tensor(dtype, {3}, {2, 3, -4})};
      check_on_gpu(c, dtype == DType::kI16 ? "legalized_types" : "binary_integer");
      c.inputs[1] = tensor(dtype, {3}, {2, 0, -4});
      const auto run = run_on_gpu(c);
      ASSERT_FALSE(run.ok());
      EXPECT_EQ(run.error().code(), ErrorCode::kInvalidInput);
      EXPECT_NE(run.error().message().find("division by zero"), std::string::npos) << run.error().message();
    }
}

}  // namespace
}  // namespace smelt::vulkan
