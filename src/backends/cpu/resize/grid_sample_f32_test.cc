#include <algorithm>
#include <limits>

#include "base/cat.h"
#include "ops/resize/resize.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

OpCase sample_case(const Shape& image, int64_t height, int64_t width, const GridSampleAttrs& a) {
  Tensor grid = random_tensor(DType::kF32, {image[0], height, width, 2}, -1.4, 1.4, 2);
  auto* at = grid.data<float>();
  at[0] = -1;
  at[1] = 1;
  // Of points far away it is up to rounding what reflection makes of them.
  const float far = a.padding == GridSampleAttrs::Padding::kReflection ? 9.37f : 1e9f;
  at[2] = far;
  at[4] = -far;
  return {Cat(image.str(), " at ", height, 'x', width),
          Op::kGridSample,
          make_attrs<GridSampleAttrs>(a),
          {random_tensor(DType::kF32, image, -1, 1, 1), grid}};
}

TEST(GridSampleF32, PaddingAndCorners) {
  for (const auto padding :
       {GridSampleAttrs::Padding::kZeros, GridSampleAttrs::Padding::kBorder, GridSampleAttrs::Padding::kReflection})
    for (int form = 0; form < 4; ++form) {
      const bool corners = form & 1;
      GridSampleAttrs a;
      a.mode = form & 2 ? GridSampleAttrs::Mode::kNearest : GridSampleAttrs::Mode::kLinear;
      a.padding = padding;
      a.align_corners = corners;
      for (const Shape& image : {Shape{2, 3, 5, 7}, Shape{1, 1, 1, 4}, Shape{3, 5, 20, 31}})
        for (const int64_t width : {1, 9, 150}) {
          OpCase c = sample_case(image, 3, width, a);
          check_on_cpu(c, "grid_sample_f32", {2e-5, 2e-5});
          if (padding != GridSampleAttrs::Padding::kZeros) continue;
          c.inputs[0].data<float>()[0] = std::numeric_limits<float>::infinity();
          c.inputs[1].data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
          check_on_cpu(c, "grid_sample_f32", {2e-5, 2e-5});
        }
    }
}

TEST(GridSampleF32, CoordinatesInFloat64) {
  OpCase c = sample_case({2, 3, 20, 31}, 3, 150, {});
  Tensor wide(DType::kF64, c.inputs[1].shape());
  std::copy_n(c.inputs[1].data<float>(), wide.elements(), wide.data<double>());
  c.inputs[1] = wide;
  check_on_cpu(c, "grid_sample_f32", {2e-5, 2e-5});
}

TEST(GridSampleF32, CubicRunsElsewhere) {
  GridSampleAttrs a;
  a.mode = GridSampleAttrs::Mode::kCubic;
  check_on_cpu(sample_case({1, 2, 5, 7}, 3, 4, a), "");
}

}  // namespace
}  // namespace smelt
