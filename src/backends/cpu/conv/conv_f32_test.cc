#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "ops/conv/conv.h"

#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct ConvRow {
  int64_t batch, c_in, h, w, c_out, kh, kw, stride, dilation, pad, groups;
  ActKind act = ActKind::kNone;
  bool bias = true;
};

const ConvRow kRows[] = {
    {1, 3, 9, 11, 5, 3, 3, 1, 1, 1, 1},
    {2, 8, 7, 5, 19, 1, 1, 1, 1, 0, 1, ActKind::kRelu6},
    {1, 16, 6, 6, 33, 1, 1, 2, 1, 0, 1},
    {1, 5, 13, 9, 37, 3, 3, 2, 1, 1, 1, ActKind::kRelu},
    {1, 6, 12, 12, 8, 3, 3, 1, 2, 2, 2},
    {1, 12, 5, 7, 18, 5, 3, 1, 1, 0, 3, ActKind::kNone, false},
    {3, 4, 8, 8, 17, 2, 2, 2, 1, 0, 1, ActKind::kReluN1},
    {1, 40, 15, 15, 64, 3, 3, 1, 1, 1, 1},
    {1, 7, 20, 21, 1, 1, 1, 1, 1, 0, 1},
    {1, 3, 33, 31, 32, 7, 7, 2, 1, 3, 1, ActKind::kTanh},
    {1, 2, 4, 4, 16, 3, 3, 1, 1, 4, 1},
    // Windows at the sides of narrow images.
    {2, 1, 40, 3, 8, 4, 3, 1, 1, 1, 1},
    {1, 1, 30, 2, 9, 3, 3, 2, 1, 2, 1, ActKind::kRelu},
    {1, 1, 50, 2, 20, 4, 3, 2, 1, 2, 1, ActKind::kTanh},
    {1, 3, 20, 3, 9, 3, 3, 1, 1, 3, 1},
    {1, 12, 28, 2, 9, 1, 1, 1, 1, 0, 1, ActKind::kTanh},
    // More filters than image: threads share the filters.
    {1, 40, 7, 7, 200, 3, 3, 1, 1, 1, 1, ActKind::kTanh},
    {2, 64, 5, 5, 200, 1, 1, 1, 1, 0, 1, ActKind::kTanh},
    {1, 64, 3, 3, 200, 3, 3, 1, 1, 1, 1, ActKind::kTanh},
    // K in chunks: of whole runs, of parts of runs.
    {1, 150, 8, 9, 37, 3, 3, 1, 1, 1, 1, ActKind::kRelu},
    {1, 203, 7, 7, 70, 3, 3, 1, 1, 1, 1},
    {2, 1001, 5, 5, 50, 1, 1, 1, 1, 0, 1},
    // Taps in the padding.
    {1, 6, 12, 12, 8, 3, 3, 1, 6, 6, 2},
    {2, 20, 10, 9, 40, 3, 3, 1, 8, 8, 1, ActKind::kTanh},
    {1, 8, 17, 16, 20, 3, 3, 2, 6, 6, 1, ActKind::kRelu},
    {1, 8, 6, 6, 20, 3, 3, 1, 30, 30, 1},
    {1, 8, 6, 6, 20, 3, 3, 1, 2, 5, 1},  // some pixels see padding only
    // Lines of so many pixels that stretches of them are worked on.
    {1, 96, 2, 2101, 9, 1, 3, 1, 1, 1, 1, ActKind::kRelu},
    {1, 96, 1, 4200, 40, 1, 3, 2, 1, 0, 2},
    // A single line: threads share its pixels.
    {1, 12, 1, 150, 20, 9, 9, 1, 1, 4, 1, ActKind::kRelu},
    {1, 12, 1, 301, 20, 9, 9, 2, 1, 4, 2, ActKind::kTanh},
    {1, 9, 1, 140, 40, 5, 5, 1, 3, 6, 1},
    // Rows of a tile that meet in the same lines of a cache: pixels, those of groups, of strides, taps.
    {2, 1024, 1, 33, 130, 1, 1, 1, 1, 0, 1, ActKind::kRelu},
    {1, 1024, 3, 9, 264, 1, 1, 1, 1, 0, 2, ActKind::kTanh},
    {1, 512, 3, 19, 130, 1, 1, 2, 1, 0, 1},
    {1, 512, 1, 67, 130, 1, 2, 2, 1, 0, 1, ActKind::kRelu},
    {1, 512, 9, 11, 130, 3, 3, 2, 1, 1, 1, ActKind::kTanh},
};

constexpr Tolerance kLongSums{1e-4, 1e-5};

