#include <limits>

#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ResizeF32, ModesAndCoordinates) {
  const std::vector<int64_t> sizes[] = {{1, 9, 4, 3}, {1, 5, 13, 3}, {1, 12, 5, 7}, {1, 6, 5, 3}};
  for (int mode = 0; mode < 3; ++mode)
    for (int coord = 0; coord < static_cast<int>(ResizeAttrs::Coord::kCornersHalfPixel); ++coord)
      for (bool antialias : {false, true})
        for (const auto& size : sizes) {
          ResizeAttrs a;
          a.mode = static_cast<ResizeAttrs::Mode>(mode);
          a.coord = static_cast<ResizeAttrs::Coord>(coord);
          a.antialias = antialias && mode != 0;
          OpCase c{Cat(to_string(a.mode), ' ', to_string(a.coord), ' ', size[1], 'x', size[2]),
                   Op::kResize,
                   make_attrs<ResizeAttrs>(a),
                   {random_tensor(DType::kF32, {1, 6, 5, 3}, -1, 1, 1), Tensor(), Tensor(), i64(size)},
                   {3}};
          check_on_cpu(c, a.coord == ResizeAttrs::Coord::kTfCropAndResize ? "" : "resize_f32", {2e-6, 2e-6});
        }
}

// The last dimension has entries with one tap beside ones with two or four, and infinity at a border.
TEST(ResizeF32, ChannelsFirst) {
  for (const auto& size : {std::vector<int64_t>{2, 3, 40, 37}, {2, 3, 6, 5}, {2, 3, 4, 3}})
    for (const auto mode : {ResizeAttrs::Mode::kLinear, ResizeAttrs::Mode::kCubic})
      for (const auto coord : {ResizeAttrs::Coord::kHalfPixel, ResizeAttrs::Coord::kAlignCorners}) {
        ResizeAttrs a;
        a.mode = mode;
        a.coord = coord;
        OpCase c{Cat(to_string(mode), ' ', to_string(coord), ' ', size[3]),
                 Op::kResize,
                 make_attrs<ResizeAttrs>(a),
                 {random_tensor(DType::kF32, {2, 3, 5, 4}, -1, 1, 1), Tensor(), Tensor(), i64(size)},
                 {3}};
        check_on_cpu(c, "resize_f32", {2e-6, 2e-6});
        if (mode != ResizeAttrs::Mode::kLinear) continue;
        c.inputs[0].data<float>()[3] = std::numeric_limits<float>::infinity();
        check_on_cpu(c, "resize_f32", {2e-6, 2e-6});
      }
}

TEST(ResizeNearest, TypesAndSizes) {
  for (DType t : {DType::kU8, DType::kI8, DType::kI16, DType::kF32})
    for (const auto& size : {std::vector<int64_t>{2, 12, 10, 3}, {2, 3, 9, 3}, {2, 6, 5, 3}, {2, 6, 10, 6}}) {
      ResizeAttrs a;
      a.mode = ResizeAttrs::Mode::kNearest;
      check_on_cpu({Cat(to_string(t), ' ', size[1], 'x', size[2]),
                    Op::kResize,
                    make_attrs<ResizeAttrs>(a),
                    {random_tensor(t, {2, 6, 5, 3}, 0, 127, 1), Tensor(), Tensor(), i64(size)},
                    {3}},
                   "resize_nearest", {0, 0});
    }
}

TEST(ReduceBool, AnyAndAll) {
  for (Reduction fn : {Reduction::kAny, Reduction::kAll})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2}, {0}, {1}, {0, 1, 2}})
      for (int period : {1, 2, 97, 1000}) {
        Tensor x(DType::kBool, {5, 3, 70});
        for (int64_t i = 0; i < x.elements(); ++i)
          x.data<uint8_t>()[i] = (i % period == period - 1) == (fn == Reduction::kAny);
        ReduceAttrs a;
        a.fn = fn;
        check_on_cpu({Cat(to_string(fn), ' ', axes.size(), ' ', axes[0], ' ', period),
                      Op::kReduce,
                      make_attrs<ReduceAttrs>(a),
                      {x, i64(axes)},
                      {1}},
                     "reduce_bool");
      }
}

}  // namespace
}  // namespace smelt
