
#include <iterator>
#include <vector>

#include "backends/cpu/conv/winograd_variable.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct VolumeRow {
  Shape image;  ///< [n, d, h, w, c]
  int64_t c_out, depth, stride, pad;
  ActKind act = ActKind::kNone;
  bool bias = true;
  int64_t dilation = 1, window = 3;  ///< between slices; of each slice, padded so that the sizes stay
};

OpCase volume_case(const VolumeRow& r, FilterLayout filter = FilterLayout::kOIS, int64_t groups = 1) {
  auto a = std::make_shared<ConvAttrs>();
  a->strides = {r.stride, 1, 1};
  a->dilations = {r.dilation, 1, 1};
  a->pads = {r.pad, r.window / 2, r.window / 2, r.pad, r.window / 2, r.window / 2};
  a->layout = Layout::kChannelsLast;
  a->filter = filter;
  a->act.kind = r.act;
  a->groups = groups;
  const int64_t c = r.image[4] / groups;
  const Shape w = filter == FilterLayout::kOIS ? Shape{r.c_out, c, r.depth, r.window, r.window}
                                               : Shape{r.depth, r.window, r.window, c, r.c_out};
  OpCase made{r.image.str() + " filter " + w.str(), Op::kConv, a};
  made.inputs = {random_tensor(DType::kF32, r.image, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
                 r.bias ? random_tensor(DType::kF32, {r.c_out}, -1, 1, 3) : Tensor()};
  made.constants = {1, 2};
  made.threaded = true;
  return made;
}

const VolumeRow kVolumes[] = {
    {{1, 8, 9, 10, 20}, 24, 3, 1, 1, ActKind::kRelu},  // the whole window at the ends as well
    {{2, 2, 6, 7, 16}, 17, 3, 1, 1},                   // each slice at an end
    {{1, 1, 6, 7, 16}, 17, 3, 1, 1, ActKind::kTanh},   // one of three slices
    {{1, 7, 5, 6, 13}, 16, 3, 2, 1},
    {{1, 4, 8, 8, 16}, 16, 2, 1, 1, ActKind::kNone, false},
    {{1, 5, 6, 6, 16}, 16, 2, 1, 0},
    {{1, 2, 6, 6, 8}, 16, 1, 1, 1},  // slices of padding alone
};

TEST(ConvVolumeF32, SliceBySlice) {
  const WinogradVariable variable("always4");
  for (const VolumeRow& r : kVolumes) check_on_cpu(volume_case(r), "conv_volume_f32", {1e-3, 1e-4});
}

TEST(ConvVolumeF32, WindowsOfOneSliceAreABatchOfImagesKernel) {
  const VolumeRow rows[] = {{{1, 4, 8, 8, 16}, 16, 1, 1, 0, ActKind::kNone, false}, {{2, 3, 6, 9, 16}, 17, 1, 1, 0}};
  for (const VolumeRow& r : rows) {
    const WinogradVariable variable("always4");
    check_on_cpu(volume_case(r), "conv_winograd_4x4_f32", {1e-3, 1e-4});
    check_on_cpu(volume_case(r, FilterLayout::kSIO), "conv_winograd_4x4_f32", {1e-3, 1e-4});
  }
}

TEST(ConvVolumeF32, OtherConvolutionsRunElsewhere) {
  check_on_cpu(volume_case(kVolumes[0], FilterLayout::kSIO), "conv_nhwc_f32", {1e-4, 1e-5});
  const WinogradVariable variable("0");
  check_on_cpu(volume_case(kVolumes[0]), "conv_nhwc_f32", {1e-4, 1e-5});
}

const VolumeRow kDepthwiseVolumes[] = {
    {{1, 8, 9, 10, 20}, 20, 3, 1, 1, ActKind::kRelu},   {{2, 2, 6, 7, 16}, 16, 3, 1, 1},
    {{1, 1, 6, 7, 17}, 17, 3, 1, 1, ActKind::kTanh},    {{1, 7, 5, 6, 13}, 13, 5, 2, 2, ActKind::kNone, false},
    {{1, 5, 6, 6, 40}, 40, 2, 1, 0, ActKind::kSigmoid},
};

TEST(DepthwiseNhwcF32, Volumes) {
  for (VolumeRow r : kDepthwiseVolumes)
    for (const int64_t dilation : {1, 2}) {
      r.dilation = dilation;
      r.pad += dilation - 1;  // of depths that a wider window fits into
      check_on_cpu(volume_case(r, FilterLayout::kOIS, r.image[4]), "depthwise_nhwc_f32", {1e-5, 1e-5});
    }
}

TEST(DepthwiseNhwcF32, LargeVolumesInBandsOfRows) {
  for (const int64_t window : {1, 3}) {
    VolumeRow r{{1, 6, 35, 38, 40}, 40, 3, 1, 1, ActKind::kRelu};
    r.window = window;
    check_on_cpu(volume_case(r, FilterLayout::kOIS, 40), "depthwise_nhwc_f32", {1e-5, 1e-5});
  }
}

TEST(DepthwiseNhwcF32, OnePixelOfEachSliceIsALine) {
  std::vector<VolumeRow> rows(std::begin(kDepthwiseVolumes), std::end(kDepthwiseVolumes));
  rows.push_back({{2, 9, 1, 1, 24}, 24, 3, 2, 1});  // images of one pixel's width
  for (VolumeRow& r : rows) {
    r.window = 1;
    r.dilation = r.depth == 3 ? 2 : 1;
    r.pad += 1;
    for (const bool bias : {true, false}) {
      r.bias = bias;
      check_on_cpu(volume_case(r, FilterLayout::kOIS, r.image[4]), "depthwise_nhwc_f32", {1e-5, 1e-5});
      check_on_cpu(volume_case(r), "conv_nhwc_f32", {1e-5, 1e-5});
    }
  }
}

TEST(GroupedVolumeF32, GroupsOfFewFilters) {
  for (const VolumeRow& r :
       {VolumeRow{{1, 5, 9, 10, 48}, 48, 3, 1, 1, ActKind::kRelu}, {{2, 3, 8, 11, 24}, 30, 2, 2, 0}})
    check_on_cpu(volume_case(r, FilterLayout::kOIS, 6), best_isa().has(IsaFeature::kAvx512) ? "grouped_volume_f32" : "",
                 {5e-5, 1e-5});
}

TEST(GroupedVolumeF32, SlicesOfPaddingAlone) {
  check_on_cpu(volume_case({{1, 2, 6, 6, 8}, 8, 1, 1, 1}, FilterLayout::kOIS, 8), "depthwise_nhwc_f32", {1e-5, 1e-5});
}

}  // namespace
}  // namespace smelt
