#include <limits>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(Cast, RealNumbersToIntegers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{0,      -0.0f,    0.5f,    -0.5f, 1.5f,   2.5f,   -2.5f,  126.5f,  127.4f,
                                  127.6f, 128,      -127.5f, -128,  -129.5, 255.5f, 256,    300,     -300,
                                  32767,  32768.5f, -32769,  65535, 70000,  2e9f,   2.2e9f, -2.2e9f, 5e9f,
                                  -5e9f,  1e19f,    -1e19f,  9e18f, inf,    -inf,   nan,    3e38f,   -1e-30f};
  Tensor x = Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(values.size())}, values);
  Tensor wide(DType::kF64, x.shape());
  for (int64_t i = 0; i < x.elements(); ++i)
    wide.data<double>()[i] = static_cast<double>(values[static_cast<size_t>(i)]);
  for (const Tensor& from : {x, wide})
    for (const DType to : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kI64})
      for (int form = 0; form < 4; ++form) {
        CastAttrs a(to);
        a.round = form & 1;
        a.clamp = form & 2;
        OpCase c{Cat(to_string(from.dtype()), " to ", to_string(to), " form ", form),
                 Op::kCast,
                 make_attrs<CastAttrs>(a),
                 {from}};
        c.outputs[0].dtype = to;
        check_on_cpu(c, "cast");
      }
}

// Blocks of numbers that fit their type, and one with a number that does not.
TEST(Cast, ManyRealNumbersToIntegers) {
  for (const DType from : {DType::kF32, DType::kF64})
    for (const DType to : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kI64})
      for (const bool clamp : {false, true}) {
        CastAttrs a(to);
        a.clamp = clamp;
        Tensor x = random_tensor(from, {40000}, to == DType::kU8 || to == DType::kU16 ? 0 : -128, 127.9, 1);
        set_double(x, 700, 6e9);
        set_double(x, 39999, std::numeric_limits<double>::quiet_NaN());
        OpCase c{
            Cat(to_string(from), " to ", to_string(to), clamp), Op::kCast, make_attrs<CastAttrs>(a), {std::move(x)}};
        c.outputs[0].dtype = to;
        c.threaded = true;
        check_on_cpu(c, "cast");
      }
}

TEST(Cast, RealParts) {
  const OpCase c{"complex64",
                 Op::kCast,
                 make_attrs<CastAttrs>(DType::kF32),
                 {random_tensor(DType::kC64, {3, 7}, -2, 2, 1)},
                 {},
                 {ValueType::tensor(DType::kF32)}};
  check_on_cpu(c, "cast");
}

}  // namespace
}  // namespace smelt
