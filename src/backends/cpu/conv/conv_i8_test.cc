#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/conv/winograd_variable.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct QConvRow {
  int64_t batch, c_in, h, w, c_out, kh, kw, stride, dilation, pad, groups;
  ActKind act = ActKind::kNone;
};

const QConvRow kRows[] = {
    {1, 3, 9, 11, 5, 3, 3, 1, 1, 1, 1},
    {2, 8, 7, 5, 19, 1, 1, 1, 1, 0, 1, ActKind::kRelu6},
    {1, 16, 6, 6, 33, 1, 1, 2, 1, 0, 1},
    {1, 5, 13, 9, 37, 3, 3, 2, 1, 1, 1, ActKind::kRelu},
    {1, 6, 12, 12, 8, 3, 3, 1, 2, 2, 2},
    {1, 12, 5, 7, 18, 5, 3, 1, 1, 0, 3},
    {1, 40, 15, 15, 64, 3, 3, 1, 1, 1, 1, ActKind::kReluN1},
    {1, 7, 20, 21, 1, 1, 1, 1, 1, 0, 1},
    // Windows at the sides of narrow images.
    {2, 1, 40, 3, 8, 4, 3, 1, 1, 1, 1},
    {1, 5, 30, 4, 9, 3, 3, 2, 1, 2, 1, ActKind::kRelu},
    {1, 1, 50, 2, 20, 4, 3, 2, 1, 2, 1, ActKind::kRelu},
    {1, 3, 20, 3, 9, 3, 3, 1, 1, 3, 1},
    {1, 12, 28, 2, 9, 1, 1, 1, 1, 0, 1},
    {1, 301, 3, 3, 20, 1, 1, 1, 1, 0, 1},
    // Threads share the pixels of a line.
    {2, 24, 1, 61, 40, 1, 3, 1, 2, 0, 1},
    {1, 12, 1, 47, 18, 1, 5, 2, 1, 0, 3},
    // Signals that lie along the height.
    {2, 12, 40, 1, 20, 3, 1, 2, 2, 0, 1},
    {1, 24, 33, 1, 24, 5, 1, 1, 1, 0, 24},
};

/// What the operands are quantized as.
struct Quantized {
  DType x, w;
  int32_t x_zero, w_zero, y_zero;
  bool per_channel;
};
const Quantized kQuantizedImages[] = {
    {DType::kI8, DType::kI8, 5, 0, -7, true},      {DType::kI8, DType::kI8, -128, 0, 3, false},
    {DType::kU8, DType::kU8, 120, 131, 99, false}, {DType::kU8, DType::kI8, 0, 0, 128, true},
    {DType::kI8, DType::kI8, 1, -9, 0, false},
};

OpCase conv_case(const QConvRow& r, const Quantized& s, Layout layout, FilterLayout filter, Rounding rounding) {
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->strides = {r.stride, r.stride};
  attrs->dilations = {r.dilation, r.dilation};
  attrs->pads = {r.pad, r.pad, r.pad, r.pad};
  attrs->groups = r.groups;
  attrs->layout = layout;
  attrs->filter = filter;
  attrs->act.kind = r.act;
  attrs->rounding = rounding;
  OpCase c;
  c.op = Op::kConv;
  c.attrs = attrs;
  const int64_t i = r.c_in / r.groups;
  const Shape x = layout == Layout::kChannelsLast ? Shape{r.batch, r.h, r.w, r.c_in} : Shape{r.batch, r.c_in, r.h, r.w};
  const Shape w = filter == FilterLayout::kOSI   ? Shape{r.c_out, r.kh, r.kw, i}
                  : filter == FilterLayout::kISO ? Shape{i, r.kh, r.kw, r.c_out}
                                                 : Shape{r.c_out, i, r.kh, r.kw};
  const int axis = filter == FilterLayout::kISO ? 3 : 0;
  c.label = "x " + x.str() + " filter " + w.str() + " " + to_string(s.x) + " " + to_string(rounding) + " " +
            to_string(layout);
  const auto limits = [](DType t) { return t == DType::kI8 ? std::pair{-128.0, 127.0} : std::pair{0.0, 255.0}; };
  Tensor tx = random_tensor(s.x, x, limits(s.x).first, limits(s.x).second, 1);
  Tensor tw = random_tensor(s.w, w, limits(s.w).first, limits(s.w).second, 2);
  Tensor bias = random_tensor(DType::kI32, {r.c_out}, -5000, 5000, 3);
  tx.set_quant(per_tensor(0.02f, s.x_zero, rounding));
  std::vector<float> scales;
  for (int64_t o = 0; o < (s.per_channel ? r.c_out : 1); ++o)
    scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
  tw.set_quant(s.per_channel ? per_axis(scales, axis) : per_tensor(scales[0], s.w_zero));
  c.inputs = {tx, tw, bias};
  c.constants = {1, 2};
  const float terms = static_cast<float>(i * r.kh * r.kw);
  c.outputs[0].dtype = s.x;
  c.outputs[0].quant = per_tensor(0.02f * 0.004f * 74 * 74 / 40 * std::sqrt(terms), s.y_zero, rounding);
  c.threaded = r.batch == 2 && s.per_channel && rounding == Rounding::kFloatHalfEven;
  return c;
}

