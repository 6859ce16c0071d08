#include "ops/conv/conv.h"

#include <limits>

#include "support/op_runner.h"

namespace smelt::test {
namespace {

/// Repeatable values in about [-2, 2].
std::vector<double> noise(int64_t n, uint32_t seed) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    v.push_back(static_cast<double>(seed >> 20) / 1024.0 - 2.0);
  }
  return v;
}
std::vector<double> small_ints(int64_t n, uint32_t seed, int low, int high) {
  std::vector<double> v;
  for (double x : noise(n, seed)) v.push_back(low + std::floor((x + 2) / 4 * (high - low + 1)));
  return v;
}

/// Where an element stands, by role.
int64_t image_index(Layout layout, int64_t n, int64_t c, int64_t y, int64_t x, int64_t channels, int64_t h, int64_t w) {
  return layout == Layout::kChannelsFirst ? ((n * channels + c) * h + y) * w + x : ((n * h + y) * w + x) * channels + c;
}
Shape image_shape(Layout layout, int64_t n, int64_t c, int64_t h, int64_t w) {
  return layout == Layout::kChannelsFirst ? Shape{n, c, h, w} : Shape{n, h, w, c};
}
Shape filter_shape(FilterLayout f, int64_t o, int64_t i, int64_t h, int64_t w) {
  switch (f) {
    case FilterLayout::kOSI:
      return {o, h, w, i};
    case FilterLayout::kISO:
      return {i, h, w, o};
    case FilterLayout::kSIO:
      return {h, w, i, o};
    case FilterLayout::kSOI:
      return {h, w, o, i};
    case FilterLayout::kIOS:
      return {i, o, h, w};
    default:
      return {o, i, h, w};
  }
}
int64_t filter_index(FilterLayout f, const Shape& s, int64_t o, int64_t i, int64_t y, int64_t x) {
  const Shape st = s.strides();
  switch (f) {
    case FilterLayout::kOSI:
      return o * st[0] + y * st[1] + x * st[2] + i;
    case FilterLayout::kISO:
      return i * st[0] + y * st[1] + x * st[2] + o;
    case FilterLayout::kSIO:
      return y * st[0] + x * st[1] + i * st[2] + o;
    case FilterLayout::kSOI:
      return y * st[0] + x * st[1] + o * st[2] + i;
    case FilterLayout::kIOS:
      return i * st[0] + o * st[1] + y * st[2] + x;
    default:
      return o * st[0] + i * st[1] + y * st[2] + x;
  }
}

struct ConvCase {
  Layout layout;
  FilterLayout filter;
  int64_t groups, in, out, stride, dilation, pad;
};

constexpr int64_t kHeight = 7, kWidth = 6, kKernelH = 3, kKernelW = 2;

/// The definition, element by element.
std::vector<double> direct(const ConvCase& c, const std::vector<double>& x, const std::vector<double>& f,
                           const Shape& fs, const std::vector<double>& bias, int64_t oh, int64_t ow) {
  const int64_t gi = c.in / c.groups, go = c.out / c.groups;
  std::vector<double> y(static_cast<size_t>(2 * c.out * oh * ow));
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t p = 0; p < oh; ++p)
        for (int64_t q = 0; q < ow; ++q) {
          double sum = bias[static_cast<size_t>(o)];
          for (int64_t i = 0; i < gi; ++i)
            for (int64_t ky = 0; ky < kKernelH; ++ky)
              for (int64_t kx = 0; kx < kKernelW; ++kx) {
                const int64_t iy = p * c.stride - c.pad + ky * c.dilation, ix = q * c.stride - c.pad + kx * c.dilation;
                if (iy < 0 || iy >= kHeight || ix < 0 || ix >= kWidth) continue;
                sum +=
                    x[static_cast<size_t>(image_index(c.layout, n, o / go * gi + i, iy, ix, c.in, kHeight, kWidth))] *
                    f[static_cast<size_t>(filter_index(c.filter, fs, o, i, ky, kx))];
              }
          y[static_cast<size_t>(image_index(c.layout, n, o, p, q, c.out, oh, ow))] = sum;
        }
  return y;
}

