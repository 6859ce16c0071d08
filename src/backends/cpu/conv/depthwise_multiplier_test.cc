#include "base/cat.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

OpCase several_filters(int64_t channels, int64_t filters, DType dtype, int64_t stride) {
  auto a = std::make_shared<ConvAttrs>();
  a->strides = {stride, stride};
  a->auto_pad = AutoPad::kSameUpper;
  a->layout = Layout::kChannelsLast;
  a->filter = FilterLayout::kISO;
  a->groups = channels;
  a->rounding = Rounding::kFixedDouble;
  a->act.kind = ActKind::kRelu6;
  const int64_t out = channels * filters;
  OpCase c{Cat(to_string(dtype), ' ', channels, " channels, ", filters, " filters, stride ", stride), Op::kConv, a, {}};
  c.threaded = true;
  if (dtype == DType::kF32) {
    c.inputs = {f32({2, 11, 13, channels}), f32({1, 3, 3, out}, 2), f32({out}, 3)};
    c.constants = {1, 2};
    return c;
  }
  const DType filter = dtype == DType::kI8 ? DType::kI8 : DType::kU8;
  c.inputs = {random_quantized(dtype, {2, 11, 13, channels}, 0.05f, 3, 1),
              random_quantized(filter, {1, 3, 3, out}, 0.01f, filter == DType::kU8 ? 120 : 0, 2),
              random_tensor(DType::kI32, {out}, -500, 500, 3)};
  c.constants = {1, 2};
  c.outputs[0] = ValueType::tensor(dtype, {}, per_tensor(0.07f, 4));
  return c;
}

TEST(DepthwiseMultiplier, EqualsTheReference) {
  for (const DType dtype : {DType::kF32, DType::kI8, DType::kU8})
    for (const auto& [channels, filters] : {std::pair<int64_t, int64_t>{3, 8}, {8, 2}, {5, 3}, {16, 4}})
      for (int64_t stride : {1, 2}) {
        const bool runs = dtype == DType::kF32 ? filters <= 4 : channels * filters >= 16;
        check_on_cpu(several_filters(channels, filters, dtype, stride), runs ? "depthwise_multiplier" : "");
      }
}

}  // namespace
}  // namespace smelt
