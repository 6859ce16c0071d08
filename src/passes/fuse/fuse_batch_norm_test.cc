#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using namespace smelt::test;

const Shape kImage{2, 6, 7, 5};

/// Statistics of `n` channels behind a value.
ValueId normed(Forms& f, ValueId x, int64_t n) {
  const ValueId variance = f.b.constant("", random_tensor(DType::kF32, {n}, 0.5, 2, 9));
  const auto channels = [&](uint32_t seed) { return f.weights({n}, seed); };
  return f.op(Op::kBatchNorm, make_attrs<BatchNormAttrs>(), {x, channels(5), channels(6), channels(7), variance});
}

struct Window {
  int64_t kernel = 1, pad = 0, stride = 1, dilation = 1, groups = 1;
};

/// 6 filters, with a bias or without.
ValueId conv(Forms& f, ValueId x, const Window& w, uint32_t seed, bool bias = true) {
  ConvAttrs a;
  a.strides = {w.stride, w.stride};
  a.dilations = {w.dilation, w.dilation};
  a.pads = {w.pad, w.pad, w.pad, w.pad};
  a.groups = w.groups;
  std::vector<ValueId> in{x, f.weights({6, 6 / w.groups, w.kernel, w.kernel}, seed)};
  if (bias) in.push_back(f.weights({6}, seed + 20));
  return f.op(Op::kConv, make_attrs<ConvAttrs>(a), in);
}

ValueId add(Forms& f, ValueId x, ValueId y) { return f.binary(Binary::kAdd, x, y); }

TEST(FuseBatchNorm, BehindAConcatOfConvolutions) {
  for (const int64_t axis : {1, -3})
    check_fused(kImage,
                [&](Forms& f, ValueId x) {
                  const ValueId y = f.op(Op::kConcat, make_attrs<AxisAttrs>(AxisAttrs(axis)),
                                         {conv(f, x, {3, 1}, 3), conv(f, x, {}, 4, false)});
                  return normed(f, y, 12);
                },
                {"Conv", "Conv", "Concat"});
  check_fused(  // joined along another dimension, or with the image itself
      kImage,
      [](Forms& f, ValueId x) {
        const ValueId y =
            f.op(Op::kConcat, make_attrs<AxisAttrs>(AxisAttrs(2)), {conv(f, x, {}, 3), conv(f, x, {}, 4)});
        return normed(f, f.op(Op::kConcat, make_attrs<AxisAttrs>(AxisAttrs(1)), {normed(f, y, 6), y}), 12);
      },
      {"Conv", "Conv", "Concat", "BatchNorm", "Concat", "BatchNorm"});
}

TEST(FuseBatchNorm, BehindRowsInAnotherShape) {
  check_fused({2, 5, 6},
              [](Forms& f, ValueId x) {
                return normed(f, f.reshape(f.matmul(x, f.weights({6, 8})), {10, 8}), 8);
              },
              {"MatMul"});
  check_fused(  // the columns are no longer those of the weights
      {2, 5, 6},
      [](Forms& f, ValueId x) {
        return normed(f, f.reshape(f.matmul(x, f.weights({6, 8})), {20, 4}), 4);
      },
      {"MatMul", "BatchNorm"});
}

TEST(FuseBatchNorm, ConstantsOfTheChannels) {
  check_fused(kImage,
              [](Forms& f, ValueId x) {
                const ValueId y = f.mul(f.weights({6, 1, 1}, 8), conv(f, x, {3, 1}, 3));
                const ValueId divisor = f.b.constant("", random_tensor(DType::kF32, {1, 6, 1, 1}, 1, 2, 9));
                return f.binary(Binary::kSub, f.binary(Binary::kDiv, y, divisor), f.weights({6, 1, 1}, 4));
              },
              {"Conv"});
  check_fused(kRowsOf24,
              [](Forms& f, ValueId x) {
                return add(f, f.mul(f.matmul(x, f.weights({24, 7})), f.weights({7}, 8)), f.weights({1, 1, 7}, 9));
              },
              {"MatMul"});
  check_fused(  // one for each column of pixels, one that a number is taken from
      kImage,
      [](Forms& f, ValueId x) {
        const ValueId y = f.mul(conv(f, x, {3, 1}, 3), f.weights({5}, 8));
        return f.binary(Binary::kSub, f.weights({6, 1, 1}), conv(f, y, {}, 4));
      },
      {"Conv", "Binary", "Conv", "Binary"});
}

TEST(FuseBatchNorm, LargeWeightsAreMadeWhenTheyAreRead) {
  check_fused(kRowsOf24,
              [](Forms& f, ValueId x) {
                return f.mul(f.mul(f.matmul(x, f.weights({24, 40})), f.weights({40}, 8)), f.weights({40}, 9));
              },
              {"MatMul"});
  auto module = test::module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{4, 24}));
  f.b.graph().outputs = {f.mul(f.matmul(x, f.weights({24, 40})), f.weights({40}, 8))};
  fuse_batch_norm(f.b.graph());
  ASSERT_EQ(f.b.graph().nodes.size(), 1U);
  const Tensor& w = *f.b.graph().value(f.b.graph().nodes[0].inputs[1]).constant;
  ASSERT_NE(w.source(), nullptr);
  const Tensor all = w.read_once();
  float part[50];
  w.copy_elements(70, 50, part);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(part[i], all.data<float>()[70 + i]);
}

