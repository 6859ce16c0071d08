#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/cat.h"
#include "ops/normalization/normalization.h"
#include "tensor/numeric.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ImageNormF32, LayoutsAndSizes) {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
    for (const int64_t channels : {4, 26, 36}) {
      const Shape x = layout == Layout::kChannelsLast ? Shape{2, 9, 11, channels} : Shape{2, channels, 9, 11};
      const std::string label = Cat(to_string(layout), ' ', channels);
      const auto values = [&](int64_t n, double lo, uint32_t seed) {
        return random_tensor(DType::kF32, {n}, lo, 1.5, seed);
      };
      const Tensor image = random_tensor(DType::kF32, x, -1, 3, 1);
      BatchNormAttrs batch;
      batch.layout = layout;
      for (const bool constant : {false, true}) {
        OpCase c{label,
                 Op::kBatchNorm,
                 make_attrs<BatchNormAttrs>(batch),
                 {image, values(channels, -1, 2), values(channels, -1, 3), values(channels, -1, 4),
                  values(channels, 0.1, 5)},
                 {1, 2, 3, 4}};
        c.threaded = true;
        if (!constant) c.constants.clear();
        check_on_cpu(c, "batch_norm_f32", {2e-5, 1e-5});
      }
      for (const int64_t groups : {0, 2}) {
        GroupNormAttrs group;
        group.layout = layout;
        group.groups = groups;
        group.act.kind = groups ? ActKind::kRelu : ActKind::kNone;
        OpCase c{label,
                 Op::kGroupNorm,
                 make_attrs<GroupNormAttrs>(group),
                 {image, values(channels, -1, 2), values(channels, -1, 3)},
                 {1, 2}};
        c.threaded = true;
        check_on_cpu(c, "group_norm_f32", {2e-5, 1e-5});
        // Sums of parts of an image.
        c.inputs[0] = random_tensor(
            DType::kF32, layout == Layout::kChannelsLast ? Shape{1, 37, 53, channels} : Shape{1, channels, 37, 53}, -1,
            3, 1);
        check_on_cpu(c, "group_norm_f32", {2e-5, 1e-5});
      }
      for (const double beta : {0.5, 0.75, 1.0}) {
        LrnAttrs lrn;
        lrn.layout = layout;
        lrn.size = beta == 0.5 ? 4 : 5;
        lrn.alpha = 0.3;
        lrn.beta = beta;
        OpCase c{label, Op::kLRN, make_attrs<LrnAttrs>(lrn), {image}};
        c.threaded = true;
        check_on_cpu(c, "lrn_f32", {2e-6, 1e-5});
      }
    }
}

TEST(BatchNorm, RowsOfChannels) {
  const auto values = [](double lo, uint32_t seed) { return random_tensor(DType::kF32, {37}, lo, 1.5, seed); };
  OpCase c{
      "rows",
      Op::kBatchNorm,
      make_attrs<BatchNormAttrs>(),
      {random_tensor(DType::kF32, {29, 37}, -1, 3, 1), values(-1, 2), values(-1, 3), values(-1, 4), values(0.1, 5)},
      {1, 2, 3, 4}};
  c.threaded = true;
  check_on_cpu(c, "batch_norm_f32", {2e-5, 1e-5});
}

/// What the runtime makes of a node on quantized values: real ones go in and come out, rounded half to even.
std::vector<Tensor> by_real_values(OpCase c) {
  const ValueType type = c.outputs[0];
  const Tensor stored = c.inputs[0];
  Tensor real(DType::kF32, stored.shape());
  for (int64_t i = 0; i < real.elements(); ++i)
    real.data<float>()[i] =
        stored.quant()->scale() * static_cast<float>(get_int(stored, i) - stored.quant()->zero_point());
  c.inputs[0] = real;
  c.outputs = {ValueType{}};
  const Tensor result = KernelRunner(c).reference().value()[0];
  Tensor y(type.dtype, result.shape());
  y.set_quant(type.quant);
  for (int64_t i = 0; i < y.elements(); ++i) {
    const double v = std::nearbyint(result.data<float>()[i] / type.quant->scale());
    const auto low = static_cast<double>(int_min(type.dtype)), high = static_cast<double>(int_max(type.dtype));
    set_int(y, i, static_cast<int64_t>(std::clamp(v + type.quant->zero_point(), low, high)));
  }
  return {y};
}

TEST(BatchNorm, Bytes) {
  for (const Shape& shape : {Shape{2, 37, 9, 11}, Shape{2, 9, 5, 37}, Shape{29, 37}})
    for (const auto& [from, to] : {std::pair{DType::kI8, DType::kU8}, {DType::kU8, DType::kI8}})
      for (const float scale : {0.021f, 0.5f, 1e-5f}) {  // the last: nearly all are saturated
        BatchNormAttrs a;
        a.layout = shape[1] == 37 ? Layout::kChannelsFirst : Layout::kChannelsLast;
        const auto values = [](double lo, uint32_t seed) { return random_tensor(DType::kF32, {37}, lo, 1.5, seed); };
        OpCase c{Cat(shape.str(), ' ', to_string(from), ' ', scale),
                 Op::kBatchNorm,
                 make_attrs<BatchNormAttrs>(a),
                 {random_quantized(from, shape, 0.037f, from == DType::kI8 ? -10 : 118, 1), values(-1, 2),
                  values(-1, 3), values(-1, 4), values(0.1, 5)},
                 {1, 2, 3, 4},
                 {ValueType::tensor(to, {}, per_tensor(scale, to == DType::kI8 ? 3 : 128))}};
        const std::vector<Tensor> expected = by_real_values(c);
        KernelRunner runner(c);
        const auto info = std::ranges::find(all_kernels(), std::string_view("batch_norm_i8"), &KernelInfo::name);
        ASSERT_NE(info, all_kernels().end());
        for (const Isa isa : tested_isas())
          for (const int threads : {1, 3}) {
            SCOPED_TRACE(c.label);
            const auto kernel = runner.make(*info, isa, threads);
            ASSERT_TRUE(kernel);
            ASSERT_NO_FATAL_FAILURE(expect_runs(runner, *info, *kernel, isa, threads, expected, {}));
          }
      }
}

}  // namespace
}  // namespace smelt
