#include "base/cat.h"
#include "ops/softmax/softmax.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(SoftmaxDequantized, AxesTypesAndScales) {
  for (const DType from : {DType::kI8, DType::kU8})
    for (const DType to : {DType::kI8, DType::kU8})
      for (const auto& [axis, flatten, shape, scale] :
           {std::tuple<int64_t, bool, Shape, float>{-1, false, {3, 70}, 0.06f},
            {1, false, {3, 17, 30}, 0.06f},
            {1, true, {3, 17, 30}, 0.11f},
            {-1, false, {9, 1}, 0.1f},
            {1, false, {2, 3, 500}, 0.06f},
            {-1, false, {100, 16}, 0.06f},
            {-1, false, {2, 3000}, 0.02f},
            {0, false, {300, 4}, 2.0f}}) {
        SoftmaxAttrs a;
        a.axis = axis;
        a.flatten = flatten;
        a.beta = axis == 0 ? 0.7 : 1;
        OpCase c{Cat(to_string(from), ' ', to_string(to), ' ', shape.str()),
                 Op::kSoftmax,
                 make_attrs<SoftmaxAttrs>(a),
                 {random_quantized(from, shape, scale, 4, 1)}};
        c.inputs[0].set_quant(per_tensor(scale, 4));
        c.outputs[0] = ValueType::tensor(to, {}, per_tensor(1.0f / 256, to == DType::kI8 ? -128 : 0));
        c.threaded = true;
        check_on_cpu(c, "softmax_dequantized");
      }
}

}  // namespace
}  // namespace smelt
