// Functions of float64 values by series.
#include <cmath>
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tests/support/vulkan_float64.h"

namespace smelt::vulkan {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Tolerance kClose{1e-15, 1e-12};

class VulkanFloat64Functions : public VulkanDoubleTest {};

Tensor doubles(const std::vector<double>& v) {
  Tensor t(DType::kF64, Shape{static_cast<int64_t>(v.size())});
  from_doubles(v.data(), t);
  return t;
}

void check(Unary fn, std::vector<double> values, const Tolerance& near = kClose) {
  values.insert(values.end(), {kInf, -kInf, kNan, 0, -0.0});
  UnaryAttrs a(fn, 0.7, 1.3);
  a.c = 0.9;
  check_on_gpu({to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(a), {doubles(values)}}, "unary_float64", near);
}

std::vector<double> spread(double low, double high, int n) {
  std::vector<double> v;
  for (int i = 0; i <= n; ++i) v.push_back(low + (high - low) * (i + 0.37 * std::sin(i)) / n);
  return v;
}

TEST_F(VulkanFloat64Functions, Exponentials) {
  std::vector<double> far = spread(-740, 712, 500);
  for (Unary fn : {Unary::kExp, Unary::kExp2, Unary::kExpm1, Unary::kSigmoid, Unary::kTanh, Unary::kFastTanh,
                   Unary::kSinh, Unary::kCosh, Unary::kSoftplus, Unary::kLogSigmoid, Unary::kElu, Unary::kCelu,
                   Unary::kSelu, Unary::kQuickGelu, Unary::kSilu, Unary::kMish}) {
    check(fn, far);
    check(fn, spread(-3, 3, 500));
    check(fn, {1e-300, -1e-200, 1e-20, -1e-9, 0.34, -0.35, 1024, -1080, 709.7, 1e300});
  }
  for (Unary fn : {Unary::kGeluTanh, Unary::kTanhShrink}) check(fn, spread(-4, 4, 500), {1e-14, 1e-12});
}

TEST_F(VulkanFloat64Functions, Logarithms) {
  std::vector<double> v = spread(1e-9, 3, 500);
  v.insert(v.end(), {5e-324, 1e-310, 1e-300, 1, 1 + 1e-15, 1 - 1e-15, 2, 10, 1e300, 1.7e308, -1, -0.5, 1e-20, -1e-12});
  for (Unary fn : {Unary::kLog, Unary::kLog1p, Unary::kLog2, Unary::kLog10, Unary::kAsinh, Unary::kAcosh}) check(fn, v);
  check(Unary::kAtanh, spread(-1, 1, 500));
  check(Unary::kAsinh, spread(-50, 50, 500));
  check(Unary::kLogit, spread(0.001, 0.999, 500));
}

TEST_F(VulkanFloat64Functions, Angles) {
  for (Unary fn : {Unary::kAsin, Unary::kAcos, Unary::kAtan}) {
    check(fn, spread(-1.01, 1.01, 500));
    check(fn, {1e-300, -1e-20, 0.5, 1, -1, 3e5, -1e300});
  }
  check(Unary::kAtan, spread(-30, 30, 500));
}

TEST_F(VulkanFloat64Functions, ErrorFunctions) {
  for (Unary fn : {Unary::kErf, Unary::kErfc}) {
    check(fn, spread(-6, 26, 700));
    check(fn, {1e-300, -1e-9, 1.99999, 2, 27.5});
  }
  check(Unary::kGelu, spread(-6, 6, 500), {1e-14, 1e-12});
}

TEST_F(VulkanFloat64Functions, Ranges) {
  for (Unary fn : {Unary::kReluN1, Unary::kHardSigmoid, Unary::kRoundHalfAway, Unary::kThresholdedRelu, Unary::kShrink,
                   Unary::kHardShrink, Unary::kSoftShrink})
    check(fn, {0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 1e300, -7});
  UnaryAttrs a(Unary::kHardSwish);
  check_on_gpu({"hard swish", Op::kUnary, make_attrs<UnaryAttrs>(a), {doubles(spread(-5, 5, 50))}}, "unary_float64",
               kClose);
}

TEST_F(VulkanFloat64Functions, Powers) {
  const std::vector<double> x = {0, -0.0, 1, -1, 2, -2, 0.5, 10, 1.0 / 3, 1e-200, 1e200, kInf, -kInf, kNan, 7.25, -3};
  const std::vector<double> y = {0, 1, -1, 2, -2, 3, 0.5, -0.5, 1.5, 100, -99, 300.25, kInf, -kInf, kNan, 1e-9};
  Tensor rows = doubles(x);
  Tensor column(DType::kF64, Shape{static_cast<int64_t>(y.size()), 1});
  from_doubles(y.data(), column);
  for (Binary fn : {Binary::kPow, Binary::kAtan2})
    check_on_gpu({to_string(fn), Op::kBinary, make_attrs<BinaryAttrs>(fn), {rows, column}}, "binary_float64", kClose);
}

TEST_F(VulkanFloat64Functions, PowersOfTwoTypes) {
  const DType types[][2] = {
      {DType::kF32, DType::kF64}, {DType::kF64, DType::kF32}, {DType::kF32, DType::kI32}, {DType::kF64, DType::kI64}};
  for (const auto& [x, y] : types) {
    Tensor base(x, Shape{4, 1}), power(y, Shape{3});
    from_doubles(std::vector<double>{0.5, 2, 7.25, -3}.data(), base);
    from_doubles(std::vector<double>{2, -3, 5}.data(), power);
    check_on_gpu(
        {Cat(to_string(x), " ", to_string(y)), Op::kBinary, make_attrs<BinaryAttrs>(Binary::kPow), {base, power}},
        "binary_pow_float64", {1e-6, 1e-6});
  }
}

}  // namespace
}  // namespace smelt::vulkan