TEST(FuseBatchNorm, FactorsThatAreNotFiniteStay) {
  for (const double factor : {HUGE_VAL, std::nan("")}) {
    auto module = module_of_one_graph();
    Forms f{Builder(*module, 0)};
    const auto factors = [&](const Shape& shape) {
      return f.b.constant("", tensor(DType::kF32, shape, {1, 2, factor, 3, 4, 5}));
    };
    const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, kImage));
    const ValueId variance = f.b.constant("", random_tensor(DType::kF32, {6}, 0.5, 2, 9));
    f.b.graph().outputs = {f.mul(conv(f, x, {3, 1}, 3), factors({6, 1, 1})),
                           f.op(Op::kBatchNorm, make_attrs<BatchNormAttrs>(),
                                {conv(f, x, {}, 4), factors({6}), f.weights({6}), f.weights({6}), variance})};
    fuse_batch_norm(f.b.graph());
    EXPECT_EQ(f.b.graph().nodes.size(), 4u);
  }
}

TEST(FuseBatchNorm, BehindTransposes) {
  const auto last = [](Forms& f, ValueId x) { return f.transpose(x, {0, 2, 3, 1}); };
  check_fused(kImage,
              [&](Forms& f, ValueId x) {
                const ValueId y = f.mul(last(f, conv(f, x, {3, 1}, 3)), f.weights({6}, 8));
                return f.unary(Unary::kRelu, add(f, f.weights({1, 1, 6}, 9), y));
              },
              {"Conv"});
  check_fused(  // one factor for each column, then one for all
      kImage,
      [&](Forms& f, ValueId x) {
        const ValueId y = f.mul(last(f, conv(f, x, {3, 1}, 3)), f.weights({5, 1}, 8));
        return f.mul(y, f.weights({1}, 9));
      },
      {"Conv", "Binary", "Binary"});
  check_fused(  // the transposed value is read twice
      kImage,
      [&](Forms& f, ValueId x) {
        const ValueId y = last(f, conv(f, x, {3, 1}, 3));
        return add(f, f.mul(y, f.weights({6}, 8)), y);
      },
      {"Conv", "Binary", "Binary"});
}

TEST(ParallelConvolutions, BecomeOne) {
  const Window groups{3, 1, 1, 1, 2};
  const auto sum_of = [](const Window& a, const Window& b) {
    return [=](Forms& f, ValueId x) { return add(f, conv(f, x, a, 3), conv(f, x, b, 4, false)); };
  };
  check_fused(kImage, sum_of({3, 1}, {}), {"Conv"});
  check_fused(kImage, sum_of({}, {3, 1}), {"Conv"});
  check_fused(kImage, sum_of({3, 1}, {3, 1}), {"Conv"});
  check_fused(kImage, sum_of({3, 1, 2}, {1, 0, 2}), {"Conv"});
  check_fused(kImage, sum_of({3, 2, 1, 2}, {1, 0, 1, 2}), {"Conv"});
  check_fused(kImage, sum_of({3, 1}, {1, 0, 1, 1, 6}), {"Conv"});  // finer groups
  check_fused(kImage, sum_of(groups, {1, 0, 1, 1, 6}), {"Conv"});
  check_fused(kImage, sum_of(groups, {}), {"Conv", "Conv", "Binary"});  // coarser ones
  check_fused(kImage, sum_of({5, 2}, {3, 1, 1, 1}), {"Conv"});
  check_fused({2, 6, 2, 2}, sum_of({3, 1}, {2, 0}), {"Conv", "Conv", "Binary"});  // the smaller result is broadcast
  check_fused(kImage, sum_of({5, 2}, {3, 2, 1, 2}), {"Conv", "Conv", "Binary"});  // taps between taps
}

TEST(ParallelConvolutions, WithNormalizedBranches) {
  check_fused(kImage,
              [](Forms& f, ValueId x) {
                const ValueId y = add(f, normed(f, conv(f, x, {3, 1}, 3), 6), normed(f, conv(f, x, {}, 4), 6));
                return add(f, normed(f, x, 6), y);
              },
              {"Conv"});
  for (const bool first : {false, true})
    check_fused(kImage,
                [&](Forms& f, ValueId x) {
                  const ValueId y = conv(f, x, {3, 1, 1, 1, 6}, 3), z = normed(f, x, 6);
                  return f.mul(f.binary(Binary::kSub, first ? y : z, first ? z : y), f.weights({6, 1, 1}, 8));
                },
                {"Conv"});
  check_fused(  // another image, or a branch that is read twice
      kImage,
      [](Forms& f, ValueId x) {
        const ValueId y = conv(f, x, {3, 1}, 3);
        const ValueId other = add(f, y, normed(f, x, 6));  // made first, whatever the order of arguments
        return add(f, add(f, y, normed(f, f.unary(Unary::kTanh, x), 6)), other);
      },
      {"Conv", "BatchNorm", "Binary", "Unary", "BatchNorm", "Binary", "Binary"});
}

}  // namespace
}  // namespace smelt
