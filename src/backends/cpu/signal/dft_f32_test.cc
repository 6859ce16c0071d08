#include "base/cat.h"
#include "ops/signal/signal.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr Tolerance kClose{2e-5, 1e-5};

Tensor number(int64_t n) { return Tensor::from<int64_t>(DType::kI64, Shape{}, std::vector<int64_t>{n}); }

/// Every radix of a stage, odd and even real lengths, and lengths with large prime factors.
TEST(DftF32, Lengths) {
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 17, 30, 34, 49, 64, 97, 120, 143, 194, 400, 512, 1009}) {
    for (bool onesided : {true, false}) {
      DftAttrs a;
      a.axis = 1;
      a.onesided = onesided;
      check_on_cpu({Cat("real ", n, onesided ? " onesided" : ""), Op::kDft, make_attrs<DftAttrs>(a), {f32({5, n, 1})}},
                   "dft_f32", kClose);
    }
    for (bool inverse : {true, false}) {
      DftAttrs a;
      a.axis = -2;
      a.inverse = inverse;
      a.scale = 0;
      check_on_cpu({Cat("complex ", n, inverse ? " inverse" : ""), Op::kDft, make_attrs<DftAttrs>(a), {f32({3, n, 2})}},
                   "dft_f32", kClose);
    }
  }
}

TEST(DftF32, LinesAcrossAndOtherLengths) {
  for (int64_t given : {5, 12, 16})
    for (bool inverse : {false, true})
      for (int64_t parts : {1, 2})
        for (bool onesided : {false, true}) {
          if (onesided && (inverse ? parts == 1 : parts == 2)) continue;
          DftAttrs a;
          a.inverse = inverse;
          a.onesided = onesided;
          OpCase c{Cat(given, " entries", inverse ? " inverse" : "", onesided ? " onesided" : "", " parts ", parts),
                   Op::kDft,
                   make_attrs<DftAttrs>(a),
                   {f32({2, 9, 7, parts}), number(given), number(1)},
                   {1, 2}};
          c.threaded = true;
          check_on_cpu(c, "dft_f32", kClose);
        }
}

TEST(DftF32, Planes) {
  for (const auto& [shape, rows, columns] : {std::tuple{Shape{6, 1, 20}, 1, 16},
                                             {Shape{6, 1, 20}, 1, 32},
                                             {Shape{2, 6, 10}, 6, 10},
                                             {Shape{5, 8}, 4, 16},
                                             {Shape{3, 4, 7}, 8, 7}}) {
    DftAttrs a;
    a.dims = 2;
    a.onesided = true;
    a.complex_dtype = true;
    const auto lengths = Tensor::from<int32_t>(DType::kI32, Shape{2}, std::vector<int32_t>{rows, columns});
    check_on_cpu({Cat(shape.str(), " to ", rows, " by ", columns),
                  Op::kDft,
                  make_attrs<DftAttrs>(a),
                  {f32(shape), lengths},
                  {1}},
                 "dft_f32", kClose);
  }
}

TEST(StftF32, FramesAndWindows) {
  for (int64_t length : {8, 15, 25})
    for (bool onesided : {true, false})
      for (bool window : {true, false})
        for (int64_t parts : {1, 2}) {
          if (onesided && parts == 2) continue;
          StftAttrs a;
          a.onesided = onesided;
          OpCase c{Cat("frames of ", length, onesided ? " onesided" : "", window ? " window" : "", " parts ", parts),
                   Op::kStft,
                   make_attrs<StftAttrs>(a),
                   {f32({2, 100, parts}), number(7), window ? f32({length}, 2) : Tensor(), number(length)},
                   {1, 3}};
          c.threaded = true;
          check_on_cpu(c, "stft_f32", kClose);
        }
}

}  // namespace
}  // namespace smelt
