#include <utility>

#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/conv/conv.h"

namespace smelt::bench {
using namespace smelt::test;

namespace {

/// A square image, SAME padding.
struct ConvSize {
  const char* name;
  int64_t size, c_in, c_out, kernel, stride, groups;
  int64_t out() const { return (size + stride - 1) / stride; }
  double operations() const {
    return 2.0 * static_cast<double>(out() * out() * c_out * c_in / groups * kernel * kernel);
  }
  bool depthwise() const { return groups > 1; }
};
const ConvSize kSizes[] = {
    {"mbv2_first", 224, 3, 32, 3, 2, 1},         {"mbv2_expand_112", 112, 16, 96, 1, 1, 1},
    {"mbv2_project_56", 56, 144, 24, 1, 1, 1},   {"mbv2_expand_14", 14, 64, 384, 1, 1, 1},
    {"mbv2_project_7", 7, 960, 160, 1, 1, 1},    {"mbv2_last", 7, 320, 1280, 1, 1, 1},
    {"mbv2_dw_112", 112, 32, 32, 3, 1, 32},      {"mbv2_dw_112_s2", 112, 96, 96, 3, 2, 96},
    {"mbv2_dw_14", 14, 576, 576, 3, 1, 576},     {"mbv2_dw_7", 7, 960, 960, 3, 1, 960},
    {"resnet50_first", 224, 3, 64, 7, 2, 1},     {"resnet50_56", 56, 64, 64, 3, 1, 1},
    {"resnet50_14", 14, 256, 256, 3, 1, 1},      {"resnet50_7", 7, 512, 512, 3, 1, 1},
    {"convnext_dw_28", 28, 192, 192, 7, 1, 192}, {"replknet_dw_28", 28, 128, 128, 13, 1, 128},
    {"ssd_10", 10, 256, 256, 3, 1, 1},
};
const ConvSize kDense{"dense", 28, 128, 128, 3, 1, 1}, kDepthwise{"depthwise", 28, 128, 128, 3, 1, 128},
    kTwoFilters{"depthwise_two_filters", 28, 64, 128, 3, 1, 64}, kGroups{"regnet_28", 28, 104, 104, 3, 1, 13},
    kGroupsOfFour{"resnext_56", 56, 128, 128, 3, 1, 32}, kGroupsOf16{"regnet_14", 14, 160, 160, 3, 1, 10},
    kFewFilters{"image_of_features", 96, 64, 3, 3, 1, 1}, kOneFilter{"map_of_features", 96, 64, 1, 3, 1, 1},
    kManyChannels{"vgg_56", 56, 128, 256, 3, 1, 1}, kManyPixels{"convmixer_32", 32, 768, 768, 1, 1, 1},
    kOneChannel{"lenet_first", 28, 1, 6, 5, 1, 1}, kOnePixel{"squeeze_of_float16", 1, 576, 144, 1, 1, 1},
    kPyramid{"deeplab_33", 33, 256, 256, 3, 1, 1};

std::shared_ptr<ConvAttrs> attrs_of(const ConvSize& s, Layout layout) {
  auto a = std::make_shared<ConvAttrs>();
  const bool last = layout == Layout::kChannelsLast;
  a->strides = {s.stride, s.stride};
  a->auto_pad = AutoPad::kSameUpper;
  a->groups = s.groups;
  a->layout = layout;
  a->filter = !last ? FilterLayout::kOIS : s.depthwise() ? FilterLayout::kISO : FilterLayout::kOSI;
  a->rounding = Rounding::kFixedDouble;
  return a;
}

Shape image_of(const ConvSize& s, Layout layout) {
  return layout == Layout::kChannelsLast ? Shape{1, s.size, s.size, s.c_in} : Shape{1, s.c_in, s.size, s.size};
}

Shape filter_of(const ConvSize& s, FilterLayout layout) {
  const int64_t i = s.c_in / s.groups, k = s.kernel;
  if (layout == FilterLayout::kOSI) return {s.c_out, k, k, i};
  return layout == FilterLayout::kISO ? Shape{i, k, k, s.c_out} : Shape{s.c_out, i, k, k};
}

Tensor weights_of(const ConvSize& s, FilterLayout layout) {
  Tensor w = random_tensor(DType::kI8, filter_of(s, layout), -127, 127, 2);
  w.set_quant(per_axis(std::vector<float>(static_cast<size_t>(s.c_out), 0.004f), layout == FilterLayout::kISO ? 3 : 0));
  return w;
}

OpCase float_case(const ConvSize& s, Layout layout, DType dtype) {
  auto a = attrs_of(s, layout);
  a->act.kind = ActKind::kRelu6;
  const bool last = layout == Layout::kChannelsLast;
  return {Cat(s.name, last ? "/nhwc/" : "/nchw/", to_string(dtype)),
          Op::kConv,
          a,
          {random_tensor(dtype, image_of(s, layout), -1, 1, 1), random_tensor(dtype, filter_of(s, a->filter), -1, 1, 2),
           random_tensor(dtype, {s.c_out}, -1, 1, 3)},
          {1, 2}};
}

OpCase integer_case(const ConvSize& s, Layout layout, DType x) {
  const auto a = attrs_of(s, layout);
  const DType bias = x == DType::kI16 ? DType::kI64 : DType::kI32;
  const float steps = x == DType::kI16 ? 256 : 1;
  return {Cat(s.name, layout == Layout::kChannelsLast ? "/nhwc/q" : "/nchw/q", to_string(x)),
          Op::kConv,
          a,
          {random_quantized(x, image_of(s, layout), 0.02f / steps, x == DType::kI16 ? 0 : -3, 1),
           weights_of(s, a->filter), random_tensor(bias, {s.c_out}, -1000, 1000, 3)},
          {1, 2},
          {quantized_type(x, 0.2f / steps, x == DType::kI16 ? 0 : 5)}};
}

/// TFLite hybrid: a float32 image that is quantized at run time.
OpCase dynamic_case(const ConvSize& s) {
  auto a = attrs_of(s, Layout::kChannelsLast);
  a->dynamic_quant = true;
  return {Cat(s.name, "/nhwc/dynamic"), Op::kConv, a, {f32(image_of(s, a->layout)), weights_of(s, a->filter)}, {1}};
}

OpCase dilated(OpCase c, int64_t by) {
  auto a = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*c.attrs));
  a->dilations = {by, by};
  c.attrs = a;
  c.label += "/dilated";
  return c;
}

