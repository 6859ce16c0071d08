#include "base/cat.h"
#include "ops/resize/resize.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ResizeBytes, EqualsTheReference) {
  for (const DType t : {DType::kU8, DType::kI8})
    for (const auto mode : {ResizeAttrs::Mode::kLinear, ResizeAttrs::Mode::kCubic})
      for (const auto coord : {ResizeAttrs::Coord::kHalfPixel, ResizeAttrs::Coord::kAlignCorners})
        for (const bool antialias : {false, true})
          for (const auto& [height, width] : {std::pair<int64_t, int64_t>{14, 10}, {5, 4}, {31, 3}})
            for (const bool last : {false, true}) {
              ResizeAttrs a;
              a.mode = mode;
              a.coord = coord;
              a.antialias = antialias;
              const Shape x = last ? Shape{2, 7, 5, 19} : Shape{2, 3, 7, 5};
              const Tensor sizes = last ? i64({2, height, width, 19}) : i64({2, 3, height, width});
              OpCase c{Cat(to_string(t), ' ', to_string(mode), ' ', to_string(coord), ' ', antialias, ' ', height, 'x',
                           width, last ? " last" : " first"),
                       Op::kResize,
                       make_attrs<ResizeAttrs>(a),
                       {random_tensor(t, x, t == DType::kU8 ? 0 : -128, t == DType::kU8 ? 255 : 127, 1), Tensor(),
                        Tensor(), sizes},
                       {3}};
              c.threaded = true;
              check_on_cpu(c, "resize_bytes");
            }
}

}  // namespace
}  // namespace smelt
