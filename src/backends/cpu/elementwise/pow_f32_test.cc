#include <limits>

#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

void check_power(const char* name, Tensor a, Tensor b) {
  check_on_cpu({name, Op::kBinary, make_attrs<BinaryAttrs>(Binary::kPow), {std::move(a), std::move(b)}}, "pow_f32");
}

TEST(PowF32, Broadcasts) {
  const auto bases = [](const Shape& s) { return random_tensor(DType::kF32, s, 0.001, 30, 1); };
  const auto exponents = [](const Shape& s) { return random_tensor(DType::kF32, s, -9, 9, 2); };
  check_power("equal shapes", bases({3, 67}), exponents({3, 67}));
  check_power("one exponent", bases({3, 67}), exponents({1}));
  check_power("one base", bases({}), exponents({5, 21}));
  check_power("rows", bases({7, 1}), exponents({1, 9}));
}

TEST(PowF32, SpecialNumbers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers{0.0f, -0.0f, 1.0f,  -1.0f,   0.5f, -0.5f,    2.0f, -2.0f, 3.0f, -3.0f,
                                   2.5f, -2.5f, 1e30f, -1e-30f, 7e9f, 1.4e-45f, inf,  -inf,  nan};
  const auto n = static_cast<int64_t>(numbers.size());
  // Once with vectors that hold infinities and once without.
  for (const int64_t count : {n, n - 3}) {
    const std::vector<float> some(numbers.begin(), numbers.begin() + count);
    check_power("special", Tensor::from<float>(DType::kF32, {count, 1}, some),
                Tensor::from<float>(DType::kF32, {1, count}, some));
  }
}

}  // namespace
}  // namespace smelt
