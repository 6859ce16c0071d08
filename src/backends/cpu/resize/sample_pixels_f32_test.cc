#include <limits>

#include "base/cat.h"
#include "ops/resize/resize.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(SamplePixelsF32, PointsInAndAroundTheImage) {
  for (const int64_t channels : {1, 3, 16, 37}) {
    Tensor points = random_tensor(DType::kF32, {2, 3, 50, 2}, -3, 12, 2);
    const float odd[] = {-1, 0, 0, 8, -0.5f, -0.5f, 6, 4, 6.5f, 4.5f, 1e9f, 1, std::numeric_limits<float>::quiet_NaN(),
                         2};
    std::copy(std::begin(odd), std::end(odd), points.data<float>());
    OpCase c{Cat(channels, " channels"),
             Op::kSamplePixels,
             make_attrs<SamplePixelsAttrs>(),
             {random_tensor(DType::kF32, {2, 5, 7, channels}, -1, 1, 1), points}};
    c.threaded = true;
    check_on_cpu(c, "sample_pixels_f32");
  }
}

TEST(SamplePixelsF32, AffineMapsRunElsewhere) {
  SamplePixelsAttrs a;
  a.affine = true;
  a.height = a.width = 4;
  check_on_cpu({"affine",
                Op::kSamplePixels,
                make_attrs<SamplePixelsAttrs>(a),
                {f32({1, 5, 7, 3}), random_tensor(DType::kF32, {16}, -1, 1, 2)}},
               "");
}

}  // namespace
}  // namespace smelt
