#include <algorithm>
#include <cmath>

#include "backends/cpu/conv/winograd_variable.h"
#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Row {
  int64_t batch, c_in, h, w, c_out, kernel, stride, pad, groups;
};
const Row kRows[] = {
    {2, 5, 7, 9, 6, 3, 1, 1, 1},     {1, 16, 6, 6, 40, 1, 1, 0, 1},
    {1, 12, 8, 5, 18, 3, 2, 1, 3},   {2, 21, 8, 5, 21, 3, 2, 1, 21},
    {3, 7, 5, 5, 33, 1, 2, 0, 1},    {1, 48, 40, 40, 20, 1, 1, 0, 1},  // threads share the quantization
    {2, 48, 7, 9, 48, 3, 1, 1, 6},   {1, 96, 8, 5, 96, 3, 2, 1, 3},
    {1, 10, 6, 19, 10, 3, 1, 1, 10}, {1, 3, 9, 12, 3, 5, 2, 2, 3},
    {1, 40, 5, 23, 40, 3, 1, 1, 40}, {1, 24, 4, 3, 24, 7, 1, 3, 24}};

std::shared_ptr<ConvAttrs> attrs_of(const Row& r) {
  auto a = std::make_shared<ConvAttrs>();
  a->strides = {r.stride, r.stride};
  a->pads = {r.pad, r.pad, r.pad, r.pad};
  a->groups = r.groups;
  a->layout = Layout::kChannelsLast;
  return a;
}

OpCase dynamic_quant_case(const Row& r, bool asymmetric) {
  auto a = attrs_of(r);
  const bool depthwise = r.groups == r.c_in;
  a->filter = depthwise ? FilterLayout::kISO : FilterLayout::kOSI;
  a->dynamic_quant = true;
  a->asymmetric_inputs = asymmetric;
  a->act.kind = asymmetric ? ActKind::kTanh : ActKind::kRelu6;
  const Shape filter =
      depthwise ? Shape{1, r.kernel, r.kernel, r.c_out} : Shape{r.c_out, r.kernel, r.kernel, r.c_in / r.groups};
  Tensor w = random_tensor(DType::kI8, filter, -127, 127, 2);
  std::vector<float> scales;
  for (int64_t i = 0; i < r.c_out; ++i) scales.push_back(0.001f * static_cast<float>(i % 7 + 1));
  w.set_quant(asymmetric ? per_tensor(0.01f, 0) : per_axis(scales, depthwise ? 3 : 0));
  OpCase c{Cat("channels ", r.c_in, " to ", r.c_out, asymmetric ? " asymmetric" : ""),
           Op::kConv,
           a,
           {random_tensor(DType::kF32, {r.batch, r.h, r.w, r.c_in}, -1, 3, 1), w,
            random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)},
           {1, 2}};
  c.threaded = true;
  return c;
}

TEST(ConvDynamicQuant, SymmetricAndAsymmetric) {
  for (const Row& r : kRows)
    for (const bool asymmetric : {false, true})
      check_on_cpu(dynamic_quant_case(r, asymmetric),
                   r.groups == r.c_in ? "depthwise_dynamic_quant" : "conv_dynamic_quant", {1e-6, 1e-6});
}

// Threads share the pixels of a line, and fill what they see of it.
TEST(ConvDynamicQuant, SingleLines) {
  for (const int64_t dilation : {1, 16})
    for (const int64_t batch : {1, 2}) {
      OpCase c = dynamic_quant_case({batch, 24, 1, 150, 40, 3, 1, 0, 1}, false);
      auto a = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*c.attrs));
      a->dilations = {1, dilation};
      a->pads = {1, 2 * dilation, 1, 0};
      c.attrs = a;
      c.label += Cat(" dilation ", dilation);
      check_on_cpu(c, "conv_dynamic_quant", {1e-6, 1e-6});
    }
}

// Tiles that fill the image or not, several blocks of them, images of a batch and panels of both widths.
TEST(ConvDynamicQuant, Winograd) {
  for (const Row& r : {Row{1, 16, 9, 11, 19, 3, 1, 1, 1}, Row{2, 18, 12, 10, 33, 3, 1, 0, 1},
                       Row{2, 40, 29, 61, 8, 3, 1, 2, 1}, Row{1, 64, 30, 32, 48, 3, 1, 1, 1}})
    for (const bool asymmetric : {false, true})
      for_each_winograd_setting([&] {
        check_on_cpu(dynamic_quant_case(r, asymmetric), winograd_kernel_of_bytes("conv_winograd_dynamic_quant"),
                     {1e-6, 1e-6});
      });
}

