#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using namespace smelt::test;

const Shape kGatedImage{2, 6, 7, 5};

ValueId gated_sum(Forms& f, ValueId x, ValueId y) { return f.binary(Binary::kAdd, x, y); }
/// One number a channel, computed at run time.
ValueId channel_means(Forms& f, ValueId x) { return f.mean(f.mean(x, 2), 3); }

TEST(ScaledResidual, GlobalResponseNormalization) {
  const Shape channels{1, 6, 1, 1};
  check_fused(kGatedImage,
              [&](Forms& f, ValueId x) {
                const ValueId scaled = f.mul(f.weights(channels, 4), f.mul(x, channel_means(f, x)));
                return gated_sum(f, x, gated_sum(f, f.weights(channels, 5), f.mul(scaled, 0.5)));
              },
              {"Reduce", "Reduce", "Binary", "Binary", "Binary", "Binary"});
  check_fused(kGatedImage,
              [&](Forms& f, ValueId x) {
                return gated_sum(f, f.mul(f.mul(channel_means(f, x), x), f.weights({6, 1, 1})), x);
              },
              {"Reduce", "Reduce", "Binary", "Binary", "Binary"});
  check_fused(kGatedImage,
              [&](Forms& f, ValueId x) { return gated_sum(f, x, f.mul(f.mul(x, channel_means(f, x)), 0.25)); },
              {"Reduce", "Reduce", "Binary", "Binary", "Binary"});
  check_fused(kGatedImage, [&](Forms& f, ValueId x) { return gated_sum(f, f.mul(x, channel_means(f, x)), x); },
              {"Reduce", "Reduce", "Binary", "Binary"});
}

TEST(ScaledResidual, OtherSumsStay) {
  check_fused(  // a gate of the size of x
      kGatedImage, [](Forms& f, ValueId x) { return gated_sum(f, x, f.mul(x, f.unary(Unary::kSin, x))); },
      {"Unary", "Binary", "Binary"});
  check_fused(  // the product is read twice
      kGatedImage,
      [](Forms& f, ValueId x) {
        const ValueId product = f.mul(x, channel_means(f, x));
        return f.mul(gated_sum(f, x, product), product);
      },
      {"Reduce", "Reduce", "Binary", "Binary", "Binary"});
  check_fused(  // another value
      kGatedImage,
      [](Forms& f, ValueId x) {
        const ValueId means = channel_means(f, x), cosines = f.unary(Unary::kCos, x);
        const ValueId product = f.mul(cosines, means);
        return gated_sum(f, f.unary(Unary::kSin, x), product);
      },
      {"Reduce", "Reduce", "Unary", "Binary", "Unary", "Binary"});
}

ValueId four_filters(Forms& f, ValueId x, int64_t kernel, int64_t pad, int64_t groups, bool bias) {
  ConvAttrs a;
  a.pads = {pad, pad, pad, pad};
  a.groups = groups;
  std::vector<ValueId> in{x, f.weights({4, 6 / groups, kernel, kernel}, 3)};
  if (bias) in.push_back(f.weights({4}, 8));
  return f.op(Op::kConv, make_attrs<ConvAttrs>(a), in);
}

TEST(InputOffset, BecomesABias) {
  const Shape channels{6, 1, 1};
  for (const int64_t kernel : {1, 3})
    check_fused(kGatedImage,
                [&](Forms& f, ValueId x) {
                  return four_filters(f, gated_sum(f, f.weights(channels, 5), f.unary(Unary::kSin, x)), kernel, 0, 1,
                                      kernel == 3);
                },
                {"Unary", "Conv"});
  check_fused(  // padding isn't added to
      kGatedImage,
      [&](Forms& f, ValueId x) { return four_filters(f, gated_sum(f, x, f.weights(channels, 5)), 3, 1, 1, true); },
      {"Binary", "Conv"});
  check_fused(  // groups
      kGatedImage,
      [&](Forms& f, ValueId x) { return four_filters(f, gated_sum(f, x, f.weights(channels, 5)), 1, 0, 2, true); },
      {"Binary", "Conv"});
  check_fused(  // along another dimension
      {2, 6, 6, 6},
      [&](Forms& f, ValueId x) { return four_filters(f, gated_sum(f, x, f.weights({6}, 5)), 1, 0, 1, true); },
      {"Binary", "Conv"});
  for (const bool transposed : {false, true})
    check_fused(kRowsOf24,
                [&](Forms& f, ValueId x) {
                  MatMulAttrs a;
                  a.transpose_b = transposed;
                  const ValueId b = f.weights(transposed ? Shape{10, 24} : Shape{24, 10}, 4);
                  return f.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), {gated_sum(f, x, f.weights({24}, 5)), b});
                },
                {"MatMul"});
}

}  // namespace
}  // namespace smelt