const Rounding kRoundings[] = {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kDoubleHalfAway};

TEST(ConvI8, ChannelsLast) {
  for (const QConvRow& r : kRows)
    for (const Quantized& s : kQuantizedImages)
      for (Rounding rounding : kRoundings)
        check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, rounding), "conv_i8");
}

TEST(ConvI8, ChannelsFirst) {
  for (const QConvRow& r : kRows)
    for (const Quantized& s : kQuantizedImages)
      check_on_cpu(conv_case(r, s, Layout::kChannelsFirst, FilterLayout::kOIS, Rounding::kFloatHalfEven), "conv_i8");
}

// Windows of one pixel, of which the last ones see padding alone.
TEST(ConvI8, SinglePixelsAndPaddingBehind) {
  OpCase c = conv_case({2, 12, 5, 6, 20, 1, 1, 1, 1, 0, 1}, kQuantizedImages[0], Layout::kChannelsLast,
                       FilterLayout::kOSI, Rounding::kFloatHalfEven);
  auto attrs = static_cast<const ConvAttrs&>(*c.attrs);
  attrs.pads = {0, 0, 2, 1};
  c.attrs = make_attrs<ConvAttrs>(std::move(attrs));
  check_on_cpu(c, "conv_i8");
}

/// Groups of 2 to 32 channels: runs of channels that fill vectors or not, lines of any width, a signal, single pixels.
const QConvRow kGroups[] = {
    {1, 28, 9, 13, 28, 3, 3, 1, 1, 1, 14},
    {2, 132, 6, 5, 132, 3, 3, 2, 1, 1, 66, ActKind::kRelu},
    {1, 10, 7, 9, 10, 3, 3, 1, 2, 2, 5},
    {1, 48, 9, 11, 48, 3, 3, 1, 1, 1, 6, ActKind::kRelu},
    {2, 104, 7, 7, 104, 3, 3, 1, 1, 1, 13},
    {1, 32, 14, 13, 32, 3, 3, 2, 1, 1, 2},
    {1, 80, 7, 9, 80, 3, 3, 1, 2, 2, 5, ActKind::kRelu6},
    {1, 64, 5, 6, 64, 3, 3, 1, 1, 1, 2},
    {1, 96, 4, 35, 96, 1, 5, 1, 1, 2, 3},
    {2, 20, 12, 9, 20, 3, 3, 1, 1, 1, 5},
    {1, 128, 5, 5, 128, 5, 5, 3, 1, 2, 32},
    {2, 24, 1, 150, 24, 1, 3, 1, 2, 0, 3},
    {1, 16, 1, 1, 16, 3, 3, 1, 1, 1, 2},
    {1, 40, 4, 4, 40, 1, 1, 1, 1, 0, 5},
    {1, 16, 7, 9, 32, 3, 3, 1, 1, 1, 2},
};

