#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::testing;

Tensor quantized(DType type, const Shape& shape, float scale, int32_t zero, uint32_t seed) {
  const double lo = static_cast<double>(int_min(type)), hi = static_cast<double>(int_max(type));
  Tensor t = random_tensor(type, shape, lo, hi, seed);
  t.set_quant(per_tensor(scale, zero, Rounding::kFixedDouble));
  return t;
}

TEST(BinaryFixed, FunctionsTypesAndShapes) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 7, 53}, {3, 7, 53}}, {{2, 5, 9}, {9}}, {{4, 6}, {1}}, {{3, 1}, {1, 300}}};
  for (const auto& [a, b] : shapes)
    for (const DType type : {DType::kI8, DType::kU8, DType::kI16})
      for (const auto& [fn, coarse] : {std::pair{Binary::kAdd, 1.0f},
                                       {Binary::kSub, 1.0f},
                                       {Binary::kMul, 1.0f},
                                       {Binary::kSub, 2.0f},
                                       {Binary::kSub, 30.0f},
                                       {Binary::kMul, 500.0f}}) {
        BinaryAttrs attrs(fn);
        attrs.rounding = Rounding::kFixedDouble;
        if (fn == Binary::kAdd) attrs.act.kind = ActKind::kRelu6;
        const bool wide = type == DType::kI16;
        const int32_t zero = wide ? 0 : type == DType::kU8 ? 120 : -5;
        const float scale = wide ? 3e-4f : 0.05f;
        KernelCase c{Cat(to_string(fn), ' ', to_string(type), ' ', a.str(), b.str()),
                     Op::kBinary,
                     make_attrs<BinaryAttrs>(attrs),
                     {quantized(type, a, scale, zero, 1), quantized(type, b, scale * 0.7f, zero, 2)},
                     {},
                     {true, true}};
        c.output.dtype = type;
        c.output.quant = per_tensor(scale * (fn == Binary::kMul ? 90.0f : 2.1f) * coarse, wide ? 0 : zero + 3,
                                    Rounding::kFixedDouble);
        check_case(c, "binary_fixed");
      }
}

TEST(BinaryUnquantized, FunctionsAndTypes) {
  for (const DType type : {DType::kI32, DType::kI64, DType::kF32, DType::kBool})
    for (int i = 0; i < static_cast<int>(Binary::kCount); ++i) {
      const auto fn = static_cast<Binary>(i);
      const bool logical = fn == Binary::kLogicalAnd || fn == Binary::kLogicalOr;
      if (logical != (type == DType::kBool)) continue;
      if (!logical && fn != Binary::kAdd && fn != Binary::kSub && fn != Binary::kMul && fn != Binary::kMin &&
          fn != Binary::kMax && (fn < Binary::kEqual || fn > Binary::kGreaterEqual))
        continue;
      KernelCase c{Cat(to_string(fn), ' ', to_string(type)),
                   Op::kBinary,
                   make_attrs<BinaryAttrs>(fn),
                   {random_tensor(type, {5, 1, 9}, 0, type == DType::kBool ? 1 : 4, 1),
                    random_tensor(type, {7, 9}, 0, type == DType::kBool ? 1 : 4, 2)},
                   {},
                   {true, true}};
      check_case(c, type == DType::kF32 && !gives_bool(fn) ? "binary_f32" : "binary_unquantized");
    }
  KernelCase square{
      "x^2",
      Op::kBinary,
      make_attrs<BinaryAttrs>(Binary::kPow),
      {random_tensor(DType::kF32, {5, 9}, -4, 4, 1), Tensor::from<float>(DType::kF32, {}, std::vector{2.0f})},
      {},
      {}};
  check_case(square, "binary_unquantized");
}

TEST(SoftmaxI8, AxesAndTypes) {
  for (const DType type : {DType::kI8, DType::kU8})
    for (const auto& [axis, shape, scale] : {std::tuple<int64_t, Shape, float>{-1, {3, 17, 70}, 0.06f},
                                             {1, {3, 17, 70}, 0.06f},
                                             {-1, {40, 4}, 0.3f},
                                             {-1, {9, 1}, 0.1f},
                                             {-1, {2, 3000}, 0.001f},
                                             {-1, {33, 2}, 2.0f}}) {
      SoftmaxAttrs a;
      a.axis = axis;
      a.beta = 0.9;
      a.rounding = Rounding::kFixedDouble;
      KernelCase c{Cat(to_string(type), ' ', axis),       Op::kSoftmax, make_attrs<SoftmaxAttrs>(a),
                   {quantized(type, shape, scale, 4, 1)}, {},           {}};
      c.output.dtype = type;
      c.output.quant = per_tensor(1.0f / 256, type == DType::kI8 ? -128 : 0, Rounding::kFixedDouble);
      check_case(c, "softmax_i8");
    }
}