OpCase conv_case(const ConvRow& r, Layout layout, FilterLayout filter) {
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->strides = {r.stride, r.stride};
  attrs->dilations = {r.dilation, r.dilation};
  attrs->pads = {r.pad, r.pad, r.pad, r.pad};
  attrs->groups = r.groups;
  attrs->layout = layout;
  attrs->filter = filter;
  attrs->act.kind = r.act;
  OpCase c;
  c.op = Op::kConv;
  c.attrs = attrs;
  const int64_t i = r.c_in / r.groups;
  const Shape x = layout == Layout::kChannelsLast ? Shape{r.batch, r.h, r.w, r.c_in} : Shape{r.batch, r.c_in, r.h, r.w};
  const Shape w = filter == FilterLayout::kOSI   ? Shape{r.c_out, r.kh, r.kw, i}
                  : filter == FilterLayout::kISO ? Shape{i, r.kh, r.kw, r.c_out}
                                                 : Shape{r.c_out, i, r.kh, r.kw};
  c.label = "x " + x.str() + " filter " + w.str() + " stride " + std::to_string(r.stride) + " " + to_string(layout);
  c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
              r.bias ? random_tensor(DType::kF32, {r.c_out}, -1, 1, 3) : Tensor()};
  c.constants = {1, 2};
  c.threaded = true;
  return c;
}

TEST(ConvF32, ChannelsLast) {
  for (const ConvRow& r : kRows)
    check_on_cpu(conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI), "conv_nhwc_f32", kLongSums);
}

// Windows of one pixel, of which the last ones see padding alone.
TEST(ConvF32, SinglePixelsAndPaddingBehind) {
  for (const auto& [layout, filter, kernel] : {std::tuple(Layout::kChannelsLast, FilterLayout::kOSI, "conv_nhwc_f32"),
                                               {Layout::kChannelsFirst, FilterLayout::kOIS, "conv_nchw_f32"}}) {
    OpCase c = conv_case({2, 12, 5, 6, 20, 1, 1, 1, 1, 0, 1, ActKind::kRelu}, layout, filter);
    auto attrs = static_cast<const ConvAttrs&>(*c.attrs);
    attrs.pads = {0, 0, 2, 1};
    c.attrs = make_attrs<ConvAttrs>(std::move(attrs));
    check_on_cpu(c, kernel, kLongSums);
  }
}

TEST(ConvF32, NanStays) {
  for (const ConvRow& r : {ConvRow{1, 8, 6, 6, 20, 3, 3, 2, 1, 1, 1}, ConvRow{1, 8, 6, 6, 20, 1, 1, 1, 1, 0, 1},
                           ConvRow{1, 16, 6, 6, 16, 3, 3, 1, 1, 1, 4}, ConvRow{1, 16, 6, 6, 16, 3, 3, 1, 1, 1, 16},
                           ConvRow{1, 24, 12, 12, 24, 3, 3, 1, 1, 1, 1}, ConvRow{1, 32, 12, 17, 2, 9, 9, 1, 1, 4, 1},
                           ConvRow{1, 20, 8, 9, 3, 4, 3, 1, 1, 5, 1}}) {
    OpCase c = conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI);
    c.inputs[0].data<float>()[9] = std::numeric_limits<float>::quiet_NaN();
    check_on_cpu(c, "", kLongSums);
  }
}