// Accumulators of the largest magnitude at both ends of the range of zero points, for tiles of either size.
TEST(ConvDynamicQuant, WinogradOfExtremeValues) {
  for (const int64_t c_in : {114, 1000})
    for (const float x : {-3.0f, 5.0f})
      for (const double w : {-127.0, 127.0}) {
        OpCase c = dynamic_quant_case({1, c_in, 8, 8, 16, 3, 1, 1, 1}, true);
        const QuantPtr of_w = c.inputs[1].quant();
        c.inputs[0] = random_tensor(DType::kF32, c.inputs[0].shape(), x, x, 1);
        c.inputs[1] = random_tensor(DType::kI8, c.inputs[1].shape(), w, w, 1);
        c.inputs[1].set_quant(of_w);
        for_each_winograd_setting([&] { check_on_cpu(c, "conv_dynamic_quant", {1e-6, 1e-6}); });
      }
}

// Images of zeros alone, or with an infinite number or NaN, before one of others.
TEST(ConvDynamicQuant, ImagesThatHaveNoScale) {
  for (const bool asymmetric : {false, true})
    for (const float value : {0.0f, INFINITY, NAN})
      for (const int64_t at : {0, 37, 600}) {
        const Row lines{2, 8, 7, 12, 20, 3, 1, 1, 1};
        OpCase c = dynamic_quant_case(lines, asymmetric);
        c.label += Cat(" value ", value, " at ", at);
        auto* x = c.inputs[0].data<float>();
        std::fill_n(x + at, value == 0 ? c.inputs[0].elements() / 2 - at : 1, value);
        for_each_winograd_setting([&] { check_on_cpu(c, "conv_dynamic_quant", {1e-6, 1e-6}); });
      }
}

TEST(ConvDynamic, ImagesWithParams) {
  for (const Row& r : kRows)
    for (const DType x : {DType::kU8, DType::kI8}) {
      auto a = attrs_of(r);
      a->filter = FilterLayout::kOSI;
      a->act.kind = x == DType::kU8 ? ActKind::kRelu : ActKind::kNone;
      Tensor image = random_tensor(x, {r.batch, r.h, r.w, r.c_in}, x == DType::kI8 ? -128 : 0, 127, 1);
      auto q = std::make_shared<Quantization>();
      q->kind = Quantization::Kind::kPerToken;
      q->axis = 3;
      for (int64_t i = 0; i < r.batch; ++i) {
        q->scales.push_back(0.01f + 0.002f * static_cast<float>(i));
        q->zero_points.push_back(static_cast<int32_t>(17 * i + 3));
      }
      image.set_quant(q);
      Tensor w = random_tensor(DType::kI8, {r.c_out, r.kernel, r.kernel, r.c_in / r.groups}, -127, 127, 2);
      std::vector<float> scales;
      for (int64_t i = 0; i < r.c_out; ++i) scales.push_back(0.001f * static_cast<float>(i % 7 + 1));
      w.set_quant(per_axis(scales, 0));
      OpCase c{Cat("channels ", r.c_in, " to ", r.c_out, ' ', to_string(x)),
               Op::kConv,
               a,
               {image, w, random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)},
               {1, 2},
               {ValueType::tensor(DType::kF32, {})}};
      c.threaded = true;
      check_on_cpu(c, "conv_qd8", {1e-4, 1e-5});
    }
}

TEST(ConvInteger, TypesAndZeroPoints) {
  for (const Row& r : kRows)
    for (const DType x : {DType::kU8, DType::kI8})
      for (const DType w : {DType::kU8, DType::kI8}) {
        const Shape filter{r.c_out, r.c_in / r.groups, r.kernel, r.kernel};
        const double lo = x == DType::kI8 ? -128 : 0, w_lo = w == DType::kI8 ? -128 : 0;
        OpCase c{Cat("channels ", r.c_in, " to ", r.c_out, ' ', to_string(x), ' ', to_string(w)),
                 Op::kConvInteger,
                 attrs_of(r),
                 {random_tensor(x, {r.batch, r.h, r.w, r.c_in}, lo, lo + 255, 1),
                  random_tensor(w, filter, w_lo, w_lo + 255, 2), random_tensor(x, {}, 3, 90, 3),
                  random_tensor(w, {r.c_out}, 0, 100, 4)},
                 {1, 3}};
        c.threaded = true;
        check_on_cpu(c, r.groups == r.c_in ? "depthwise_integer" : "conv_integer");
        std::vector<float> scales;
        std::vector<int32_t> zeros;
        for (int64_t i = 0; i < r.c_out; ++i) {
          scales.push_back(0.001f * static_cast<float>(i % 7 + 1));
          zeros.push_back(static_cast<int32_t>(i % 5));
        }
        c.inputs[1].set_quant(per_axis(scales, 0, zeros));
        c.inputs[3] = random_tensor(DType::kF32, {}, 0.01, 0.02, 5);
        c.constants = {1};
        check_on_cpu(c, r.groups == r.c_in ? "depthwise_integer" : "conv_integer", {1e-4, 1e-5});
      }
}