TEST(ConvI8, Groups) {
  for (const QConvRow& r : kGroups)
    for (const Quantized& s : kQuantizedImages) {
      for (Rounding rounding : kRoundings)
        check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, rounding), "conv_i8");
      check_on_cpu(conv_case(r, s, Layout::kChannelsFirst, FilterLayout::kOIS, Rounding::kFloatHalfEven), "conv_i8");
    }
}

// Padded images that are computed in several bands of lines.
TEST(ConvI8, TallImagesOfGroups) {
  OpCase c = conv_case({1, 64, 60, 90, 64, 3, 3, 1, 1, 1, 8}, kQuantizedImages[0], Layout::kChannelsLast,
                       FilterLayout::kOSI, Rounding::kFixedDouble);
  c.threaded = true;
  check_on_cpu(c, "conv_i8");
}

/// Dilated windows of which many taps lie in the padding; the last ones see one tap each.
TEST(ConvI8, Dilated) {
  for (const QConvRow& r : {QConvRow{1, 16, 20, 19, 40, 3, 3, 1, 12, 12, 1},
                            {2, 19, 17, 21, 37, 3, 3, 1, 8, 8, 1},
                            {1, 24, 24, 25, 70, 3, 3, 2, 9, 9, 1, ActKind::kRelu},
                            {1, 40, 30, 30, 16, 5, 5, 1, 6, 12, 1},
                            {1, 33, 11, 10, 20, 3, 3, 1, 11, 11, 1}})
    for (const Quantized& s : kQuantizedImages)
      for (const Rounding rounding : kRoundings) {
        OpCase c = conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, rounding);
        c.threaded = true;
        check_on_cpu(c, "conv_segments_i8");
      }
}

const QConvRow kDepthwise[] = {
    {1, 37, 9, 11, 37, 3, 3, 1, 1, 1, 37, ActKind::kRelu6},
    {2, 16, 14, 13, 16, 3, 3, 2, 1, 1, 16},
    {1, 130, 7, 7, 130, 3, 3, 1, 1, 1, 130},
    {1, 24, 12, 9, 24, 5, 5, 1, 1, 2, 24},
    {1, 9, 15, 18, 9, 5, 4, 2, 1, 2, 9},
    {1, 64, 7, 10, 64, 3, 3, 1, 2, 2, 64},
    {1, 33, 8, 9, 33, 3, 4, 3, 2, 3, 33, ActKind::kRelu},
    {1, 8, 3, 3, 8, 1, 1, 1, 1, 0, 8},
    // A single line: threads share its pixels.
    {2, 33, 1, 150, 33, 5, 5, 1, 1, 2, 33},
    {2, 20, 1, 151, 20, 7, 7, 2, 1, 3, 20, ActKind::kRelu},
    // Large windows.
    {1, 40, 14, 15, 40, 13, 13, 1, 1, 6, 40},
    {1, 70, 20, 18, 70, 31, 31, 1, 1, 15, 70},
};

TEST(ConvI8, DepthwiseChannelsLast) {
  for (const QConvRow& r : kDepthwise)
    for (const Quantized& s : kQuantizedImages)
      for (Rounding rounding : kRoundings)
        check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kISO, rounding), "depthwise_i8");
}

/// Sums of weights that 16 bits do not hold.
TEST(ConvI8, DepthwiseOfLargeSums) {
  for (const int weight : {-128, 127}) {
    OpCase c = conv_case({1, 64, 20, 18, 64, 31, 31, 1, 1, 15, 64}, kQuantizedImages[0], Layout::kChannelsLast,
                         FilterLayout::kISO, Rounding::kFixedDouble);
    std::memset(c.inputs[1].raw(), weight, c.inputs[1].bytes());
    check_on_cpu(c, "depthwise_i8");
  }
}