TEST(Conv, MatchesItsDefinitionInEveryLayout) {
  const ConvCase cases[] = {
      {Layout::kChannelsFirst, FilterLayout::kOIS, 1, 3, 5, 1, 1, 0},
      {Layout::kChannelsFirst, FilterLayout::kOIS, 2, 4, 6, 2, 1, 1},
      {Layout::kChannelsFirst, FilterLayout::kOIS, 3, 3, 6, 1, 2, 2},
      {Layout::kChannelsLast, FilterLayout::kOSI, 1, 3, 17, 1, 1, 1},
      {Layout::kChannelsLast, FilterLayout::kOSI, 2, 4, 2, 2, 2, 1},
      {Layout::kChannelsLast, FilterLayout::kISO, 4, 4, 8, 1, 1, 1},
      {Layout::kChannelsLast, FilterLayout::kISO, 5, 5, 5, 2, 1, 0},
      {Layout::kChannelsLast, FilterLayout::kSIO, 1, 2, 3, 1, 1, 0},
  };
  for (const ConvCase& c : cases)
    for (DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
      SCOPED_TRACE(std::string(to_string(c.filter)) + " " + to_string(dtype));
      ConvAttrs a;
      a.strides = {c.stride, c.stride};
      a.dilations = {c.dilation, c.dilation};
      a.pads = {c.pad, c.pad, c.pad, c.pad};
      a.groups = c.groups;
      a.layout = c.layout;
      a.filter = c.filter;
      const Shape xs = image_shape(c.layout, 2, c.in, kHeight, kWidth);
      const Shape fs = filter_shape(c.filter, c.out, c.in / c.groups, kKernelH, kKernelW);
      const auto x = small_ints(xs.elements(), 1, -5, 5), f = small_ints(fs.elements(), 2, -4, 4);
      const auto bias = small_ints(c.out, 3, -9, 9);
      const int64_t oh = (kHeight + 2 * c.pad - (kKernelH - 1) * c.dilation - 1) / c.stride + 1;
      const int64_t ow = (kWidth + 2 * c.pad - (kKernelW - 1) * c.dilation - 1) / c.stride + 1;
      const Tensor y = OpRunner(Op::kConv, make_attrs<ConvAttrs>(a))
                           .input(tensor(dtype, xs, x))
                           .constant(tensor(dtype, fs, f))
                           .constant(tensor(dtype, {c.out}, bias))
                           .unknown_shapes()
                           .run();
      EXPECT_EQ(y.shape(), image_shape(c.layout, 2, c.out, oh, ow));
      expect_equal(y, direct(c, x, f, fs, bias, oh, ow));
    }
}

TEST(Conv, SamePaddingPutsTheOddPixelBehindOrBefore) {
  for (AutoPad pad : {AutoPad::kSameUpper, AutoPad::kSameLower}) {
    ConvAttrs a;
    a.auto_pad = pad;
    const Tensor y = OpRunner(Op::kConv, make_attrs<ConvAttrs>(a))
                         .input(floats({1, 1, 3}, {1, 2, 3}))
                         .constant(floats({1, 1, 2}, {10, 1}))
                         .run();
    if (pad == AutoPad::kSameUpper)
      expect_equal(y, {12, 23, 30});
    else
      expect_equal(y, {1, 12, 23});
  }
}

TEST(Conv, ThreeDimensions) {
  const Tensor y = OpRunner(Op::kConv, make_attrs<ConvAttrs>())
                       .input(floats({1, 1, 2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}))
                       .constant(floats({1, 1, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}))
                       .run();
  EXPECT_EQ(y.shape(), (Shape{1, 1, 1, 1, 2}));
  expect_equal(y, {40, 48});
}

TEST(Conv, ActivationsClampOrTransform) {
  ConvAttrs a;
  a.act = {ActKind::kRelu6};
  const auto run = [&] {
    return OpRunner(Op::kConv, make_attrs<ConvAttrs>(a))
        .input(floats({1, 1, 3}, {-1, 2, 9}))
        .constant(floats({1, 1, 1}, {1}))
        .run();
  };
  expect_equal(run(), {0, 2, 6});
  a.act = {ActKind::kClamp, -0.5f, 1.5f};
  expect_equal(run(), {-0.5, 1.5, 1.5});
  a.act = {ActKind::kTanh};
  expect_near(run(), {std::tanh(-1.0), std::tanh(2.0), std::tanh(9.0)});
}