TEST(SoftmaxI8, WideResults) {
  for (const DType type : {DType::kI8, DType::kU8}) {
    SoftmaxAttrs a;
    a.rounding = Rounding::kFixedDouble;
    KernelCase c{
        to_string(type), Op::kSoftmax, make_attrs<SoftmaxAttrs>(a), {quantized(type, {37, 5}, 0.11f, 4, 1)}, {}, {}};
    c.output.dtype = DType::kI16;
    c.output.quant = per_tensor(1.0f / 65536, -32768, Rounding::kFixedDouble);
    check_case(c, "softmax_i8");
  }
}

TEST(LeakyReluI16, Slopes) {
  for (const double slope : {0.1, 0.9, -0.3, 1.7})
    for (const float out : {0.011f, 0.004f, 0.25f}) {
      UnaryAttrs a(Unary::kLeakyRelu, slope);
      a.rounding = Rounding::kFixedDouble;
      KernelCase c{Cat(slope, ' ', out),
                   Op::kUnary,
                   make_attrs<UnaryAttrs>(a),
                   {quantized(DType::kI16, {7, 53}, 0.01f, 0, 1)},
                   {},
                   {}};
      c.output.dtype = DType::kI16;
      c.output.quant = per_tensor(out, 0, Rounding::kFixedDouble);
      check_case(c, "leaky_relu_i16");
    }
}

TEST(ReduceBool, AnyAndAll) {
  for (const Reduction fn : {Reduction::kAny, Reduction::kAll})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2}, {1}, {0, 1}, {0, 1, 2}}) {
      ReduceAttrs a;
      a.fn = fn;
      Tensor x = random_tensor(DType::kBool, {5, 7, 19}, 0, 1, 3);
      for (int64_t i = 0; i < x.elements(); ++i) {  // some slices of one value
        if (i / 19 % 3 == 0) x.data<uint8_t>()[i] = fn == Reduction::kAll;
        if (i % 19 == 4) x.data<uint8_t>()[i] = fn == Reduction::kAll;
      }
      KernelCase c{Cat(to_string(fn), axes[0], axes.size()),
                   Op::kReduce,
                   make_attrs<ReduceAttrs>(a),
                   {x, Tensor::from<int64_t>(DType::kI64, {static_cast<int64_t>(axes.size())}, axes)},
                   {},
                   {}};
      c.output.dtype = DType::kBool;
      check_case(c, "reduce_bool");
    }
}