/// Bundles of several pixels, parts of blocks, strides beyond the window, rows that the padding alone fills.
const QConvRow kNarrowDepthwise[] = {
    {1, 2, 9, 11, 2, 3, 3, 1, 1, 1, 2},      {1, 4, 16, 16, 4, 7, 7, 1, 1, 3, 4, ActKind::kRelu6},
    {1, 24, 12, 50, 24, 3, 3, 1, 1, 1, 24},  {1, 16, 20, 19, 16, 5, 5, 2, 1, 2, 16, ActKind::kRelu},
    {1, 8, 12, 12, 8, 2, 2, 3, 1, 0, 8},     {1, 48, 10, 33, 48, 3, 3, 2, 1, 1, 48},
    {1, 3, 2, 2, 3, 3, 3, 1, 3, 3, 3},       {1, 96, 5, 6, 96, 1, 3, 1, 1, 1, 96},
    {2, 200, 4, 5, 200, 3, 3, 1, 1, 1, 200}, {2, 4, 1, 170, 4, 5, 5, 1, 1, 2, 4},
};

TEST(ConvI8, DepthwiseOfFewChannels) {
  for (const QConvRow& r : kNarrowDepthwise)
    for (const Quantized& s : kQuantizedImages)
      for (Rounding rounding : kRoundings)
        check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kISO, rounding));
}

TEST(ConvI8, DepthwiseChannelsFirst) {
  for (const QConvRow& r : kDepthwise)
    check_on_cpu(
        conv_case(r, kQuantizedImages[0], Layout::kChannelsFirst, FilterLayout::kOIS, Rounding::kFloatHalfEven),
        "depthwise_i8");
}

TEST(ConvI8, FewFilters) {
  if (!machine_has(Isa::kVnni)) GTEST_SKIP() << "this machine has no AVX-512 VNNI";
  for (const QConvRow& r :
       {QConvRow{1, 32, 12, 17, 2, 9, 9, 1, 1, 4, 1, ActKind::kRelu}, QConvRow{2, 40, 11, 10, 1, 3, 3, 1, 1, 1, 1},
        QConvRow{1, 36, 9, 30, 2, 3, 3, 1, 2, 2, 1}, QConvRow{1, 48, 1, 1300, 1, 1, 7, 1, 1, 0, 1},
        QConvRow{1, 28, 8, 9, 3, 4, 3, 1, 1, 5, 1}, QConvRow{1, 48, 20, 40, 9, 3, 5, 1, 1, 2, 1}})
    for (const Quantized& s : kQuantizedImages)
      for (Rounding rounding : kRoundings) {
        if (s.w == DType::kU8) continue;  // weights beyond int8
        check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, rounding),
                     s.w_zero ? "" : "conv_few_filters_i8");
      }
}

// Tiles that fill the image or not, several blocks of them, images of a batch and panels of both widths.
TEST(ConvI8, Winograd) {
  for (const QConvRow& r :
       {QConvRow{1, 16, 9, 11, 19, 3, 3, 1, 1, 1, 1, ActKind::kRelu}, QConvRow{2, 18, 12, 10, 33, 3, 3, 1, 1, 0, 1},
        QConvRow{2, 40, 29, 61, 8, 3, 3, 1, 1, 2, 1, ActKind::kRelu6}, QConvRow{1, 64, 30, 32, 48, 3, 3, 1, 1, 1, 1}})
    for (const Quantized& s : kQuantizedImages)
      for (Rounding rounding : kRoundings)
        for_each_winograd_setting([&] {
          check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, rounding),
                       s.w_zero == 0 ? winograd_kernel_of_bytes("conv_winograd_i8") : "");
        });
}

