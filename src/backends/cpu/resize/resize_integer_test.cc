#include "base/cat.h"
#include "ops/resize/resize.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ResizeInteger, EqualsTheReference) {
  for (const auto& [t, rounding] : {std::pair{DType::kI8, Rounding::kFixedDouble},
                                    {DType::kU8, Rounding::kFixedDouble},
                                    {DType::kI8, Rounding::kXnnpack},
                                    {DType::kU8, Rounding::kXnnpack}})
    for (const auto coord :
         {ResizeAttrs::Coord::kAsymmetric, ResizeAttrs::Coord::kHalfPixel, ResizeAttrs::Coord::kAlignCorners})
      for (int64_t channels : {1, 3, 21, 64})
        for (const auto& [height, width] : {std::pair<int64_t, int64_t>{13, 9}, {5, 4}, {31, 3}, {1, 1}}) {
          ResizeAttrs a;
          a.mode = ResizeAttrs::Mode::kLinear;
          a.coord = coord;
          a.axes = {1, 2};
          a.tflite = true;
          a.rounding = rounding;
          OpCase c{Cat(to_string(t), ' ', to_string(rounding), ' ', to_string(coord), ' ', height, 'x', width, ' ',
                       channels),
                   Op::kResize,
                   make_attrs<ResizeAttrs>(a),
                   {random_quantized(t, {2, 7, 5, channels}, 0.1f, 3, 1), Tensor(), Tensor(), i64({height, width})},
                   {3},
                   {ValueType::tensor(t, {}, per_tensor(0.1f, 3))}};
          c.threaded = true;
          check_on_cpu(c, "resize_integer");
        }
}

}  // namespace
}  // namespace smelt
