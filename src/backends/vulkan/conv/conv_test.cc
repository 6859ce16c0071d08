#include "ops/conv/conv.h"

#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

struct Row {
  int64_t batch, c_in, h, w, c_out, kh, kw, stride, dilation, pad, groups;
  ActKind act = ActKind::kNone;
};
const Row kRows[] = {
    {1, 3, 9, 11, 20, 3, 3, 2, 1, 1, 1, ActKind::kRelu6},    {2, 8, 7, 5, 20, 1, 1, 1, 1, 0, 1},
    {1, 12, 6, 6, 8, 3, 3, 1, 2, 2, 2, ActKind::kSigmoid},   {1, 16, 3, 2, 36, 1, 1, 2, 1, 0, 1},
    {1, 5, 8, 1, 37, 3, 1, 1, 1, 1, 1, ActKind::kLeakyRelu},
};
const Row kDepthwise[] = {
    {1, 8, 9, 11, 8, 3, 3, 1, 1, 1, 8, ActKind::kRelu6},
    {2, 12, 8, 6, 12, 3, 3, 2, 1, 1, 12},
    {1, 4, 5, 3, 4, 5, 5, 1, 1, 2, 4},
};

OpCase conv_case(const Row& r, Layout layout, DType dtype, DType weights, bool transposed = false) {
  auto attrs = std::make_shared<ConvTransposeAttrs>();
  attrs->strides = {r.stride, r.stride};
  attrs->dilations = {r.dilation, r.dilation};
  attrs->pads = {r.pad, r.pad, r.pad, r.pad};
  attrs->groups = r.groups;
  attrs->layout = layout;
  attrs->filter = transposed                        ? FilterLayout::kIOS
                  : layout == Layout::kChannelsLast ? FilterLayout::kOSI
                                                    : FilterLayout::kOIS;
  attrs->act = {r.act, 0.1f, 0};
  OpCase c;
  c.op = transposed ? Op::kConvTranspose : Op::kConv;
  if (transposed)
    c.attrs = attrs;
  else
    c.attrs = std::make_shared<ConvAttrs>(*attrs);
  const int64_t i = r.c_in / r.groups;
  const Shape x = layout == Layout::kChannelsLast ? Shape{r.batch, r.h, r.w, r.c_in} : Shape{r.batch, r.c_in, r.h, r.w};
  const Shape w = transposed                        ? Shape{r.c_in, r.c_out / r.groups, r.kh, r.kw}
                  : layout == Layout::kChannelsLast ? Shape{r.c_out, r.kh, r.kw, i}
                                                    : Shape{r.c_out, i, r.kh, r.kw};
  c.label = "x " + x.str() + " filter " + w.str() + " " + to_string(dtype) + " " + to_string(layout);
  Tensor filter = random_tensor(weights, w, weights == DType::kI8 ? -127 : -1, weights == DType::kI8 ? 127 : 1, 2);
  if (weights == DType::kI8) filter.set_quant(per_tensor(0.01f, 0));
  c.inputs = {random_tensor(dtype, x, -1, 1, 1), filter, random_tensor(dtype, {r.c_out}, -1, 1, 3)};
  c.constants = {1, 2};
  c.outputs[0].dtype = dtype;
  return c;
}