OpCase dynamic_filter_case(const ConvSize& s) {
  OpCase c = float_case(s, Layout::kChannelsLast, DType::kF32);
  c.label += "/dynamic_filter";
  c.constants.clear();
  return c;
}

/// XNNPACK qd8: an 8-bit image with a scale of its own.
OpCase per_image_case(const ConvSize& s) {
  const auto a = attrs_of(s, Layout::kChannelsLast);
  Tensor x = random_tensor(DType::kI8, image_of(s, a->layout), -128, 127, 1);
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerToken;
  q->axis = 3;
  q->scales = {0.02f};
  q->zero_points = {-3};
  x.set_quant(q);
  return {Cat(s.name, "/nhwc/qd8"),      Op::kConv, a,
          {x, weights_of(s, a->filter)}, {1},       {ValueType::tensor(DType::kF32, {})}};
}

OpCase accumulator_case(const ConvSize& s) {
  auto a = attrs_of(s, Layout::kChannelsLast);
  a->filter = FilterLayout::kOIS;
  return {Cat(s.name, "/nhwc/integer"),
          Op::kConvInteger,
          a,
          {random_tensor(DType::kU8, image_of(s, a->layout), 0, 255, 1),
           random_tensor(DType::kI8, filter_of(s, a->filter), -127, 127, 2), random_tensor(DType::kU8, {}, 3, 90, 3)},
          {1}};
}

/// ConvInteger of a quantized filter: its accumulators become real numbers.
OpCase rescaled_case(const ConvSize& s) {
  OpCase c = accumulator_case(s);
  c.label += "_rescaled";
  c.inputs[1].set_quant(per_tensor(0.01f, 0));
  c.inputs.push_back(random_tensor(DType::kF32, {}, 0.01, 0.02, 4));
  return c;
}

OpCase transposed_case(DType dtype, bool dynamic_quant = false) {
  ConvTransposeAttrs a;
  a.dynamic_quant = dynamic_quant;
  a.strides = {2, 2};
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kIOS;
  a.rounding = Rounding::kFixedDouble;
  const Shape x{1, 28, 28, 64}, w{64, 32, 2, 2};
  OpCase c{Cat("upsample_28/nhwc/", dynamic_quant ? "dynamic" : to_string(dtype)), Op::kConvTranspose,
           make_attrs<ConvTransposeAttrs>(a)};
  c.constants = {1};
  if (dynamic_quant) {
    c.inputs = {f32(x), random_quantized(DType::kI8, w, 0.01f, 0, 2)};
  } else if (dtype == DType::kI8) {
    c.inputs = {random_quantized(DType::kI8, x, 0.05f, 7, 1), random_quantized(DType::kI8, w, 0.01f, 0, 2)};
    c.outputs[0] = quantized_type(DType::kI8, 0.9f, -3);
  } else if (dtype == DType::kI16) {
    c.inputs = {random_quantized(DType::kI16, x, 2e-4f, 0, 1), random_quantized(DType::kI8, w, 0.01f, 0, 2)};
    c.outputs[0] = quantized_type(DType::kI16, 4e-3f, 0);
  } else {
    c.inputs = {random_tensor(dtype, x, -1, 1, 1), random_tensor(dtype, w, -1, 1, 2)};
  }
  return c;
}

