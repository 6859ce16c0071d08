#include <limits>

#include "base/cat.h"
#include "ops/pool/pool.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

OpCase align_case(const std::string& label, const RoiAttrs& a, const Tensor& boxes) {
  OpCase c{label,
           Op::kRoiPool,
           make_attrs<RoiAttrs>(a),
           {f32({2, 5, 13, 17}), boxes, random_tensor(DType::kI64, {boxes.dim(0)}, 0, 1, 3)}};
  c.threaded = true;
  return c;
}

/// Of 26 x 34 pixels, of which an image has every second: within it, beyond its edges, tiny and turned inside out.
Tensor boxes_at_edges() {
  return floats({6, 4},
                {1, 2, 30, 20, -9, -30, 5, 4, 25, 20, 90, 70, 3.2, 3.3, 3.4, 3.5, 20, 4, 6, 15, -99, -99, 99, 99});
}

TEST(RoiAlignF32, BoxesAndSamples) {
  for (const bool half_pixel : {false, true})
    for (const int64_t ratio : {0, 1, 2, 3}) {
      RoiAttrs a;
      a.half_pixel = half_pixel;
      a.sampling_ratio = ratio;
      a.height = 7;
      a.width = 4;
      a.scale = 0.5;
      const Tensor random = random_tensor(DType::kF32, {9, 4}, -4, 40, 2);
      check_on_cpu(align_case(Cat("random boxes, ratio ", ratio), a, random), "roi_align_f32");
      check_on_cpu(align_case(Cat("edges, ratio ", ratio), a, boxes_at_edges()), "roi_align_f32");
    }
}

TEST(RoiAlignF32, BoxesThatAreNoNumbers) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  RoiAttrs a;
  a.height = a.width = 3;
  for (const int64_t ratio : {0, 2}) {
    a.sampling_ratio = ratio;
    const Tensor boxes = floats({4, 4}, {kNan, 1, 5, 6, 1, 2, kInf, 9, -kInf, -kInf, kInf, kInf, 1, 1, 1e30, 1e30});
    check_on_cpu(align_case(Cat("ratio ", ratio), a, boxes), "roi_align_f32");
  }
}

TEST(RoiAlignF32, MaximaRunElsewhere) {
  RoiAttrs a;
  a.max = true;
  check_on_cpu(align_case("max", a, boxes_at_edges()), "");
}

TEST(RoiAlignF32, ImageOutside) {
  OpCase c = align_case("outside", {}, boxes_at_edges());
  c.inputs[2] = i64({0, 1, 2, 0, 0, 0});
  check_fails(c);
}

}  // namespace
}  // namespace smelt