TEST(Conv, RefusesOperandsThatDoNotFit) {
  const auto message = [](const Shape& x, const Shape& f, ConvAttrs a) {
    return OpRunner(Op::kConv, make_attrs<ConvAttrs>(a))
        .input(Tensor(DType::kF32, x))
        .constant(Tensor(DType::kF32, f))
        .error();
  };
  ConvAttrs a;
  EXPECT_NE(message({1, 3, 4}, {2, 2, 1}, a).find("input channels"), std::string::npos);
  EXPECT_NE(message({1, 3, 4}, {2, 3, 5}, a).find("does not fit"), std::string::npos);
  EXPECT_NE(message({1, 3, 4}, {2, 3, 1, 1}, a).find("rank"), std::string::npos);
  a.strides = {0};
  EXPECT_NE(message({1, 3, 4}, {2, 3, 1}, a).find("stride"), std::string::npos);
  a.strides = {};
  a.pads = {int64_t{1} << 62, 0};
  EXPECT_NE(message({1, 3, 4}, {2, 3, 1}, a).find("padding"), std::string::npos);
  a.pads = {};
  a.groups = 3;
  EXPECT_NE(message({1, 3, 4}, {2, 1, 1}, a).find("groups"), std::string::npos);
  a.groups = std::numeric_limits<int64_t>::max();
  EXPECT_NE(message({1, 4, 4}, {2, 2, 1}, a).find("groups"), std::string::npos);
}

Tensor per_channel(DType dtype, const Shape& shape, const std::vector<double>& v, std::vector<float> scales, int axis) {
  Tensor t = tensor(dtype, shape, v);
  t.set_quant(std::make_shared<const Quantization>(
      Quantization{.kind = Quantization::Kind::kPerAxis, .scales = std::move(scales), .axis = axis}));
  return t;
}

TEST(Conv, EightBitSumsAreRescaledPerChannelAndRoundedOnce) {
  // x = 0.5 (q - 1); filters 0.25 and 0.5; y = 0.75 (q + 2). Sum of channel 0: 3*2 + 5*1 = 11 -> 11/8 + bias 4/8 real.
  ConvAttrs a;
  const Tensor x = quantized(DType::kU8, {1, 1, 2}, {4, 6}, 0.5f, 1);
  const Tensor f = per_channel(DType::kI8, {2, 1, 2}, {2, 1, -3, 1}, {0.25f, 0.5f}, 0);
  const Tensor bias = tensor(DType::kI32, {2}, {4, -8});
  const ValueType y = ValueType::tensor(DType::kI8, {1, 2, 1}, per_tensor(0.75f, -2));
  const Tensor got =
      OpRunner(Op::kConv, make_attrs<ConvAttrs>(a)).input(x).constant(f).constant(bias).outputs({y}).run();
  // Channel 0: 15 * 0.125 / 0.75 = 2.5 -> 2 (half to even); channel 1: (-9 + 5 - 8) * 0.25 / 0.75 = -4.
  expect_equal(got, {2 - 2, -4 - 2});
}

TEST(Conv, RoundingRulesDifferOnTies) {
  ConvAttrs a;
  const Tensor x = quantized(DType::kI8, {1, 1, 4}, {10, -10, 6, -6}, 1.0f, 0);
  const Tensor f = quantized(DType::kI8, {1, 1, 1}, {1}, 1.0f, 0);
  const ValueType y = ValueType::tensor(DType::kI8, {1, 1, 4}, per_tensor(4.0f, 0));
  const auto run = [&](Rounding rounding) {
    a.rounding = rounding;
    return OpRunner(Op::kConv, make_attrs<ConvAttrs>(a)).input(x).constant(f).outputs({y}).run();
  };
  expect_equal(run(Rounding::kFixedDouble), {3, -3, 2, -2});
  expect_equal(run(Rounding::kDoubleHalfAway), {3, -3, 2, -2});
  expect_equal(run(Rounding::kFloatHalfEven), {2, -2, 2, -2});
}