// Products by halves: an odd number of panels, several images, rows that meet in the same lines of a cache, few rows of
// many filters, which threads share.
TEST(ConvStrassenF32, ManyPixels) {
  if (!machine_has(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  for (const ConvRow& r :
       {ConvRow{1, 260, 13, 14, 530, 1, 1, 1, 1, 0, 1, ActKind::kRelu}, ConvRow{3, 256, 9, 11, 512, 1, 1, 1, 1, 0, 1},
        ConvRow{1, 1024, 12, 15, 520, 1, 1, 1, 1, 0, 1, ActKind::kTanh},
        ConvRow{1, 512, 10, 9, 2056, 1, 1, 1, 1, 0, 1, ActKind::kNone, false}})
    check_on_cpu(conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI), "conv_nhwc_strassen_f32", kLongSums);
}

// Signals whose windows lie in one piece, beside each other or with gaps or overlaps.
TEST(ConvStrassenF32, PatchesThatAreRows) {
  if (!machine_has(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  for (const ConvRow& r :
       {ConvRow{1, 128, 1, 401, 520, 1, 3, 2, 1, 0, 1, ActKind::kRelu}, ConvRow{2, 160, 1, 150, 512, 1, 2, 1, 1, 0, 1},
        ConvRow{3, 256, 1, 270, 512, 1, 1, 3, 1, 0, 1}})
    check_on_cpu(conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI), "conv_nhwc_strassen_f32", kLongSums);
}

// A softmax of their results has ties.
TEST(ConvStrassenF32, EqualFiltersGiveEqualResults) {
  if (!machine_has(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  OpCase c = conv_case({1, 256, 13, 14, 520, 1, 1, 1, 1, 0, 1, ActKind::kNone, false}, Layout::kChannelsLast,
                       FilterLayout::kOSI);
  std::fill_n(c.inputs[1].data<float>(), c.inputs[1].elements(), 0.3f);
  KernelRunner runner(c);
  const auto info = std::ranges::find(all_kernels(), std::string("conv_nhwc_strassen_f32"), &KernelInfo::name);
  ASSERT_NE(info, all_kernels().end());
  const auto kernel = runner.make(*info, best_isa());
  ASSERT_TRUE(kernel);
  const auto got = runner.run(*kernel);
  ASSERT_TRUE(got.ok());
  const auto* y = (*got)[0].data<float>();
  for (int64_t i = 0; i < (*got)[0].elements(); ++i) ASSERT_EQ(y[i], y[i / 520 * 520]) << i;
}

// Groups of few filters: several blocks of groups, bands of lines, phases of strides, dilations, parts of vectors.
TEST(ConvF32, GroupsOfFewFilters) {
  for (const ConvRow& r : {ConvRow{1, 48, 14, 13, 48, 3, 3, 1, 1, 1, 6, ActKind::kRelu},
                           ConvRow{2, 40, 15, 17, 40, 3, 3, 2, 1, 1, 5, ActKind::kTanh},
                           ConvRow{1, 24, 7, 7, 20, 3, 3, 1, 1, 1, 4, ActKind::kNone, false},
                           ConvRow{1, 12, 100, 90, 6, 3, 3, 1, 1, 1, 2, ActKind::kRelu6},
                           ConvRow{1, 14, 11, 50, 21, 5, 3, 3, 2, 2, 7}, ConvRow{1, 60, 9, 40, 4, 3, 3, 1, 3, 3, 2},
                           ConvRow{1, 16, 5, 19, 16, 1, 1, 1, 1, 0, 4}, ConvRow{1, 24, 12, 30, 24, 3, 3, 1, 1, -2, 3}})
    check_on_cpu(conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI),
                 best_isa().has(IsaFeature::kAvx512) ? "conv_grouped_f32" : "", kLongSums);
}

// Few filters: taps outside the image, stretches of a line, lines of padding alone, vectors that end behind a filter.
TEST(ConvF32, FewFilters) {
  for (const ConvRow& r :
       {ConvRow{1, 32, 12, 17, 2, 9, 9, 1, 1, 4, 1, ActKind::kRelu}, ConvRow{2, 40, 11, 10, 1, 3, 3, 1, 1, 1, 1},
        ConvRow{1, 33, 9, 30, 2, 3, 3, 1, 2, 2, 1, ActKind::kTanh}, ConvRow{1, 48, 1, 1300, 1, 1, 7, 1, 1, 0, 1},
        ConvRow{1, 20, 8, 9, 3, 4, 3, 1, 1, 5, 1, ActKind::kNone, false}})
    check_on_cpu(conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI), "conv_few_filters_f32", kLongSums);
}

// Products of rounded operands are exact.
TEST(ConvBf16, RoundedOperands) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  for (const ConvRow& r : kRows) {
    OpCase c = conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI);
    for (const size_t i : {0, 1}) c.inputs[i] = rounded_to_bf16(c.inputs[i]);
    for (const Isa isa : bf16_isas()) check_named(c, "conv_nhwc_bf16", isa, kLongSums);
  }
}

// Padding along the line alone: segments of pixels that see the same taps, which threads share.
TEST(ConvF32, SingleLines) {
  for (const ConvRow& r :
       {ConvRow{1, 40, 1, 50, 64, 1, 3, 1, 1, 1, 1, ActKind::kRelu}, ConvRow{2, 12, 1, 301, 18, 1, 5, 1, 60, 120, 3},
        ConvRow{1, 33, 1, 77, 40, 1, 4, 2, 2, 3, 1}, ConvRow{1, 150, 1, 120, 200, 1, 3, 1, 32, 32, 1, ActKind::kTanh},
        ConvRow{1, 16, 1, 200, 24, 1, 3, 1, 64, 128, 1, ActKind::kRelu}}) {
    OpCase c = conv_case(r, Layout::kChannelsLast, FilterLayout::kOSI);
    auto attrs = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*c.attrs));
    attrs->pads = {0, r.pad, 0, r.pad};
    c.attrs = attrs;
    check_on_cpu(c, "conv_nhwc_f32", kLongSums);
  }
}

