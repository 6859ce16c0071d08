#include "base/cat.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// The last ones sum more products than 32 bits hold.
TEST(ConvI16, DenseGroupedAndDepthwise) {
  struct Row {
    int64_t c_in, c_out, kernel, stride, pad, groups;
    ActKind act = ActKind::kNone;
    Rounding rounding = Rounding::kFixedDouble;
    DType bias = DType::kI64;
  };
  for (const Row& r : {Row{5, 9, 3, 1, 1, 1},
                       {12, 37, 1, 1, 0, 1, ActKind::kRelu},
                       {8, 8, 3, 2, 1, 8},
                       {6, 4, 3, 1, 0, 2},
                       {19, 19, 3, 1, 1, 19, ActKind::kRelu6},
                       {7, 5, 3, 1, 1, 1, ActKind::kNone, Rounding::kFixedDouble, DType::kI32},
                       {6, 6, 3, 1, 1, 6, ActKind::kNone, Rounding::kDoubleHalfAway, DType::kI32},
                       {5, 6, 3, 1, 1, 1, ActKind::kNone, Rounding::kDoubleHalfAway},
                       {257, 11, 3, 1, 1, 1},
                       {514, 6, 3, 2, 1, 2, ActKind::kNone, Rounding::kDoubleHalfAway},
                       {255, 300, 1, 1, 0, 1, ActKind::kRelu},
                       {83, 97, 3, 1, 1, 1},
                       {250, 65, 3, 2, 1, 1, ActKind::kNone, Rounding::kDoubleHalfAway, DType::kI32},
                       {226, 140, 3, 2, 1, 2}}) {
    auto attrs = std::make_shared<ConvAttrs>();
    attrs->strides = {r.stride, r.stride};
    attrs->dilations = {1, 1};
    attrs->pads = {r.pad, r.pad, r.pad, r.pad};
    attrs->groups = r.groups;
    attrs->layout = Layout::kChannelsLast;
    attrs->filter = FilterLayout::kOSI;
    attrs->act.kind = r.act;
    attrs->rounding = r.rounding;
    Tensor w = random_tensor(DType::kI8, {r.c_out, r.kernel, r.kernel, r.c_in / r.groups}, -127, 127, 2);
    std::vector<float> scales;
    for (int64_t o = 0; o < r.c_out; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
    w.set_quant(per_axis(scales, 0));
    OpCase c{Cat(r.c_in, ' ', r.c_out, ' ', r.groups, ' ', static_cast<int>(r.rounding), ' ', to_string(r.bias)),
             Op::kConv,
             attrs,
             {random_quantized(DType::kI16, {2, 9, 11, r.c_in}, 3e-4f, 0, 1), w,
              random_tensor(r.bias, {r.c_out}, -5000000, 5000000, 3)},
             {1, 2}};
    c.outputs[0].dtype = DType::kI16;
    c.outputs[0].quant = per_tensor(9e-4f, 0, Rounding::kFixedDouble);
    c.threaded = true;
    check_on_cpu(c, "conv_i16");
  }
}

/// All of one sign: sums of 600 products lie far outside 32 bits.
TEST(ConvI16, AccumulatorsHaveMoreThan32Bits) {
  for (const int64_t c_out : {3, 110})
    for (const int16_t x : {-32768, 32767}) {
      ConvAttrs a;
      a.strides = a.dilations = {1, 1};
      a.pads = {0, 0, 0, 0};
      a.layout = Layout::kChannelsLast;
      a.filter = FilterLayout::kOSI;
      a.rounding = Rounding::kFixedDouble;
      OpCase c{Cat("largest ", c_out, ' ', x),
               Op::kConv,
               make_attrs<ConvAttrs>(a),
               {random_quantized(DType::kI16, {1, 2, 2, 600}, 3e-4f, 0, 1),
                random_quantized(DType::kI8, {c_out, 1, 1, 600}, 0.01f, 0, 2)},
               {1}};
      std::fill_n(c.inputs[0].data<int16_t>(), c.inputs[0].elements(), x);
      std::fill_n(c.inputs[1].data<int8_t>(), c.inputs[1].elements(), int8_t{-128});
      c.outputs[0].dtype = DType::kI16;
      c.outputs[0].quant = per_tensor(1.0f, 0, Rounding::kFixedDouble);
      check_on_cpu(c, "conv_i16");
    }
}

}  // namespace
}  // namespace smelt
