// Stored int16 values, and 8-bit ones with int16 results: bit-equal with the reference kernels.
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanInt16 : public VulkanTest {};

Tensor quantized(DType dtype, const Shape& shape, float scale, uint32_t seed = 1, int32_t zero = 0) {
  const auto [low, high] = dtype == DType::kI16  ? std::pair(-32768, 32767)
                           : dtype == DType::kU8 ? std::pair(0, 255)
                                                 : std::pair(-128, 127);
  Tensor t = random_tensor(dtype, shape, low, high, seed);
  t.set_quant(per_tensor(scale, zero));
  return t;
}
ValueType result(const Shape& shape, float scale, DType dtype = DType::kI16, int32_t zero = 0) {
  return ValueType::tensor(dtype, shape, per_tensor(scale, zero));
}

TEST_F(VulkanInt16, SumsDifferencesAndProducts) {
  const Shape x{2, 3, 4};
  for (Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul})
    for (bool pot : {false, true})
      for (ActKind act : {ActKind::kNone, ActKind::kReluN1})
        for (const Shape& y : {x, Shape{3, 1}, Shape{}}) {
          BinaryAttrs a;
          a.fn = fn;
          a.pot_scale = pot;
          a.act = {act};
          a.rounding = Rounding::kFixedDouble;
          for (const auto& scales : {std::array{1.f / 4096, 1.f / 2048, 1.f / 2048}, std::array{3e-4f, 5e-4f, 8e-4f}})
            check_on_gpu({Cat(to_string(fn), " pot ", pot, " ", y.str()),
                          Op::kBinary,
                          make_attrs<BinaryAttrs>(a),
                          {quantized(DType::kI16, x, scales[0]), quantized(DType::kI16, y, scales[1], 2)},
                          {},
                          {result(x, fn == Binary::kMul ? 0.009f : scales[2])}},
                         "binary_fixed_point");
        }
  for (Binary fn : {Binary::kMax, Binary::kMin})
    check_on_gpu({to_string(fn),
                  Op::kBinary,
                  make_attrs<BinaryAttrs>(fn),
                  {quantized(DType::kI16, x, 1e-3f), quantized(DType::kI16, x, 1e-3f, 2)},
                  {},
                  {result(x, 1e-3f)}},
                 "legalized_types");
}

TEST_F(VulkanInt16, FunctionsByTables) {
  const Shape x{5, 77};
  for (Unary fn : {Unary::kSigmoid, Unary::kTanh, Unary::kExp, Unary::kAbs, Unary::kRelu6}) {
    UnaryAttrs a;
    a.fn = fn;
    a.rounding = Rounding::kFixedDouble;
    check_on_gpu({to_string(fn),
                  Op::kUnary,
                  make_attrs<UnaryAttrs>(a),
                  {quantized(DType::kI16, x, 2e-4f)},
                  {},
                  {result(x, 1.f / 32768)}},
                 "lookup_table");
  }
  for (DType to : {DType::kI8, DType::kI16, DType::kI32})
    check_on_gpu({Cat("to ", to_string(to)),
                  Op::kQuantize,
                  make_attrs<NoAttrs>(),
                  {quantized(DType::kI16, x, 1e-3f)},
                  {},
                  {result(x, to == DType::kI8 ? 0.25f : 2e-3f, to)}},
                 "lookup_table");
  check_on_gpu({"64 bits", Op::kCast, make_attrs<CastAttrs>(DType::kI64), {random_tensor(DType::kU16, x, 0, 65535, 1)}},
               "cast");
  const Forced core_only("SMELT_VULKAN_PLAIN", "1");
  check_on_gpu({"64 bits", Op::kCast, make_attrs<CastAttrs>(DType::kU64), {random_tensor(DType::kU16, x, 0, 65535, 1)}},
               "lookup_table");
}

Tensor bias(DType dtype, int64_t n) { return random_tensor(dtype, {n}, -100000, 100000, 9); }

TEST_F(VulkanInt16, Convolutions) {
  for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kDoubleHalfAway})
    for (bool last : {false, true})
      for (int64_t groups : {1, 2})
        for (DType b : {DType::kI32, DType::kI64, DType::kInvalid})
          for (bool transposed : {false, true}) {
            if (transposed && groups > 1) continue;
            ConvTransposeAttrs a;
            a.layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
            a.filter = transposed ? FilterLayout::kIOS : FilterLayout::kOIS;
            a.groups = groups;
            a.rounding = rounding;
            a.act = {ActKind::kRelu};
            a.strides = {2, 1};
            Tensor filter =
                quantized(DType::kI8, transposed ? Shape{4, 6, 3, 3} : Shape{6, 4 / groups, 3, 3}, 0.01f, 2);
            if (!transposed) filter.set_quant(per_axis({.01f, .02f, .005f, .01f, .01f, .03f}, 0));
            OpCase c{Cat("last ", last, " groups ", groups, " bias ", to_string(b), " transposed ", transposed),
                     transposed ? Op::kConvTranspose : Op::kConv,
                     transposed ? make_attrs<ConvTransposeAttrs>(a) : make_attrs<ConvAttrs>(a),
                     {quantized(DType::kI16, last ? Shape{2, 7, 5, 4} : Shape{2, 4, 7, 5}, 5e-4f), filter},
                     {1, 2}};
            if (b != DType::kInvalid) c.inputs.push_back(bias(b, 6));
            ValueType y = ValueType::tensor(DType::kI16);
            y.ranked = false;
            y.quant = per_tensor(1e-3f, 0);
            c.outputs = {y};
            check_on_gpu(c, transposed ? "conv_transpose_i16" : "conv_i16");
          }
}

