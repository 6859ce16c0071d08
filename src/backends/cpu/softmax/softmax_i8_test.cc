#include "base/cat.h"
#include "ops/softmax/softmax.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(SoftmaxI8, AxesAndTypes) {
  for (const DType type : {DType::kI8, DType::kU8})
    for (const auto& [axis, shape, scale] : {std::tuple<int64_t, Shape, float>{-1, {3, 17, 70}, 0.06f},
                                             {1, {3, 17, 70}, 0.06f},
                                             {-1, {40, 4}, 0.3f},
                                             {-1, {9, 1}, 0.1f},
                                             {-1, {2, 3000}, 0.001f},
                                             {-1, {33, 2}, 2.0f}}) {
      SoftmaxAttrs a;
      a.axis = axis;
      a.beta = 0.9;
      a.rounding = Rounding::kFixedDouble;
      OpCase c{Cat(to_string(type), ' ', axis),
               Op::kSoftmax,
               make_attrs<SoftmaxAttrs>(a),
               {random_quantized(type, shape, scale, 4, 1)}};
      c.outputs[0].dtype = type;
      c.outputs[0].quant = per_tensor(1.0f / 256, type == DType::kI8 ? -128 : 0, Rounding::kFixedDouble);
      check_on_cpu(c, "softmax_i8");
    }
}

TEST(SoftmaxI8, WideResults) {
  for (const DType type : {DType::kI8, DType::kU8}) {
    SoftmaxAttrs a;
    a.rounding = Rounding::kFixedDouble;
    OpCase c{
        to_string(type), Op::kSoftmax, make_attrs<SoftmaxAttrs>(a), {random_quantized(type, {37, 5}, 0.11f, 4, 1)}};
    c.outputs[0].dtype = DType::kI16;
    c.outputs[0].quant = per_tensor(1.0f / 65536, -32768, Rounding::kFixedDouble);
    check_on_cpu(c, "softmax_i8");
  }
}

}  // namespace
}  // namespace smelt
