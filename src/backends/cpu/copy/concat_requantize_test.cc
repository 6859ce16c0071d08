#include "base/cat.h"
#include "ops/shape/shape.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ConcatRequantize, SeveralParams) {
  for (const Rounding rounding : {Rounding::kFixedDouble, Rounding::kFloatHalfEven})
    for (const DType type : {DType::kI8, DType::kU8})
      for (const int64_t axis : {1, -1}) {
        auto attrs = std::make_shared<AxisAttrs>();
        attrs->axis = axis;
        OpCase c;
        c.label = Cat(to_string(rounding), ' ', to_string(type), ' ', axis);
        c.op = Op::kConcat;
        c.attrs = attrs;
        const bool s = type == DType::kI8;
        constexpr int64_t kChannels[] = {7, 40, 607};
        for (int i = 0; i < 3; ++i) {
          const Shape shape = axis == 1 ? Shape{2, 3 + i, 310} : Shape{2, 5, kChannels[i]};
          Tensor t = random_tensor(type, shape, s ? -128 : 0, s ? 127 : 255, 5 + static_cast<uint32_t>(i));
          t.set_quant(per_tensor(0.05f + 0.013f * static_cast<float>(i), s ? 3 : 120, rounding));
          c.inputs.push_back(t);
        }
        c.outputs[0].dtype = type;
        c.outputs[0].quant = per_tensor(0.05f, s ? 3 : 120, rounding);
        check_on_cpu(c, "concat_requantize");
      }
}

}  // namespace
}  // namespace smelt