// Signals that lie along the height.
TEST(ConvF32, Columns) {
  for (const ConvRow& r : {ConvRow{2, 12, 60, 1, 40, 3, 1, 1, 2, 3, 1, ActKind::kRelu},
                           ConvRow{1, 24, 41, 1, 24, 5, 1, 2, 1, 2, 24}, ConvRow{1, 8, 30, 1, 12, 4, 1, 3, 1, 0, 2}})
    for (const Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
      const bool last = layout == Layout::kChannelsLast;
      OpCase c = conv_case(r, layout,
                           !last          ? FilterLayout::kOIS
                           : r.groups > 2 ? FilterLayout::kISO
                                          : FilterLayout::kOSI);
      auto attrs = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*c.attrs));
      attrs->pads = {r.pad, 0, r.pad, 0};
      c.attrs = attrs;
      check_on_cpu(c, "", kLongSums);
    }
}

TEST(ConvF32, ChannelsFirst) {
  for (const ConvRow& r : kRows)
    check_on_cpu(conv_case(r, Layout::kChannelsFirst, FilterLayout::kOIS), "conv_nchw_f32", kLongSums);
}

const ConvRow kDepthwise[] = {
    {1, 37, 9, 11, 37, 3, 3, 1, 1, 1, 37, ActKind::kRelu6},
    {2, 16, 14, 23, 16, 3, 3, 2, 1, 1, 16},
    {1, 130, 7, 7, 130, 3, 3, 1, 1, 1, 130, ActKind::kNone, false},
    {1, 24, 12, 19, 24, 5, 5, 1, 1, 2, 24},
    {1, 9, 15, 18, 9, 5, 5, 2, 1, 2, 9, ActKind::kSigmoid},
    {1, 20, 17, 50, 20, 3, 3, 1, 2, 2, 20},
    {1, 33, 8, 9, 33, 3, 4, 3, 2, 3, 33},
    {1, 5, 3, 3, 5, 3, 3, 1, 1, 5, 5},
    {1, 6, 70, 71, 6, 7, 7, 1, 1, 3, 6},
    {1, 4, 6, 6, 4, 1, 1, 2, 1, 0, 4},
    // Wide windows: whole ones between those that reach over either border.
    {1, 37, 9, 26, 37, 7, 7, 1, 1, 3, 37, ActKind::kRelu},
    {2, 16, 8, 41, 16, 3, 9, 2, 1, 4, 16},
    {1, 19, 5, 29, 19, 1, 11, 1, 1, 5, 19},
    {1, 20, 25, 30, 20, 7, 7, 1, 3, 9, 20, ActKind::kRelu6},
    {1, 33, 9, 10, 33, 3, 3, 1, 1, 1, 33, ActKind::kRelu},
    {2, 21, 8, 14, 21, 3, 3, 1, 1, 1, 21},
    {1, 100, 7, 7, 100, 7, 7, 1, 1, 3, 100},
    {2, 21, 6, 15, 21, 9, 9, 1, 1, 4, 21, ActKind::kTanh},
    {1, 64, 9, 13, 64, 11, 11, 1, 1, 5, 64, ActKind::kNone, false},
    {1, 32, 9, 6, 32, 7, 7, 1, 1, 3, 32},
    {1, 16, 12, 9, 16, 7, 7, 1, 1, 0, 16},
    {1, 35, 6, 20, 35, 3, 13, 1, 1, 6, 35, ActKind::kRelu},
    {1, 17, 9, 9, 17, 31, 31, 1, 1, 15, 17},
    {2, 32, 3, 40, 32, 1, 14, 1, 1, 0, 32},
    // Dilated windows, of which every second pixel is a neighbour.
    {1, 37, 9, 21, 37, 5, 5, 1, 2, 4, 37},
    {1, 16, 9, 33, 16, 7, 7, 1, 4, 12, 16},
    {1, 20, 9, 9, 20, 3, 3, 1, 4, 4, 20},
    // Two rows of dilated windows at once.
    {1, 48, 30, 29, 48, 3, 3, 1, 2, 2, 48},
    {2, 33, 26, 28, 33, 3, 3, 1, 3, 3, 33, ActKind::kTanh},
    {1, 16, 40, 20, 16, 5, 5, 1, 2, 4, 16},
    {2, 32, 24, 30, 32, 3, 3, 1, 6, 4, 32, ActKind::kRelu},
    {1, 32, 24, 30, 32, 3, 3, 2, 2, 2, 32},
    // Windows larger than the image; pixels of dilated ones by phases.
    {1, 35, 14, 13, 35, 31, 31, 1, 1, 15, 35, ActKind::kRelu},
    {2, 16, 6, 30, 16, 1, 21, 2, 1, 10, 16},
    {1, 33, 20, 23, 33, 5, 5, 1, 2, 3, 33},
    {2, 48, 9, 17, 48, 3, 3, 1, 4, 4, 48, ActKind::kTanh},
    {1, 16, 11, 26, 16, 3, 3, 1, 3, 0, 16},
    // A single line: threads share its pixels.
    {1, 33, 1, 150, 33, 9, 9, 1, 1, 4, 33},
    {1, 16, 1, 200, 16, 5, 5, 1, 4, 8, 16, ActKind::kTanh},
    {1, 20, 1, 151, 20, 7, 7, 2, 1, 3, 20, ActKind::kRelu},
    {2, 18, 1, 100, 18, 31, 31, 1, 1, 15, 18},
};