TEST(MatMulInteger, Shapes) {
  for (const int64_t n : {1, 30, 70})
    for (const DType x : {DType::kU8, DType::kI8}) {
      OpCase c{Cat("columns ", n),
               Op::kMatMulInteger,
               std::make_shared<MatMulAttrs>(),
               {random_tensor(x, {2, 9, 37}, 0, 127, 1), random_tensor(DType::kI8, {37, n}, -128, 127, 2),
                random_tensor(x, {}, 3, 90, 3)},
               {1}};
      check_on_cpu(c, "matmul_integer");
    }
}

TEST(Cast, Types) {
  const DType types[] = {DType::kF32, DType::kF64, DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool};
  for (const DType from : types)
    for (const DType to : types) {
      OpCase c{Cat(to_string(from), " to ", to_string(to)),
               Op::kCast,
               make_attrs<CastAttrs>(to),
               {random_tensor(from, {3, 53}, 0, from == DType::kBool ? 1 : 100, 1)}};
      check_on_cpu(c, is_float(from) && is_integer(to) && to != DType::kBool ? "" : "cast");
    }
}

TEST(DequantizeLinear, TypesAndAxes) {
  for (const DType from : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32})
    for (const bool per_axis : {false, true}) {
      QuantizeLinearAttrs a;
      a.axis = -2;
      a.to = DType::kF32;
      const Shape parameters = per_axis ? Shape{5} : Shape{};
      OpCase c{Cat(to_string(from), per_axis),
               Op::kDequantizeLinear,
               make_attrs<QuantizeLinearAttrs>(a),
               {random_tensor(from, {3, 5, 7}, 0, 127, 1), random_tensor(DType::kF32, parameters, 0.01, 0.1, 2),
                random_tensor(from, parameters, 0, from == DType::kI32 ? 0 : 9, 3)},
               {1, 2}};
      check_on_cpu(c, "dequantize_linear_integer");
    }
}

TEST(QuantizeLinear, Int16Form) {
  for (const DType to : {DType::kI16, DType::kU16, DType::kI8}) {
    QuantizeLinearAttrs a;
    a.to = to;
    OpCase c{to_string(to),
             Op::kQuantizeLinear,
             make_attrs<QuantizeLinearAttrs>(a),
             {random_tensor(DType::kF32, {3, 53}, -5, 5, 1), random_tensor(DType::kF32, {}, 1e-4, 2e-4, 2),
              random_tensor(to, {}, 0, 100, 3)},
             {1, 2}};
    check_on_cpu(c, "quantize_linear_f32");
  }
}

/// Random values; NaN in every seventh place.
Tensor with_nan(const Shape& shape) {
  Tensor x = random_tensor(DType::kF32, shape, -2, 5, 1);
  for (int64_t i = 0; i < x.elements(); i += 7) x.data<float>()[i] = NAN;
  return x;
}

TEST(DynamicQuantize, Rules) {
  for (const DType to : {DType::kU8, DType::kI8})
    for (const bool per_row : {false, true})
      for (const int rule : {0, 1, 2}) {
        DynamicQuantizeAttrs a;
        a.to = to;
        a.per_row = per_row;
        a.symmetric = rule == 1;
        a.xnnpack_rule = rule == 2;
        OpCase c{Cat(to_string(to), per_row, rule),
                 Op::kDynamicQuantize,
                 make_attrs<DynamicQuantizeAttrs>(a),
                 {random_tensor(DType::kF32, {7, 53}, -2, 5, 1)}};
        check_on_cpu(c, "dynamic_quantize_f32");
        c.inputs = {with_nan({7, 53})};
        check_on_cpu(c, "dynamic_quantize_f32");
      }
}

TEST(QuantizeRows, QuantParams) {
  for (const DType to : {DType::kU8, DType::kI8})
    for (const int axis : {1, 2})
      for (const bool symmetric : {false, true})
        for (const Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble}) {
          if (to == DType::kU8 && rounding == Rounding::kFixedDouble) continue;  // TFLite's rule is one of int8
          auto q = std::make_shared<Quantization>();
          q->kind = Quantization::Kind::kPerToken;
          q->axis = axis;
          q->symmetric = symmetric;
          q->rounding = rounding;
          OpCase c{Cat(to_string(to), ' ', axis, ' ', symmetric, ' ', static_cast<int>(rounding)),
                   Op::kQuantize,
                   make_attrs<NoAttrs>(),
                   {random_tensor(DType::kF32, {3, 5, 37}, -2, 5, 1)},
                   {},
                   {ValueType::tensor(to, {3, 5, 37}, q)}};
          c.threaded = true;
          check_on_cpu(c, "quantize_per_token_f32");
          c.inputs = {with_nan({3, 5, 37})};
          check_on_cpu(c, "quantize_per_token_f32");
        }
}

}  // namespace
}  // namespace smelt