TEST(ConvI16, DenseGroupedAndDepthwise) {
  struct Row {
    int64_t c_in, c_out, kernel, stride, pad, groups;
    ActKind act = ActKind::kNone;
  };
  for (const Row& r : {Row{5, 9, 3, 1, 1, 1},
                       {12, 37, 1, 1, 0, 1, ActKind::kRelu},
                       {8, 8, 3, 2, 1, 8},
                       {6, 4, 3, 1, 0, 2},
                       {19, 19, 3, 1, 1, 19, ActKind::kRelu6}}) {
    auto attrs = std::make_shared<ConvAttrs>();
    attrs->strides = {r.stride, r.stride};
    attrs->dilations = {1, 1};
    attrs->pads = {r.pad, r.pad, r.pad, r.pad};
    attrs->groups = r.groups;
    attrs->layout = Layout::kChannelsLast;
    attrs->filter = FilterLayout::kOSI;
    attrs->act.kind = r.act;
    attrs->rounding = Rounding::kFixedDouble;
    Tensor w = random_tensor(DType::kI8, {r.c_out, r.kernel, r.kernel, r.c_in / r.groups}, -127, 127, 2);
    std::vector<float> scales;
    for (int64_t o = 0; o < r.c_out; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
    w.set_quant(per_axis(scales, 0));
    KernelCase c{Cat(r.c_in, ' ', r.c_out, ' ', r.groups),
                 Op::kConv,
                 attrs,
                 {quantized(DType::kI16, {2, 9, 11, r.c_in}, 3e-4f, 0, 1), w,
                  random_tensor(DType::kI64, {r.c_out}, -5000000, 5000000, 3)},
                 {},
                 {}};
    c.output.dtype = DType::kI16;
    c.output.quant = per_tensor(9e-4f, 0, Rounding::kFixedDouble);
    c.threaded = true;
    check_case(c, "conv_i16");
  }
}

TEST(MatMulI16, TranspositionsAndBias) {
  for (const bool transposed : {false, true})
    for (const bool bias : {false, true}) {
      auto attrs = std::make_shared<MatMulAttrs>();
      attrs->transpose_b = transposed;
      attrs->rounding = Rounding::kFixedDouble;
      attrs->act.kind = bias ? ActKind::kRelu : ActKind::kNone;
      Tensor w = random_tensor(DType::kI8, transposed ? Shape{19, 37} : Shape{37, 19}, -127, 127, 2);
      std::vector<float> scales;
      for (int64_t o = 0; o < 19; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
      w.set_quant(per_axis(scales, transposed ? 0 : 1));
      KernelCase c{Cat("transposed ", transposed),
                   Op::kMatMul,
                   attrs,
                   {quantized(DType::kI16, {23, 37}, 3e-4f, 0, 1), w},
                   {},
                   {}};
      if (bias) c.inputs.push_back(random_tensor(DType::kI64, {19}, -5000000, 5000000, 3));
      c.output.dtype = DType::kI16;
      c.output.quant = per_tensor(9e-4f, 0, Rounding::kFixedDouble);
      c.threaded = true;
      check_case(c, "matmul_i16");
    }
}

TEST(Where, TypesAndBroadcasts) {
  for (const DType type : {DType::kBool, DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (const auto& [condition, a, b] : {std::array{Shape{3, 5, 9}, Shape{3, 5, 9}, Shape{3, 5, 9}},
                                          {Shape{5, 9}, Shape{3, 5, 9}, Shape{}},
                                          {Shape{3, 5, 9}, Shape{}, Shape{5, 1}},
                                          {Shape{3, 1, 1}, Shape{5, 9}, Shape{9}},
                                          {Shape{}, Shape{}, Shape{}}})
      check_case({Cat(to_string(type), ' ', condition.str(), a.str(), b.str()),
                  Op::kWhere,
                  make_attrs<NoAttrs>(),
                  {random_tensor(DType::kBool, condition, 0, 1, 1), random_tensor(type, a, 0, 1, 2),
                   random_tensor(type, b, 0, 1, 3)},
                  {},
                  {true, true, true}},
                 "where");
}

TEST(MatMulI8Dynamic, BatchesAndTranspositions) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const DType type : {DType::kI8, DType::kU8}) {
        MatMulAttrs a;
        a.transpose_a = transpose_a;
        a.transpose_b = transpose_b;
        a.rounding = Rounding::kFixedDouble;
        const int32_t zero = type == DType::kI8 ? 0 : 131;
        KernelCase c{Cat(transpose_a, transpose_b, to_string(type)),
                     Op::kMatMul,
                     make_attrs<MatMulAttrs>(a),
                     {quantized(type, transpose_a ? Shape{2, 3, 21, 17} : Shape{2, 3, 17, 21}, 0.05f, zero + 3, 1),
                      quantized(type, transpose_b ? Shape{3, 37, 21} : Shape{3, 21, 37}, 0.04f, zero, 2)},
                     {},
                     {true, true}};
        c.output.dtype = type;
        c.output.quant = per_tensor(1.5f, zero + 1, Rounding::kFixedDouble);
        check_case(c, "matmul_i8_dynamic");
      }
}

TEST(ConvTranspose, GeometriesAndTypes) {
  struct Row {
    int64_t batch, c_in, h, w, c_out, kernel, stride, pad, extra, groups;
  };
  const Row rows[] = {{1, 8, 5, 7, 6, 2, 2, 0, 0, 1},   {2, 5, 6, 4, 17, 3, 2, 1, 1, 1},
                      {1, 12, 9, 9, 18, 4, 3, 1, 0, 3}, {1, 33, 3, 3, 40, 3, 1, 1, 0, 1},
                      {2, 8, 5, 12, 6, 3, 2, 1, 1, 1},  {1, 7, 4, 19, 35, 2, 2, 0, 0, 1},
                      {1, 6, 6, 11, 10, 1, 2, 0, 1, 2}, {1, 5, 7, 14, 20, 5, 1, 3, 0, 1}};
  for (const Row& r : rows)
    for (const bool integers : {false, true}) {
      ConvTransposeAttrs a;
      a.strides = {r.stride, r.stride};
      a.pads = {r.pad, r.pad, r.pad, r.pad};
      a.output_padding = {r.extra, r.extra};
      a.groups = r.groups;
      a.layout = Layout::kChannelsLast;
      a.filter = FilterLayout::kIOS;
      a.rounding = Rounding::kFixedDouble;
      a.act.kind = integers ? ActKind::kNone : ActKind::kRelu;
      const Shape x{r.batch, r.h, r.w, r.c_in}, w{r.c_in, r.c_out / r.groups, r.kernel, r.kernel};
      KernelCase c{Cat("x ", x.str(), " filter ", w.str(), integers),
                   Op::kConvTranspose,
                   make_attrs<ConvTransposeAttrs>(a),
                   {},
                   {},
                   {}};
      if (integers) {
        c.inputs = {quantized(DType::kI8, x, 0.05f, 7, 1), quantized(DType::kI8, w, 0.01f, 0, 2),
                    random_tensor(DType::kI32, {r.c_out}, -1000, 1000, 3)};
        c.output.dtype = DType::kI8;
        c.output.quant = per_tensor(0.9f, -3, Rounding::kFixedDouble);
        c.threaded = r.w > 10;
        check_case(c, "conv_transpose_i8");
      } else {
        c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
                    random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)};
        check_case(c, "conv_transpose_f32", {2e-5, 1e-5});
      }
    }
}

}  // namespace
}  // namespace smelt
