#include <limits>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

enum class Images : uint8_t { kFloat, kInt8, kInt16, kDynamic };

TEST(ConvTranspose, GeometriesAndTypes) {
  struct Row {
    int64_t batch, c_in, h, w, c_out, kernel, stride, pad, extra, groups;
  };
  const Row rows[] = {
      {1, 8, 5, 7, 6, 2, 2, 0, 0, 1},    {2, 5, 6, 4, 17, 3, 2, 1, 1, 1},   {1, 12, 9, 9, 18, 4, 3, 1, 0, 3},
      {1, 33, 3, 3, 40, 3, 1, 1, 0, 1},  {2, 8, 5, 12, 6, 3, 2, 1, 1, 1},   {1, 7, 4, 19, 35, 2, 2, 0, 0, 1},
      {1, 6, 6, 11, 10, 1, 2, 0, 1, 2},  {1, 5, 7, 14, 20, 5, 1, 3, 0, 1},  {2, 16, 9, 70, 3, 4, 2, 1, 0, 1},
      {1, 9, 3, 4, 21, 2, 3, 0, 1, 1},   {1, 8, 6, 20, 1, 9, 2, 4, 1, 1},   {1, 4, 3, 6, 2, 2, 3, 0, 1, 1},
      {2, 37, 5, 7, 37, 4, 2, 1, 0, 37}, {1, 20, 6, 9, 20, 5, 3, 2, 1, 20}, {1, 5, 8, 3, 5, 3, 1, 1, 0, 5},
      {2, 24, 7, 9, 36, 4, 2, 1, 0, 2},  {1, 10, 5, 40, 15, 3, 2, 1, 1, 5}, {1, 9, 1, 300, 20, 3, 2, 1, 1, 1},
      {1, 9, 1, 100, 12, 2, 2, 0, 0, 1}, {1, 9, 1, 300, 3, 4, 2, 1, 0, 1},  {1, 8, 6, 7, 5, 16, 8, 4, 0, 1}};
  for (const Row& r : rows)
    for (const Images images : {Images::kFloat, Images::kInt8, Images::kInt16, Images::kDynamic}) {
      const bool integers = images == Images::kInt8 || images == Images::kInt16;
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
      OpCase c{Cat("x ", x.str(), " filter ", w.str(), " images ", static_cast<int>(images)),
               Op::kConvTranspose,
               make_attrs<ConvTransposeAttrs>(a),
               {},
               {1, 2}};
      if (images == Images::kDynamic) {
        for (const bool asymmetric : {false, true}) {
          a.dynamic_quant = true;
          a.asymmetric_inputs = asymmetric;
          c.attrs = make_attrs<ConvTransposeAttrs>(a);
          std::vector<float> scales(static_cast<size_t>(r.c_out / r.groups * r.groups), 0.01f);
          for (size_t o = 0; o < scales.size(); ++o) scales[o] += 0.001f * static_cast<float>(o);
          Tensor filter = random_tensor(DType::kI8, w, -127, 127, 2);
          filter.set_quant(r.groups == 1 ? per_axis(scales, 1) : per_tensor(0.02f, 0));
          c.inputs = {random_tensor(DType::kF32, x, -1, 3, 1), filter, random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)};
          c.threaded = r.w > 10;
          check_on_cpu(c, "conv_transpose_dynamic_quant");
        }
      } else if (images == Images::kInt16) {
        for (const DType bias : {DType::kI64, DType::kI32}) {
          c.inputs = {random_quantized(DType::kI16, x, 3e-4f, 0, 1), random_quantized(DType::kI8, w, 0.01f, 0, 2),
                      random_tensor(bias, {r.c_out}, -1000000, 1000000, 3)};
          c.outputs[0].dtype = DType::kI16;
          c.outputs[0].quant = per_tensor(4e-3f, 0, Rounding::kFixedDouble);
          c.threaded = r.w > 10;
          check_on_cpu(c, "conv_transpose_i16");
        }
      } else if (integers) {
        c.inputs = {random_quantized(DType::kI8, x, 0.05f, 7, 1), random_quantized(DType::kI8, w, 0.01f, 0, 2),
                    random_tensor(DType::kI32, {r.c_out}, -1000, 1000, 3)};
        c.outputs[0].dtype = DType::kI8;
        c.outputs[0].quant = per_tensor(0.9f, -3, Rounding::kFixedDouble);
        c.threaded = r.w > 10;
        check_on_cpu(c, "conv_transpose_i8");
      } else {
        c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
                    random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)};
        c.threaded = r.w > 10;
        check_on_cpu(c, "conv_transpose_f32", {2e-5, 1e-5});
        c.inputs[0].data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
        check_on_cpu(c, "conv_transpose_f32", {2e-5, 1e-5});
      }
    }
}