// Accumulators of the largest magnitude, for tiles of either size.
TEST(ConvI8, WinogradOfExtremeValues) {
  for (const int64_t c_in : {114, 1024})
    for (const double x : {0.0, 255.0})
      for (const double w : {-128.0, 127.0}) {
        const Quantized types{DType::kU8, DType::kI8, x == 0 ? 255 : 0, 0, 128, true};
        OpCase c = conv_case({1, c_in, 8, 8, 16, 3, 3, 1, 1, 1, 1}, types, Layout::kChannelsLast, FilterLayout::kOSI,
                             Rounding::kFixedDouble);
        const QuantPtr of_x = c.inputs[0].quant(), of_w = c.inputs[1].quant();
        c.inputs[0] = random_tensor(DType::kU8, c.inputs[0].shape(), x, x, 1);
        c.inputs[1] = random_tensor(DType::kI8, c.inputs[1].shape(), w, w, 1);
        c.inputs[0].set_quant(of_x);
        c.inputs[1].set_quant(of_w);
        c.outputs[0].quant = per_tensor(0.3f * static_cast<float>(c_in), 128, Rounding::kFixedDouble);
        for_each_winograd_setting([&] { check_on_cpu(c, winograd_kernel_of_bytes("conv_winograd_i8")); });
      }
}

// Padded images that are computed in several bands of lines.
TEST(ConvI8, TallImages) {
  for (const bool threaded : {false, true}) {
    OpCase c = conv_case({1, 64, 300, 180, 4, 3, 1, 1, 1, 0, 1}, kQuantizedImages[0], Layout::kChannelsLast,
                         FilterLayout::kOSI, Rounding::kFloatHalfEven);
    c.threaded = threaded;
    check_on_cpu(c, "conv_i8");
  }
}

// Negative padding leaves pixels at the ends of the image out.
TEST(ConvI8, CroppedImages) {
  for (const Quantized& s : kQuantizedImages)
    for (const QConvRow& r :
         {QConvRow{1, 24, 20, 22, 16, 3, 3, 1, 1, -2, 1}, QConvRow{1, 5, 16, 17, 8, 3, 3, 2, 1, -1, 1}})
      check_on_cpu(conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, Rounding::kFloatHalfEven), "conv_i8");
}

// Threads share the pixels of a line, and fill what they see of it.
TEST(ConvI8, SingleLines) {
  for (const QConvRow& r :
       {QConvRow{2, 24, 1, 150, 40, 1, 3, 1, 16, 32, 1}, QConvRow{2, 12, 1, 99, 18, 1, 5, 2, 1, 3, 3}}) {
    OpCase c = conv_case(r, kQuantizedImages[0], Layout::kChannelsLast, FilterLayout::kOSI, Rounding::kFloatHalfEven);
    auto attrs = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*c.attrs));
    attrs->pads = {0, r.pad, 0, 0};
    c.attrs = attrs;
    check_on_cpu(c, "conv_i8");
  }
}

// Windows of one element of each line, as those of a volume's slices: patches are made tap by tap.
TEST(ConvI8, LinesOfOneElement) {
  for (const Quantized& s : kQuantizedImages)
    for (const QConvRow& r : {QConvRow{2, 1, 14, 75, 20, 9, 1, 1, 1, 0, 1}, QConvRow{1, 1, 15, 9, 7, 4, 1, 2, 2, 0, 1}})
      for (const bool volume : {false, true}) {
        OpCase c = conv_case(r, s, Layout::kChannelsLast, FilterLayout::kOSI, Rounding::kFloatHalfEven);
        auto attrs = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*c.attrs));
        attrs->pads = {4, 0, 3, 0};
        if (volume) {
          attrs->strides = {1, r.stride, 1};
          attrs->dilations = {1, r.dilation, 1};
          attrs->pads = {2, 4, 0, 1, 3, 0};
          c.inputs[0] = random_quantized(s.x, {r.batch, 5, r.h, r.w, 1}, 0.02f, s.x_zero, 1);
          Tensor filter = random_tensor(s.w, {r.c_out, 3, r.kh, 1, 1}, s.w == DType::kI8 ? -128 : 0, 127, 2);
          filter.set_quant(c.inputs[1].quant());
          c.inputs[1] = filter;
        }
        c.attrs = attrs;
        check_on_cpu(c, "conv_i8");
      }
}

}  // namespace
}  // namespace smelt