TEST_F(VulkanInt16, MatMul) {
  struct Types {
    DType a, b;
  };
  for (const Types& t : {Types{DType::kI16, DType::kI8}, Types{DType::kI16, DType::kI16}, Types{DType::kI8, DType::kI8},
                         Types{DType::kU8, DType::kU8}})
    for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kDoubleHalfAway})
      for (bool transpose : {false, true})
        for (DType b : {DType::kI32, DType::kI64, DType::kInvalid}) {
          MatMulAttrs a;
          a.transpose_b = transpose;
          a.rounding = rounding;
          const int32_t zero = t.a == DType::kU8 ? 120 : 0;
          OpCase c{Cat(to_string(t.a), " ", to_string(t.b), " transposed ", transpose, " bias ", to_string(b)),
                   Op::kMatMul,
                   make_attrs<MatMulAttrs>(a),
                   {quantized(t.a, {2, 5, 33}, 1e-3f, 1, zero),
                    quantized(t.b, transpose ? Shape{19, 33} : Shape{33, 19}, 0.01f, 2, zero)},
                   {1, 2},
                   {result({2, 5, 19}, t.a == DType::kI16 && t.b == DType::kI16 ? 2.f : 0.01f)}};
          if (b != DType::kInvalid) c.inputs.push_back(bias(b, 19));
          check_on_gpu(c, "matmul_i16");
        }
}

TEST_F(VulkanInt16, Softmax) {
  for (DType x : {DType::kI16, DType::kI8, DType::kU8})
    for (int64_t axis : {1, 2})
      for (const Shape& shape : {Shape{2, 3, 300}, Shape{3, 70, 4}}) {
        SoftmaxAttrs a;
        a.axis = axis;
        a.rounding = Rounding::kFixedDouble;
        const bool wide = x == DType::kI16;
        check_on_gpu({Cat(to_string(x), " ", shape.str(), " axis ", axis),
                      Op::kSoftmax,
                      make_attrs<SoftmaxAttrs>(a),
                      {quantized(x, shape, wide ? 2e-4f : 0.05f)},
                      {},
                      {result(shape, wide ? 1.f / 32768 : 1.f / 65536, DType::kI16, wide ? 0 : -32768)}},
                     wide ? "softmax_i16" : "softmax_i8");
      }
}

TEST_F(VulkanInt16, PoolsReductionsAndOrder) {
  for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage}) {
    PoolAttrs a;
    a.kind = kind;
    a.kernel = {3, 2};
    a.strides = {2, 1};
    a.pads = {1, 0, 1, 1};
    a.rounding = Rounding::kFixedDouble;
    ValueType y = ValueType::tensor(DType::kI16);
    y.ranked = false;
    y.quant = per_tensor(1e-3f, 0);
    check_on_gpu({"pool", Op::kPool, make_attrs<PoolAttrs>(a), {quantized(DType::kI16, {2, 3, 7, 6}, 1e-3f)}, {}, {y}},
                 "pool_i8");
  }
  for (Reduction fn : {Reduction::kSum, Reduction::kMean})
    for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kFloatHalfEven}) {
      ReduceAttrs a;
      a.fn = fn;
      a.rounding = rounding;
      check_on_gpu({to_string(fn),
                    Op::kReduce,
                    make_attrs<ReduceAttrs>(a),
                    {quantized(DType::kI16, {3, 20, 7}, 1e-3f), tensor(DType::kI64, {1}, {1})},
                    {1},
                    {result({3, 1, 7}, 3e-3f)}},
                   "reduce_lookup_table");
    }
  SortAttrs s;
  check_on_gpu({"sort",
                Op::kSort,
                make_attrs<SortAttrs>(s),
                {random_tensor(DType::kI16, {4, 50}, -32768, 32767, 1)},
                {},
                std::vector<ValueType>(2)},
               "sort");
}

TEST_F(VulkanInt16, QuantizedResize) {
  using Coord = ResizeAttrs::Coord;
  for (DType dtype : {DType::kI8, DType::kU8, DType::kI16})
    for (Rounding rounding : {Rounding::kFixedDouble, Rounding::kXnnpack, Rounding::kFloatHalfEven})
      for (Coord coord : {Coord::kAsymmetric, Coord::kHalfPixel, Coord::kAlignCorners})
        for (const auto& [height, width] : {std::pair{9, 13}, std::pair{3, 4}}) {
          ResizeAttrs a;
          a.tflite = true;
          a.mode = ResizeAttrs::Mode::kLinear;
          a.coord = coord;
          a.axes = {1, 2};
          a.rounding = rounding;
          const bool real = rounding == Rounding::kFloatHalfEven;
          if (rounding != Rounding::kFixedDouble && dtype == DType::kI16) continue;
          const double h = height, w = width;
          check_on_gpu({Cat(to_string(dtype), " ", height, "x", width, ' ', to_string(rounding)),
                        Op::kResize,
                        make_attrs<ResizeAttrs>(a),
                        {quantized(dtype, {2, 5, 6, 3}, 0.05f, 1, dtype == DType::kU8 ? 120 : -3),
                         {},
                         {},
                         tensor(DType::kI32, {2}, {h, w})},
                        {1, 2, 3},
                        {result({2, height, width, 3}, 0.05f, dtype, dtype == DType::kU8 ? 120 : -3)}},
                       real ? "legalized_types" : "resize_integer");
        }
}

}  // namespace
}  // namespace smelt::vulkan