TEST(Conv, SixteenBitSumsDoNotOverflow) {
  ConvAttrs a;
  a.rounding = Rounding::kFixedDouble;
  const int64_t n = 2048;
  const Tensor x = quantized(DType::kI16, {1, n, 1}, std::vector<double>(n, 32767), 1.0f, 0);
  const Tensor f = quantized(DType::kI8, {1, n, 1}, std::vector<double>(n, 127), 1.0f, 0);
  const Tensor bias = tensor(DType::kI64, {1}, {1});
  const ValueType y = ValueType::tensor(DType::kI16, {1, 1, 1}, per_tensor(static_cast<float>(n) * 127, 0));
  const Tensor got =
      OpRunner(Op::kConv, make_attrs<ConvAttrs>(a)).input(x).constant(f).constant(bias).outputs({y}).run();
  EXPECT_NEAR(values(got)[0], 32767, 2);
}

TEST(Conv, FusedActivationClampsQuantizedIntegers) {
  ConvAttrs a;
  a.act = {ActKind::kRelu6};
  const Tensor x = quantized(DType::kI8, {1, 1, 3}, {-100, 10, 120}, 1.0f, 0);
  const Tensor f = quantized(DType::kI8, {1, 1, 1}, {1}, 1.0f, 0);
  const ValueType y = ValueType::tensor(DType::kI8, {1, 1, 3}, per_tensor(0.5f, -10));
  expect_equal(OpRunner(Op::kConv, make_attrs<ConvAttrs>(a)).input(x).constant(f).outputs({y}).run(), {-10, 2, 2});
}

TEST(Conv, FloatInputWithIntegerFilter) {
  ConvAttrs a;
  const Tensor x = floats({1, 1, 2}, {1.0, -0.25});
  const Tensor f = quantized(DType::kI8, {1, 1, 1}, {3}, 0.5f, 1);
  expect_near(OpRunner(Op::kConv, make_attrs<ConvAttrs>(a)).input(x).constant(f).run(), {1.0, -0.25});
  // Hybrid: x becomes 127 and -32 at a scale of 1/127.
  a.dynamic_quant = true;
  expect_near(OpRunner(Op::kConv, make_attrs<ConvAttrs>(a)).input(x).constant(f).run(), {1.0, -32.0 / 127});
}

TEST(ConvInteger, SubtractsZeroPoints) {
  const Tensor y = OpRunner(Op::kConvInteger, make_attrs<ConvAttrs>())
                       .input(tensor(DType::kU8, {1, 1, 3}, {2, 3, 4}))
                       .constant(tensor(DType::kI8, {2, 1, 2}, {1, 2, 3, 4}))
                       .constant(tensor(DType::kU8, {}, {1}))
                       .constant(tensor(DType::kI8, {2}, {1, 2}))
                       .run();
  EXPECT_EQ(y.dtype(), DType::kI32);
  expect_equal(y, {2, 3, 1 + 4, 2 + 6});
}

TEST(ConvInteger, RescalesByAQuantizedFilter) {
  Tensor filter = tensor(DType::kI8, {2, 1, 2}, {1, 2, 3, 4});
  filter.set_quant(per_axis({1, 2}, 0, {1, 2}));
  const Tensor y = OpRunner(Op::kConvInteger, make_attrs<ConvAttrs>())
                       .input(tensor(DType::kU8, {1, 1, 3}, {2, 3, 4}))
                       .constant(filter)
                       .constant(tensor(DType::kU8, {}, {1}))
                       .input(floats({}, {0.5}))
                       .run();
  EXPECT_EQ(y.dtype(), DType::kF32);
  expect_near(y, {1, 1.5, 5, 8});
}

TEST(ConvTranspose, ScattersEveryInput) {
  ConvTransposeAttrs a;
  a.filter = FilterLayout::kIOS;
  a.strides = {2};
  const auto run = [&] {
    return OpRunner(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a))
        .input(floats({1, 1, 3}, {1, 2, 3}))
        .constant(floats({1, 1, 3}, {1, 10, 100}))
        .run();
  };
  expect_equal(run(), {1, 10, 102, 20, 203, 30, 300});
  a.pads = {1, 1};
  expect_equal(run(), {10, 102, 20, 203, 30});
  a.output_padding = {1};
  expect_equal(run(), {10, 102, 20, 203, 30, 300});
  a.output_padding = {};
  a.pads = {};
  a.auto_pad = AutoPad::kSameUpper;
  expect_equal(run(), {1, 10, 102, 20, 203, 30});
  a.auto_pad = AutoPad::kSameLower;
  expect_equal(run(), {10, 102, 20, 203, 30, 300});
  a.auto_pad = AutoPad::kValid;
  a.output_shape = {8};
  expect_equal(run(), {1, 10, 102, 20, 203, 30, 300, 0});
}

