#include "ops/reduce/reduce.h"

#include <limits>

#include "ops/normalization/normalization.h"
#include "ops/softmax/softmax.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanReduce : public VulkanTest {};

Tensor ints(const std::vector<double>& v) { return tensor(DType::kI64, Shape{static_cast<int64_t>(v.size())}, v); }

AttrsPtr reduce(Reduction fn, bool keep = false, double correction = 0) {
  ReduceAttrs a;
  a.fn = fn;
  a.keep_dims = keep;
  a.correction = correction;
  return make_attrs<ReduceAttrs>(a);
}

Tolerance near(DType dtype) { return dtype == DType::kF16 ? Tolerance{2e-3, 2e-3} : Tolerance{1e-4, 2e-5}; }

/// Shapes and axes: a lane a row and a workgroup a row, dense rows and columns, one dimension and several.
struct Axes {
  Shape shape;
  std::vector<double> axes;
};
const std::vector<Axes> kAxes = {{Shape{5}, {0}},
                                 {Shape{3, 300}, {1}},
                                 {Shape{300, 3}, {0}},
                                 {Shape{2, 7, 3, 5}, {1, 3}},
                                 {Shape{2, 64, 3, 65}, {-1, 1}},
                                 {Shape{2, 3, 4, 5}, {0, 2}},
                                 {Shape{4, 6}, {}},
                                 {Shape{2, 70, 1100}, {1}},
                                 {Shape{150000}, {}},
                                 {Shape{1200, 90, 3}, {0, 2}}};

TEST_F(VulkanReduce, Reals) {
  for (const Axes& a : kAxes)
    for (int fn = 0; fn <= static_cast<int>(Reduction::kStd); ++fn)
      for (DType dtype : {DType::kF32, DType::kF16}) {
        const auto f = static_cast<Reduction>(fn);
        if (f == Reduction::kAny || f == Reduction::kAll) continue;
        const bool small = f == Reduction::kProd || f == Reduction::kLogSum;
        check_on_gpu({to_string(f) + (" " + a.shape.str()),
                      Op::kReduce,
                      reduce(f, fn % 2 == 0, fn % 2),
                      {random_tensor(dtype, a.shape, small ? 0.9 : -2, small ? 1.1 : 2, 7), ints(a.axes)},
                      {1}},
                     "reduce", near(dtype));
      }
}

TEST_F(VulkanReduce, Integers) {
  for (const Axes& a : kAxes) {
    for (Reduction f :
         {Reduction::kSum, Reduction::kMax, Reduction::kMin, Reduction::kProd, Reduction::kL1, Reduction::kSumSquare})
      check_on_gpu({to_string(f) + (" " + a.shape.str()),
                    Op::kReduce,
                    reduce(f),
                    {random_tensor(DType::kI32, a.shape, -100000, 100000, 3), ints(a.axes)},
                    {1}},
                   "reduce");
    for (Reduction f : {Reduction::kAny, Reduction::kAll})
      check_on_gpu({to_string(f) + (" " + a.shape.str()),
                    Op::kReduce,
                    reduce(f),
                    {random_tensor(DType::kBool, a.shape, 0, 1, 3), ints(a.axes)},
                    {1}},
                   "reduce");
  }
}

TEST_F(VulkanReduce, QuantizedSums) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kFloatHalfEven})
      for (Reduction fn : {Reduction::kMean, Reduction::kSum})
        for (const Axes& a : {Axes{Shape{2, 7, 7, 5}, {1, 2}}, Axes{Shape{3, 300}, {-1}}}) {
          ReduceAttrs attrs;
          attrs.fn = fn;
          attrs.rounding = rounding;
          Tensor x = random_tensor(dtype, a.shape, dtype == DType::kI8 ? -128 : 0, dtype == DType::kI8 ? 127 : 255, 3);
          x.set_quant(per_tensor(0.05f, 3, rounding));
          const Shape out = a.axes.size() == 2 ? Shape{2, 5} : Shape{3};
          check_on_gpu(
              {Cat(to_string(fn), " ", a.shape.str(), " ", static_cast<int>(rounding)),
               Op::kReduce,
               make_attrs<ReduceAttrs>(attrs),
               {x, ints(a.axes)},
               {1},
               {ValueType::tensor(dtype, out, per_tensor(fn == Reduction::kMean ? 0.03f : 1.7f, 9, rounding))}},
              "reduce_lookup_table");
        }
}

