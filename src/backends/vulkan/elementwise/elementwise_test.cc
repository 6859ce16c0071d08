// Element-wise kernels of the device against the reference kernels.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/unary_math.h"
#include "tests/support/vulkan_check.h"

namespace smelt::test {
namespace {

std::vector<double> spread(int64_t n, double low, double high, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> u(low, high);
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) x = u(random);
  return v;
}

/// Runs on both back-ends. The device runs what its kernels take and the CPU the rest; both have to agree, on what they
/// refuse too.
void expect_same(OpRunner op, double atol, double rtol, const std::string& what) {
  SCOPED_TRACE(what);
  if (op.run_all().ok())
    vulkan::check_same(op, {atol, rtol});
  else
    EXPECT_FALSE(op.backend(BackendKind::kVulkan).run_all().ok());
}

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(VulkanElementwise, UnaryFunctionsOfReals) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int f = 0; f < static_cast<int>(Unary::kCount); ++f) {
      const auto fn = static_cast<Unary>(f);
      if (fn == Unary::kBitNot) continue;
      auto x = spread(200, -4, 4);
      for (double v : {0.0, -0.0, 0.5, 1.0, -1.0, 2.5, -2.5, 20.0, -20.0, 90.0, kInf, -kInf, kNan}) x.push_back(v);
      const auto n = static_cast<int64_t>(x.size());
      const double tolerance = dtype == DType::kF32 ? 1e-5 : 2e-3;
      expect_same(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(fn, 0.25, 0.5, 0.75)).input(tensor(dtype, {n}, x)),
                  tolerance, tolerance, to_string(fn));
    }
}

TEST(VulkanElementwise, LargeAngles) {
  SKIP_WITHOUT_GPU();
  const Tensor x = floats({7}, {1000, 1e5, -3e6, 1e9, 123456789012.0, -1e30, 3.4e38});
  for (Unary fn : {Unary::kSin, Unary::kCos})
    expect_same(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(fn)).input(x), 1e-6, 1e-6, to_string(fn));
}

TEST(VulkanElementwise, UnaryFunctionsOfIntegers) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kBool})
    for (int f = 0; f < static_cast<int>(Unary::kCount); ++f) {
      const auto fn = static_cast<Unary>(f);
      const Tensor x = tensor(
          dtype, {6},
          dtype == DType::kBool ? std::vector<double>{0, 1, 1, 0, 1, 0} : std::vector<double>{0, 1, 2, 5, 9, 127});
      expect_same(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(fn, 1, 5)).input(x), 0, 0, to_string(fn));
    }
}

TEST(VulkanElementwise, BinaryFunctionsOfReals) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int f = 0; f < static_cast<int>(Binary::kCount); ++f) {
      const auto fn = static_cast<Binary>(f);
      if (fn >= Binary::kBitAnd && fn <= Binary::kShiftRightLogical) continue;
      auto a = spread(120, -5, 5), b = spread(12, -3, 3, 2);
      a[0] = 0, a[1] = 4, a[2] = -4, b[0] = 2, b[1] = -2, b[2] = 0.5, b[3] = 3;
      const double tolerance = dtype == DType::kF32 ? 1e-5 : 3e-3;
      expect_same(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(fn))
                      .input(tensor(dtype, {10, 12}, a))
                      .input(tensor(dtype, {12}, b)),
                  tolerance, tolerance, to_string(fn));
      expect_same(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(fn, Activation{ActKind::kRelu6}))
                      .input(tensor(dtype, {5}, {1, 2, kInf, kNan, -3}))
                      .input(tensor(dtype, {5}, {kNan, -kInf, 2, 1, 2})),
                  tolerance, tolerance, to_string(fn));
    }
}

TEST(VulkanElementwise, BinaryFunctionsOfIntegers) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kI32, DType::kI64, DType::kI8, DType::kU8})
    for (int f = 0; f < static_cast<int>(Binary::kCount); ++f) {
      const auto fn = static_cast<Binary>(f);
      if (fn == Binary::kAtan2 || fn == Binary::kHypot) continue;
      const bool is_signed = dtype != DType::kU8;
      const Tensor a = tensor(dtype, {2, 4}, {0, 7, is_signed ? -7.0 : 9.0, 100, 3, is_signed ? -1.0 : 4.0, 6, 12});
      const Tensor b = tensor(dtype, {4}, {2, 3, is_signed ? -2.0 : 0.0, 5});
      expect_same(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(fn)).input(a).input(b), 0, 0, to_string(fn));
      expect_same(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(fn, Activation{ActKind::kRelu6})).input(a).input(b), 0,
                  0, to_string(fn));
    }
}