/// The same with 8-bit operands.
OpCase integer_case(const Row& r, Layout layout, DType x, DType w, Rounding rounding, bool transposed = false) {
  OpCase c = conv_case(r, layout, DType::kF32, DType::kF32, transposed);
  auto attrs = std::make_shared<ConvTransposeAttrs>(transposed ? static_cast<const ConvTransposeAttrs&>(*c.attrs)
                                                               : ConvTransposeAttrs{});
  if (!transposed) static_cast<ConvAttrs&>(*attrs) = static_cast<const ConvAttrs&>(*c.attrs);
  attrs->rounding = rounding;
  attrs->act.kind = r.act == ActKind::kRelu6 ? ActKind::kRelu6 : ActKind::kNone;
  if (transposed)
    c.attrs = attrs;
  else
    c.attrs = std::make_shared<ConvAttrs>(*attrs);
  c.label += std::string(" ") + to_string(x) + " " + to_string(w) + " " + to_string(rounding);
  const auto fill = [](DType t, const Shape& s, uint32_t seed) {
    return random_tensor(t, s, t == DType::kI8 ? -128 : 0, t == DType::kI8 ? 127 : 255, seed);
  };
  Tensor tx = fill(x, c.inputs[0].shape(), 1), tw = fill(w, c.inputs[1].shape(), 2);
  tx.set_quant(per_tensor(0.02f, x == DType::kI8 ? 5 : 120, rounding));
  if (w == DType::kU8 || transposed) {
    tw.set_quant(per_tensor(0.004f, w == DType::kI8 ? 0 : 131));
  } else {
    std::vector<float> scales;
    for (int64_t o = 0; o < r.c_out; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
    tw.set_quant(per_axis(scales, 0));
  }
  c.inputs = {tx, tw, random_tensor(DType::kI32, {r.c_out}, -5000, 5000, 3)};
  c.constants = {1, 2};
  c.outputs[0].dtype = x;
  c.outputs[0].quant = per_tensor(0.3f, x == DType::kI8 ? -7 : 99, rounding);
  return c;
}

TEST(VulkanConv, PackedFilters) {
  SKIP_WITHOUT_GPU();
  if (!eight_lanes()) GTEST_SKIP() << "the device has no subgroups of eight lanes";
  for (const Row& r : kRows)
    for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst})
      for (DType weights : {DType::kF32, DType::kI8})
        check_on_gpu(conv_case(r, layout, DType::kF32, weights), "conv_packed_f32");
}

TEST(VulkanConv, Depthwise) {
  SKIP_WITHOUT_GPU();
  for (const Row& r : kDepthwise) {
    check_on_gpu(conv_case(r, Layout::kChannelsLast, DType::kF32, DType::kF32), "depthwise_f32");
    check_on_gpu(conv_case(r, Layout::kChannelsFirst, DType::kF32, DType::kF32), "depthwise_f32|conv_float");
  }
}

TEST(VulkanConv, Activations) {
  SKIP_WITHOUT_GPU();
  for (ActKind act : {ActKind::kNone, ActKind::kRelu, ActKind::kReluN1, ActKind::kRelu6, ActKind::kTanh,
                      ActKind::kSignBit, ActKind::kSigmoid, ActKind::kLeakyRelu, ActKind::kHardSigmoid}) {
    Row packed = kRows[1], depthwise = kDepthwise[0];
    packed.act = depthwise.act = act;
    const auto layout = Layout::kChannelsLast;
    check_on_gpu(conv_case(packed, layout, DType::kF32, DType::kF32), "conv_packed_f32|conv_float");
    check_on_gpu(conv_case(depthwise, layout, DType::kF32, DType::kF32), "depthwise_f32");
  }
}

TEST(VulkanConv, DynamicFiltersAndFp16) {
  SKIP_WITHOUT_GPU();
  for (const Row& r : kRows)
    for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
      OpCase c = conv_case(r, layout, DType::kF32, DType::kF32);
      c.constants.clear();
      check_on_gpu(c, "conv_float");
      check_on_gpu(conv_case(r, layout, DType::kF16, DType::kF16), "conv_float", 5e-3);
      check_on_gpu(conv_case(r, layout, DType::kF16, DType::kI8), "conv_float", 5e-3);
    }
}

TEST(VulkanConv, Transposed) {
  SKIP_WITHOUT_GPU();
  for (const Row& r : kRows)
    for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
      if (r.w == 1) continue;  // padding would leave nothing
      check_on_gpu(conv_case(r, layout, DType::kF32, DType::kF32, true), "conv_transpose_float");
      check_on_gpu(conv_case(r, layout, DType::kF16, DType::kF16, true), "conv_transpose_float", 5e-3);
      check_on_gpu(conv_case(r, layout, DType::kF16, DType::kI8, true), "conv_transpose_float", 5e-3);
    }
}