TEST_F(VulkanReduce, NotANumber) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor x = floats(Shape{3, 4}, {1, nan, 3, 2, -inf, -inf, -inf, -inf, inf, 1, 2, 3});
  for (Reduction f : {Reduction::kMax, Reduction::kMin, Reduction::kSum, Reduction::kLogSumExp})
    check_on_gpu({to_string(f), Op::kReduce, reduce(f), {x, ints({1})}, {1}}, "reduce");
}

TEST_F(VulkanReduce, ArgReduce) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8})
    for (DType to : {DType::kI32, DType::kI64})
      for (int variant = 0; variant < 4; ++variant)
        for (const Shape& shape : {Shape{4, 9, 3}, Shape{2, 200, 2}, Shape{500}, Shape{70000}}) {
          ArgReduceAttrs a;
          a.min = variant & 1;
          a.select_last = variant & 2;
          a.axis = shape.rank() > 1 ? 1 : 0;
          a.keep_dims = variant == 3;
          a.to = to;
          check_on_gpu({Cat(to_string(dtype), " ", shape.str(), " ", variant),
                        Op::kArgReduce,
                        make_attrs<ArgReduceAttrs>(a),
                        {random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -5, 5, 11)}},
                       "arg_reduce");
        }
}

TEST_F(VulkanReduce, ArgReduceFirstNotANumber) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> v(200, 1);
  v[150] = v[170] = nan;
  v[40] = 5;
  check_on_gpu({"", Op::kArgReduce, make_attrs<ArgReduceAttrs>(), {floats(Shape{200}, v)}}, "arg_reduce");
}

TEST_F(VulkanReduce, Cumulative) {
  for (int fn = 0; fn < 5; ++fn)
    for (int variant = 0; variant < 4; ++variant)
      for (DType dtype : {DType::kF32, DType::kF16, DType::kI32}) {
        CumulativeAttrs a;
        a.fn = static_cast<CumulativeAttrs::Fn>(fn);
        a.exclusive = variant & 1;
        if (dtype == DType::kI32 && (fn == 4 || (fn > 1 && a.exclusive))) continue;
        a.reverse = variant & 2;
        check_on_gpu({Cat(to_string(a.fn), " ", to_string(dtype), " ", variant),
                      Op::kCumulative,
                      make_attrs<CumulativeAttrs>(a),
                      {random_tensor(dtype, Shape{3, 20, 5}, -2, 2, 5), tensor(DType::kI32, Shape{}, {-2})},
                      {1}},
                     "cumulative", near(dtype));
      }
}

TEST_F(VulkanReduce, Softmax) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (auto kind : {SoftmaxAttrs::Kind::kSoftmax, SoftmaxAttrs::Kind::kLogSoftmax, SoftmaxAttrs::Kind::kHardmax})
      for (int64_t axis : {0, 1, -1})
        for (bool flatten : {false, true})
          for (const Shape& shape : {Shape{2, 5, 3}, Shape{3, 100, 130}, Shape{1, 1, 40000}}) {
            SoftmaxAttrs a;
            a.kind = kind;
            a.axis = axis;
            a.flatten = flatten;
            a.beta = flatten ? 0.5 : 1;
            check_on_gpu({Cat(to_string(kind), " ", axis, " ", shape.str()),
                          Op::kSoftmax,
                          make_attrs<SoftmaxAttrs>(a),
                          {random_tensor(dtype, shape, -8, 8, 9)}},
                         "softmax_float", dtype == DType::kF16 ? Tolerance{5e-3, 2e-3} : Tolerance{1e-5, 1e-5});
          }
}