TEST(VulkanElementwise, QuantizedFunctionsAreExact) {
  SKIP_WITHOUT_GPU();
  for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble})
    for (DType dtype : {DType::kI8, DType::kU8}) {
      const auto a = quantized(dtype, {3, 2}, {1, 5, 100, 60, 0, 33}, 0.05f, 10, rounding);
      const auto b = quantized(dtype, {2}, {77, 3}, 0.07f, 5, rounding);
      const auto y = ValueType::tensor(dtype, Shape{3, 2}, per_tensor(0.09f, 20, rounding));
      for (Binary fn : {Binary::kAdd, Binary::kMul, Binary::kSub, Binary::kMax}) {
        BinaryAttrs attrs(fn);
        attrs.rounding = rounding;
        expect_same(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).outputs({y}), 0, 0,
                    to_string(fn));
      }
      UnaryAttrs attrs(Unary::kTanh);
      attrs.rounding = rounding;
      expect_same(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(attrs)).input(a).outputs({y}), 0, 0, "tanh");
      expect_same(OpRunner(Op::kQuantize, make_attrs<NoAttrs>()).input(a).outputs({y}), 0, 0, "requantize");
      expect_same(OpRunner(Op::kDequantize, make_attrs<NoAttrs>()).input(a), 0, 0, "dequantize");
    }
}

TEST(VulkanElementwise, QuantizesAndDequantizes) {
  SKIP_WITHOUT_GPU();
  const auto axis = std::make_shared<const Quantization>(Quantization{
      .kind = Quantization::Kind::kPerAxis, .scales = {0.1f, 0.02f, 0.5f}, .zero_points = {0, 3, 1}, .axis = 1});
  for (DType real : {DType::kF32, DType::kF16})
    for (DType quantized : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32}) {
      const Tensor x = tensor(real, {2, 3, 4}, spread(24, -2, 9));
      for (const QuantPtr& q :
           {per_tensor(0.0625f, 7), per_tensor(0.0625f, 7, Rounding::kFixedDouble), QuantPtr(axis)}) {
        const auto type = ValueType::tensor(quantized, Shape{2, 3, 4}, q);
        expect_same(OpRunner(Op::kQuantize, make_attrs<NoAttrs>()).input(x).outputs({type}), 0, 0,
                    to_string(quantized));
        Tensor s = tensor(quantized, {2, 3, 4}, spread(24, 0, 100));
        s.set_quant(q);
        expect_same(OpRunner(Op::kDequantize, make_attrs<NoAttrs>())
                        .input(s)
                        .outputs({ValueType::tensor(real, Shape{2, 3, 4})}),
                    1e-6, real == DType::kF32 ? 1e-6 : 1e-3, to_string(quantized));
      }
      QuantizeLinearAttrs attrs;
      attrs.to = quantized;
      const Tensor scale = floats({3}, {0.5, 0.25, 0.125}), zero = tensor(quantized, {3}, {1, 2, 3});
      expect_same(
          OpRunner(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs)).input(x).constant(scale).constant(zero),
          0, 0, "QuantizeLinear");
      attrs.to = real;
      expect_same(OpRunner(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs))
                      .input(tensor(quantized, {2, 3, 4}, spread(24, 0, 100)))
                      .constant(scale)
                      .constant(zero),
                  0, 0, "DequantizeLinear");
    }
}

TEST(VulkanElementwise, Casts) {
  SKIP_WITHOUT_GPU();
  for (DType from : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kI8, DType::kBool})
    for (DType to :
         {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kBool})
      for (bool clamp : {false, true}) {
        std::vector<double> x = {0, 1, 2, 100, 3};
        if (from != DType::kBool) x = {0, 1.5, -1.5, 300.25, -70000, 3e9, -5e18, 0.25, 127};
        if (from == DType::kI32) x = {0, 1, -1, 300, -70000, 2147483647, -2147483648.0};
        if (from == DType::kI8) x = {0, 1, -1, 127, -128};
        if (from == DType::kF16) x = {0, 1.5, -1.5, 300.25, -7000, 0.1};
        if (from == DType::kBool) x = {0, 1, 1};
        CastAttrs attrs(to);
        attrs.clamp = clamp;
        const auto n = static_cast<int64_t>(x.size());
        expect_same(OpRunner(Op::kCast, make_attrs<CastAttrs>(attrs)).input(tensor(from, {n}, x)), 0, 0,
                    std::string(to_string(from)) + " to " + to_string(to));
      }
}

TEST(VulkanElementwise, FakeQuantization) {
  SKIP_WITHOUT_GPU();
  FakeQuantAttrs attrs;
  attrs.min = -1.3f;
  attrs.max = 2.1f;
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool narrow : {false, true}) {
      attrs.narrow_range = narrow;
      expect_same(
          OpRunner(Op::kFakeQuant, make_attrs<FakeQuantAttrs>(attrs)).input(tensor(dtype, {100}, spread(100, -3, 3))),
          1e-6, 1e-6, "fake quantization");
    }
}

TEST(VulkanElementwise, WhereAndClamp) {
  SKIP_WITHOUT_GPU();
  const Tensor c = tensor(DType::kBool, {3, 1}, {1, 0, 1});
  for (DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kI64}) {
    const Tensor a = tensor(dtype, {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                 b = tensor(dtype, {4}, {3, 5, 7, 9});
    expect_same(OpRunner(Op::kWhere, make_attrs<NoAttrs>()).input(c).input(a).input(b), 0, 0, to_string(dtype));
    expect_same(OpRunner(Op::kClamp, make_attrs<NoAttrs>())
                    .input(a)
                    .constant(tensor(dtype, {}, {3}))
                    .constant(tensor(dtype, {}, {8})),
                0, 0, to_string(dtype));
  }
}

}  // namespace
}  // namespace smelt::test