/// The largest products there are, in sums beyond what float32 holds.
TEST(VulkanConv, LargeIntegers) {
  SKIP_WITHOUT_GPU();
  for (int64_t c : {12, 40, 260, 700})
    for (DType t : {DType::kI8, DType::kU8}) {
      const double low = t == DType::kI8 ? -128 : 0, high = t == DType::kI8 ? 127 : 255;
      OpCase k;
      k.label = Cat(c, " channels of ", to_string(t));
      k.op = Op::kConv;
      ConvAttrs a;
      a.layout = Layout::kChannelsLast;
      a.filter = FilterLayout::kOSI;
      a.pads = {1, 1, 1, 1};
      k.attrs = make_attrs<ConvAttrs>(a);
      Tensor x = random_tensor(t, {1, 5, 7, c}, high - 2, high, 1),
             w = random_tensor(t, {20, 3, 3, c}, high - 2, high, 2);
      x.set_quant(per_tensor(0.02f, static_cast<int32_t>(low)));
      w.set_quant(per_tensor(0.004f, static_cast<int32_t>(low)));
      k.inputs = {x, w};
      k.constants = {1};
      k.outputs[0].dtype = t;
      k.outputs[0].quant = per_tensor(0.025f * static_cast<float>(c) * 9, static_cast<int32_t>(low));
      check_on_gpu(k, eight_lanes() ? "conv_packed_i8" : "conv_i8");
    }
}

TEST(VulkanConv, IntegersOfVolumes) {
  SKIP_WITHOUT_GPU();
  for (const auto& [x, w] : {std::pair{DType::kI8, DType::kI8}, {DType::kU8, DType::kU8}, {DType::kU8, DType::kI8}})
    for (int64_t groups : {1, 2}) {
      ConvAttrs a;
      a.groups = groups;
      a.strides = {1, 2, 1};
      a.pads = {1, 0, 1, 0, 1, 1};
      OpCase c;
      c.label = std::string(to_string(x)) + " " + to_string(w);
      c.op = Op::kConv;
      c.attrs = make_attrs<ConvAttrs>(a);
      Tensor image = random_tensor(x, {2, 4, 5, 6, 3}, x == DType::kI8 ? -128 : 0, x == DType::kI8 ? 127 : 255, 1);
      Tensor filter =
          random_tensor(w, {6, 4 / groups, 3, 2, 3}, w == DType::kI8 ? -128 : 0, w == DType::kI8 ? 127 : 255, 2);
      image.set_quant(per_tensor(0.02f, x == DType::kI8 ? 5 : 120));
      filter.set_quant(per_tensor(0.004f, w == DType::kI8 ? 0 : 131));
      c.inputs = {image, filter, random_tensor(DType::kI32, {6}, -5000, 5000, 3)};
      c.constants = {1, 2};
      c.outputs[0].dtype = x;
      c.outputs[0].quant = per_tensor(0.3f, x == DType::kI8 ? -7 : 99);
      check_on_gpu(c, "conv_i8");
    }
}

TEST(VulkanConv, Integers) {
  SKIP_WITHOUT_GPU();
  const std::pair<DType, DType> quantized[] = {
      {DType::kI8, DType::kI8}, {DType::kU8, DType::kU8}, {DType::kU8, DType::kI8}};
  for (const auto& [x, w] : quantized)
    for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kDoubleHalfAway}) {
      for (const Row& r : kRows)
        check_on_gpu(integer_case(r, Layout::kChannelsLast, x, w, rounding),
                     eight_lanes() ? "conv_packed_i8" : "conv_i8");
      check_on_gpu(integer_case(kRows[2], Layout::kChannelsFirst, x, w, rounding),
                   eight_lanes() ? "conv_packed_i8" : "conv_i8");
      for (const Row& r : kDepthwise)
        check_on_gpu(integer_case(r, Layout::kChannelsLast, x, w, rounding), "depthwise_i8");
      check_on_gpu(integer_case(kRows[2], Layout::kChannelsLast, x, w, rounding, true), "conv_transpose_i8");
    }
}

}  // namespace
}  // namespace smelt::vulkan