TEST(ConvF32, DepthwiseChannelsLast) {
  for (const ConvRow& r : kDepthwise)
    check_on_cpu(conv_case(r, Layout::kChannelsLast, FilterLayout::kISO), "depthwise_nhwc_f32");
}

TEST(ConvF32, DepthwiseChannelsFirst) {
  for (const ConvRow& r : kDepthwise)
    check_on_cpu(conv_case(r, Layout::kChannelsFirst, FilterLayout::kOIS), "depthwise_nchw_f32");
}

TEST(ConvF32, DynamicFilters) {
  for (const ConvRow* r : {&kRows[0], &kRows[1], &kRows[5], &kDepthwise[0]}) {
    OpCase c = conv_case(*r, Layout::kChannelsFirst, FilterLayout::kOIS);
    c.constants.clear();
    check_on_cpu(c, r->groups == r->c_in ? "depthwise_nchw_f32" : "conv_nchw_f32");
  }
}

TEST(ConvF32, DynamicFiltersChannelsLast) {
  for (const FilterLayout filter : {FilterLayout::kOSI, FilterLayout::kOIS, FilterLayout::kISO}) {
    for (const ConvRow& r : kRows) {
      if (filter != FilterLayout::kOSI && r.groups > 1) continue;
      OpCase c = conv_case(r, Layout::kChannelsLast, filter);
      c.constants.clear();
      check_on_cpu(c, "conv_nhwc_dynamic_f32", kLongSums);
    }
  }
  for (const ConvRow& r : kDepthwise) {
    OpCase c = conv_case(r, Layout::kChannelsLast, FilterLayout::kISO);
    c.constants.clear();
    check_on_cpu(c, "conv_nhwc_dynamic_f32");
  }
}

TEST(ConvF32, MixedLayouts) {
  check_on_cpu(conv_case(kRows[0], Layout::kChannelsLast, FilterLayout::kOIS), "conv_nhwc_f32");
  check_on_cpu(conv_case(kRows[3], Layout::kChannelsFirst, FilterLayout::kOSI), "conv_nchw_f32");
  check_on_cpu(conv_case(kRows[3], Layout::kChannelsLast, FilterLayout::kISO), "conv_nhwc_f32");
}

TEST(ConvF32, OneAndThreeDimensions) {
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->strides = {2};
  attrs->pads = {2, 1};
  OpCase line{
      "1-D",
      Op::kConv,
      attrs,
      {random_tensor(DType::kF32, {2, 5, 23}, -1, 1, 1), random_tensor(DType::kF32, {7, 5, 4}, -1, 1, 2), Tensor()},
      {1}};
  check_on_cpu(line, "conv_nchw_f32");
  attrs = std::make_shared<ConvAttrs>();
  attrs->auto_pad = AutoPad::kSameUpper;
  attrs->strides = {1, 2, 2};
  attrs->layout = Layout::kChannelsLast;
  attrs->filter = FilterLayout::kSIO;
  OpCase volume{"3-D",
                Op::kConv,
                attrs,
                {random_tensor(DType::kF32, {1, 4, 6, 5, 3}, -1, 1, 1),
                 random_tensor(DType::kF32, {2, 3, 3, 3, 9}, -1, 1, 2), random_tensor(DType::kF32, {9}, -1, 1, 3)},
                {1, 2}};
  check_on_cpu(volume, "conv_nhwc_f32");
}

}  // namespace
}  // namespace smelt