/// Twice the size by filters 4x4 that overlap.
OpCase overlapping_case(int64_t c_out) {
  ConvTransposeAttrs a;
  a.strides = {2, 2};
  a.pads = {1, 1, 1, 1};
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kIOS;
  return {Cat("overlapping_32/nhwc/", c_out),
          Op::kConvTranspose,
          make_attrs<ConvTransposeAttrs>(a),
          {f32({1, 32, 32, 32}), random_tensor(DType::kF32, {32, c_out, 4, 4}, -1, 1, 2), f32({c_out})},
          {1, 2}};
}

/// A convolution 3x3x3 of 8 slices of 64 channels.
OpCase volume_case(const char* label, int64_t groups) {
  ConvAttrs a;
  a.pads = {1, 1, 1, 1, 1, 1};
  a.layout = Layout::kChannelsLast;
  a.groups = groups;
  return {label,
          Op::kConv,
          make_attrs<ConvAttrs>(a),
          {f32({1, 8, 56, 56, 64}), random_tensor(DType::kF32, {64, 64 / groups, 3, 3, 3}, -1, 1, 2), f32({64})},
          {1, 2}};
}

}  // namespace

SMELT_BENCH_CASES(conv) {
  for (const ConvSize& s : kSizes)
    for (const Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
      cases.add(float_case(s, layout, DType::kF32), s.operations());
      cases.add(integer_case(s, layout, DType::kI8), s.operations());
    }
  for (const ConvSize& s : {kDense, kDepthwise}) {
    cases.add(float_case(s, Layout::kChannelsLast, DType::kF16), s.operations());
    cases.add(dynamic_case(s), s.operations());
    cases.add(dynamic_filter_case(s), s.operations());
    cases.add(accumulator_case(s), s.operations());
    cases.add(rescaled_case(s), s.operations());
  }
  cases.add(float_case(kTwoFilters, Layout::kChannelsLast, DType::kF32), kTwoFilters.operations());
  cases.add(integer_case(kTwoFilters, Layout::kChannelsLast, DType::kI8), kTwoFilters.operations());
  OpCase squeezed = float_case(kOnePixel, Layout::kChannelsLast, DType::kF32);
  squeezed.inputs[1] = widened(random_tensor(DType::kF16, squeezed.inputs[1].shape(), -1, 1, 2));
  cases.add(std::move(squeezed), kOnePixel.operations());
  for (const ConvSize& s : {kGroups, kGroupsOfFour, kFewFilters, kOneFilter, kManyPixels})
    cases.add(float_case(s, Layout::kChannelsLast, DType::kF32), s.operations());
  for (const ConvSize& s : {kGroups, kGroupsOfFour, kGroupsOf16})
    cases.add(integer_case(s, Layout::kChannelsLast, DType::kI8), s.operations());
  for (const ConvSize& s : {kFewFilters, kOneChannel})
    cases.add(integer_case(s, Layout::kChannelsLast, DType::kI8), s.operations());
  cases.add(dilated(float_case(kDepthwise, Layout::kChannelsLast, DType::kF32), 2), kDepthwise.operations());
  for (OpCase c : {float_case(kPyramid, Layout::kChannelsLast, DType::kF32),
                   integer_case(kPyramid, Layout::kChannelsLast, DType::kI8)})
    cases.add(dilated(std::move(c), 12), kPyramid.operations());
  cases.add(integer_case(kManyChannels, Layout::kChannelsLast, DType::kI8), kManyChannels.operations());
  for (const auto& [label, groups] : {std::pair{"r3d_56", 1}, {"x3d_56", 64}, {"groups_of_four_56", 16}})
    cases.add(volume_case(label, groups), 2.0 * 8 * 56 * 56 * 64 * 64 / groups * 27);
  cases.add(per_image_case(kDense), kDense.operations());
  cases.add(integer_case(kDense, Layout::kChannelsLast, DType::kI16), kDense.operations());
  for (const DType dtype : {DType::kF32, DType::kI8, DType::kI16, DType::kF16})
    cases.add(transposed_case(dtype), 2.0 * 28 * 28 * 64 * 32 * 4);
  cases.add(transposed_case(DType::kF32, true), 2.0 * 28 * 28 * 64 * 32 * 4);
  for (const int64_t c_out : {3, 16})
    cases.add(overlapping_case(c_out), 2.0 * 32 * 32 * 32 * 16 * static_cast<double>(c_out));
}

}  // namespace smelt::bench