TEST_F(VulkanReduce, QuantizedSoftmax) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (float scale : {0.004f, 0.09f, 0.7f})
      for (int64_t axis : {0, -1})
        for (const Shape& shape : {Shape{1, 1}, Shape{9, 4}, Shape{7, 1000}}) {
          SoftmaxAttrs a;
          a.axis = axis;
          a.rounding = Rounding::kFixedDouble;
          const bool is_signed = dtype == DType::kI8;
          Tensor x = random_tensor(dtype, shape, is_signed ? -128 : 0, is_signed ? 127 : 255, 3);
          x.set_quant(per_tensor(scale, 5, a.rounding));
          check_on_gpu({Cat(to_string(dtype), " ", scale, " ", shape.str()),
                        Op::kSoftmax,
                        make_attrs<SoftmaxAttrs>(a),
                        {x},
                        {},
                        {ValueType::tensor(dtype, shape, per_tensor(1 / 256.0f, is_signed ? -128 : 0, a.rounding))}},
                       "softmax_i8");
        }
}

TEST_F(VulkanReduce, Segments) {
  for (DType dtype : {DType::kF32, DType::kI32})
    for (DType id : {DType::kI32, DType::kI64})
      for (Reduction fn : {Reduction::kSum, Reduction::kProd, Reduction::kMax, Reduction::kMin}) {
        SegmentAttrs a;
        a.fn = fn;
        a.sorted = false;
        OpCase c{Cat(to_string(dtype), " by ", to_string(id)), Op::kSegment, make_attrs<SegmentAttrs>(a)};
        c.inputs = {random_tensor(dtype, Shape{2, 3, 5}, -3, 3, 1), tensor(id, Shape{2, 3}, {3, 0, -1, 3, 5, 0}),
                    ints({6})};
        c.constants = {2};
        check_on_gpu(c, "segment", near(dtype));
        c.inputs[1] = tensor(id, Shape{2, 3}, {3, 0, 6, 3, 5, 0});
        EXPECT_FALSE(run_on_gpu(c).ok());
        a.sorted = true;
        OpCase sorted{"sorted", Op::kSegment, make_attrs<SegmentAttrs>(a)};
        sorted.inputs = {random_tensor(dtype, Shape{4, 7}, -3, 3, 1), tensor(id, Shape{4}, {0, 2, 2, 3})};
        sorted.constants = {1};
        check_on_gpu(sorted, "segment", near(dtype));
      }
}

TEST_F(VulkanReduce, LogSoftmaxOfBytes) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (float scale : {0.003f, 0.06f, 0.4f, 2.5f})
      for (const auto& [shape, axis] : {std::pair{Shape{2, 300, 3}, 1}, {Shape{5, 40}, 1}, {Shape{3, 1000}, -1}}) {
        SoftmaxAttrs a;
        a.kind = SoftmaxAttrs::Kind::kLogSoftmax;
        a.axis = axis;
        a.rounding = Rounding::kFixedDouble;
        const double least = dtype == DType::kI8 ? -128 : 0;
        Tensor x = random_tensor(dtype, shape, least, least + 255, 3);
        x.set_quant(per_tensor(scale, 5, a.rounding));
        const auto quant = per_tensor(16 / 256.0f, static_cast<int32_t>(least) + 255, a.rounding);
        check_on_gpu({Cat(to_string(dtype), " ", scale, " ", shape.str()),
                      Op::kSoftmax,
                      make_attrs<SoftmaxAttrs>(a),
                      {x},
                      {},
                      {ValueType::tensor(dtype, shape, quant)}},
                     "log_softmax_i8");
      }
}

TEST_F(VulkanReduce, NormsOfBytes) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (double part : {0.0, 0.01, 0.2, 1.0})
      for (const Shape& shape : {Shape{7, 3}, Shape{2, 2, 90}, Shape{3, 1500}}) {
        LpNormAttrs a;
        a.rounding = Rounding::kFixedDouble;
        const double least = dtype == DType::kI8 ? -128 : 0, zero = std::round(least + 128 + 5 * part);
        Tensor x = random_tensor(dtype, shape, zero - part * (zero - least), zero + part * (least + 255 - zero), 3);
        x.set_quant(per_tensor(0.02f, static_cast<int32_t>(zero), a.rounding));
        const auto quant = per_tensor(1 / 128.0f, static_cast<int32_t>(least) + 128, a.rounding);
        check_on_gpu({Cat(to_string(dtype), " ", part, " ", shape.str()),
                      Op::kLpNorm,
                      make_attrs<LpNormAttrs>(a),
                      {x},
                      {},
                      {ValueType::tensor(dtype, shape, quant)}},
                     "lp_norm_i8");
      }
}

}  // namespace
}  // namespace smelt::vulkan