TEST(ConvTranspose, LayoutsAgree) {
  // Two groups of two inputs and three outputs, once per filter layout.
  const int64_t in = 4, go = 3, h = 3, w = 2, kh = 2, kw = 2;
  const auto x = small_ints(in * h * w, 5, -3, 3), f = small_ints(in * go * kh * kw, 6, -3, 3);
  ConvTransposeAttrs a;
  a.groups = 2;
  a.strides = {2, 1};
  a.filter = FilterLayout::kIOS;
  const Tensor want = OpRunner(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a))
                          .input(floats({1, in, h, w}, x))
                          .constant(floats({in, go, kh, kw}, f))
                          .run();
  // kOSI: all outputs, inputs of one group.
  std::vector<double> osi(f.size());
  for (int64_t i = 0; i < in; ++i)
    for (int64_t o = 0; o < go; ++o)
      for (int64_t t = 0; t < kh * kw; ++t)
        osi[static_cast<size_t>(((i / 2 * go + o) * kh * kw + t) * 2 + i % 2)] =
            f[static_cast<size_t>((i * go + o) * kh * kw + t)];
  a.filter = FilterLayout::kOSI;
  const Tensor got = OpRunner(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a))
                         .input(floats({1, in, h, w}, x))
                         .constant(floats({2 * go, kh, kw, 2}, osi))
                         .run();
  EXPECT_EQ(got.shape(), want.shape());
  expect_equal(got, values(want));
}

TEST(ConvTranspose, OutputShapeAsAnInput) {
  ConvTransposeAttrs a;
  a.filter = FilterLayout::kOSI;
  a.layout = Layout::kChannelsLast;
  a.strides = {2, 2};
  a.auto_pad = AutoPad::kSameUpper;
  const Tensor y = OpRunner(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a))
                       .input(floats({1, 1, 2, 1}, {1, 2}))
                       .constant(floats({1, 1, 3, 1}, {1, 10, 100}))
                       .absent()
                       .input(tensor(DType::kI32, {4}, {1, 2, 4, 1}))
                       .run();
  EXPECT_EQ(y.shape(), (Shape{1, 2, 4, 1}));
  expect_equal(y, {1, 10, 102, 20, 0, 0, 0, 0});
}

TEST(Columns, FoldAndUnfold) {
  Im2ColAttrs a;
  a.kernel = {2, 2};
  const Tensor columns =
      OpRunner(Op::kIm2Col, make_attrs<Im2ColAttrs>(a)).input(floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})).run();
  EXPECT_EQ(columns.shape(), (Shape{1, 4, 2}));
  expect_equal(columns, {1, 2, 2, 3, 4, 5, 5, 6});
  const Tensor image = OpRunner(Op::kCol2Im, make_attrs<Im2ColAttrs>())
                           .input(columns)
                           .constant(tensor(DType::kI64, {2}, {2, 3}))
                           .constant(tensor(DType::kI64, {2}, {2, 2}))
                           .run();
  expect_equal(image, {1, 4, 3, 4, 10, 6});
}

TEST(DeformConv, ZeroOffsetsAreAConvolutionAndMaskScales) {
  DeformConvAttrs a;
  const auto run = [&](double offset, double mask) {
    return OpRunner(Op::kDeformConv, make_attrs<DeformConvAttrs>(a))
        .input(floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}))
        .constant(floats({1, 1, 2, 2}, {1, 1, 1, 1}))
        .input(floats({1, 8, 2, 2}, std::vector<double>(32, offset)))
        .constant(floats({1}, {0.5}))
        .input(floats({1, 4, 2, 2}, std::vector<double>(16, mask)))
        .run();
  };
  expect_near(run(0, 1), {12.5, 16.5, 24.5, 28.5});
  expect_near(run(0, 0.5), {6.5, 8.5, 12.5, 14.5});
  expect_near(run(10, 1), {0.5, 0.5, 0.5, 0.5});
}

}  // namespace
}  // namespace smelt::test