// Filters of volumes that do not overlap: slices of several images.
TEST(ConvTranspose, Volumes) {
  for (const auto& [kernel, act] : {std::pair{std::vector<int64_t>{2, 2, 2}, ActKind::kRelu},
                                    {{3, 1, 2}, ActKind::kTanh},
                                    {{2, 3, 1}, ActKind::kNone}}) {
    ConvTransposeAttrs a;
    a.strides = kernel;
    a.layout = Layout::kChannelsLast;
    a.act.kind = act;
    const Shape x{2, 3, 5, 7, 12}, w{12, 18, kernel[0], kernel[1], kernel[2]};
    a.filter = FilterLayout::kIOS;
    OpCase c{w.str(), Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), {}, {1, 2}};
    c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
                random_tensor(DType::kF32, {18}, -1, 1, 3)};
    c.threaded = true;
    check_on_cpu(c, "conv_transpose_f32", {2e-5, 1e-5});
  }
}

// Signals that lie along the height.
TEST(ConvTranspose, Columns) {
  ConvTransposeAttrs a;
  a.strides = {4, 1};
  a.pads = {2, 0, 2, 0};
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kIOS;
  a.rounding = Rounding::kFixedDouble;
  const Shape x{2, 25, 1, 12}, w{12, 18, 8, 1};
  OpCase c{"columns", Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), {}, {1, 2}};
  c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
              random_tensor(DType::kF32, {18}, -1, 1, 3)};
  check_on_cpu(c, "conv_transpose_f32", {2e-5, 1e-5});
  c.inputs = {random_quantized(DType::kI8, x, 0.05f, 7, 1), random_quantized(DType::kI8, w, 0.01f, 0, 2),
              random_tensor(DType::kI32, {18}, -1000, 1000, 3)};
  c.outputs[0].dtype = DType::kI8;
  c.outputs[0].quant = per_tensor(0.9f, -3, Rounding::kFixedDouble);
  check_on_cpu(c, "conv_transpose_i8");
}

// Filters that do not overlap. Products of rounded operands are exact.
TEST(ConvTransposeBf16, RoundedOperands) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  struct Row {
    int64_t batch, c_in, h, w, c_out, kernel;
  };
  for (const Row& r : {Row{1, 8, 5, 7, 6, 2}, {2, 7, 4, 19, 35, 2}, {1, 66, 3, 33, 16, 3}, {1, 3, 6, 4, 5, 1}}) {
    ConvTransposeAttrs a;
    a.strides = {r.kernel, r.kernel};
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kIOS;
    a.act.kind = ActKind::kRelu;
    const Shape x{r.batch, r.h, r.w, r.c_in}, w{r.c_in, r.c_out, r.kernel, r.kernel};
    OpCase c{
        Cat("x ", x.str(), " filter ", w.str()),
        Op::kConvTranspose,
        make_attrs<ConvTransposeAttrs>(a),
        {rounded_to_bf16(random_tensor(DType::kF32, x, -1, 1, 1)),
         rounded_to_bf16(random_tensor(DType::kF32, w, -1, 1, 2)), random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)},
        {1, 2}};
    for (const Isa isa : bf16_isas()) check_named(c, "conv_transpose_bf16", isa, {2e-5, 1e-5});
  }
}

}  // namespace
}  // namespace smelt
