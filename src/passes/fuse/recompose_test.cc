#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/gather/gather.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Forms;
using test::kRowsOf24;
using test::random_tensor;

TEST(Recompose, GeluOfTheErrorFunction) {
  const auto gate = [](Forms& f, ValueId x) {
    return f.add(f.unary(Unary::kErf, f.binary(Binary::kDiv, x, std::numbers::sqrt2)), 1);
  };
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, gate(f, x)), 0.5); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(x, f.mul(gate(f, x), 0.5)); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, 0.5), gate(f, x)); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, gate(f, x)), 0.7); },
              {"Binary", "Unary", "Binary", "Binary", "Binary"});
}

TEST(Recompose, GeluOfConstantsInFloat16) {
  constexpr double kRoot = 1.4140625;  // of 2, rounded to float16
  const auto of_quotient = [](double divisor) {
    return [=](Forms& f, ValueId x) {
      return f.mul(f.mul(f.add(f.unary(Unary::kErf, f.binary(Binary::kDiv, x, divisor)), 1), x), 0.5);
    };
  };
  check_fused(kRowsOf24, of_quotient(kRoot), {"Unary"}, 1e-4);
  check_fused(kRowsOf24, of_quotient(1.4145), {"Binary", "Unary", "Binary", "Binary", "Binary"});  // no float16
}

TEST(Recompose, GeluOfTanh) {
  const double root = std::sqrt(2 / std::numbers::pi);
  check_fused(kRowsOf24,
              [&](Forms& f, ValueId x) {
                const ValueId cube = f.mul(f.binary(Binary::kPow, x, 3.0), 0.044715);
                const ValueId tanh = f.unary(Unary::kTanh, f.mul(f.binary(Binary::kAdd, x, cube), root));
                return f.mul(f.mul(x, 0.5), f.add(tanh, 1));
              },
              {"Unary"});
  check_fused(kRowsOf24,
              [&](Forms& f, ValueId x) {
                const ValueId square = f.add(f.mul(f.mul(x, x), 0.044715), 1);
                const ValueId tanh = f.unary(Unary::kTanh, f.mul(f.mul(x, root), square));
                return f.mul(x, f.mul(f.add(tanh, 1), 0.5));
              },
              {"Unary"});
}

TEST(Recompose, SigmoidGates) {
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return f.mul(x, f.unary(Unary::kSigmoid, x)); }, {"Unary"});
  check_fused(kRowsOf24,
              [](Forms& f, ValueId x) {
                const ValueId y = f.mul(f.unary(Unary::kTanh, x), f.weights({24}));
                return f.mul(y, f.unary(Unary::kSigmoid, y));
              },
              {"Unary", "Binary", "Unary"});
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return f.mul(f.unary(Unary::kSigmoid, f.mul(x, 1.702)), x); },
              {"Unary"});
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return f.mul(f.weights({24}), f.unary(Unary::kSigmoid, x)); },
              {"Unary", "Binary"});
}

TEST(Recompose, LayerNormalization) {
  for (const bool affine : {false, true})
    check_fused(kRowsOf24,
                [&](Forms& f, ValueId x) {
                  const ValueId centred = f.binary(Binary::kSub, x, f.mean(x));
                  const ValueId variance = f.mean(f.binary(Binary::kPow, centred, 2.0), affine ? 2 : -1);
                  const ValueId y = f.binary(Binary::kDiv, centred, f.unary(Unary::kSqrt, f.add(variance, 1e-5)));
                  return affine ? f.binary(Binary::kAdd, f.weights({24}, 5), f.mul(y, f.weights({24}))) : y;
                },
                {"LayerNorm"});
  check_fused(kRowsOf24,
              [](Forms& f, ValueId x) {  // of another dimension
                const ValueId centred = f.binary(Binary::kSub, x, f.mean(x, 1));
                const ValueId variance = f.mean(f.mul(centred, centred), 1);
                return f.binary(Binary::kDiv, centred, f.unary(Unary::kSqrt, f.add(variance, 1e-5)));
              },
              {"Reduce", "Binary", "Binary", "Reduce", "Binary", "Unary", "Binary"});
}

TEST(Recompose, LayerNormalizationOfChannels) {
  check_fused({1, 3, 6, 5},
              [](Forms& f, ValueId x) {
                ConvAttrs conv;
                conv.layout = Layout::kChannelsFirst;
                const auto mix = [&](ValueId in, int64_t channels) {
                  return f.op(Op::kConv, make_attrs<ConvAttrs>(conv), {in, f.weights({8, channels, 1, 1})});
                };
                const ValueId y = mix(x, 3), centred = f.binary(Binary::kSub, y, f.mean(y, 1));
                const ValueId variance = f.mean(f.mul(centred, centred), 1);
                const ValueId z = f.binary(Binary::kDiv, centred, f.unary(Unary::kSqrt, f.add(variance, 1e-5)));
                return mix(f.unary(Unary::kTanh, f.mul(z, f.weights({1, 8, 1, 1}))), 8);
              },
              {"Conv", "LayerNorm", "Unary", "Conv"});
}

/// x * factor + (bias - m * factor), or x * factor + -m * factor without a bias, factor = scale / sqrt(variance(x) +
/// e), the scale absent without a shape; m is the mean of x, or of x + `more`. `split`: square and root are two nodes
/// each.
ValueId factored(Forms& f, ValueId x, const std::optional<Shape>& scale, const std::optional<Shape>& bias,
                 double more = 0, bool split = false) {
  const ValueId mean = f.mean(x), difference = f.binary(Binary::kSub, x, mean);
  const ValueId square = split ? f.mul(difference, difference) : f.binary(Binary::kSquaredDifference, x, mean);
  const ValueId variance = f.add(f.mean(square), 1e-3);
  ValueId factor =
              split ? f.unary(Unary::kReciprocal, f.unary(Unary::kSqrt, variance)) : f.unary(Unary::kRsqrt, variance),
          shift = mean;
  if (scale) factor = f.mul(factor, f.weights(*scale));
  if (more != 0) shift = f.mean(f.add(x, more));
  if (!bias) shift = f.unary(Unary::kNeg, shift);
  shift = f.mul(shift, factor);
  if (bias) shift = f.binary(Binary::kSub, f.weights(*bias, 5), shift);
  return f.binary(Binary::kAdd, f.mul(x, factor), shift);
}

TEST(Recompose, LayerNormalizationByAFactor) {
  for (const auto& scale : {std::optional<Shape>(), std::optional(Shape{24}), std::optional(Shape{1, 1, 24})})
    for (const auto& bias : {std::optional<Shape>(), std::optional(Shape{24})})
      check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return factored(f, x, scale, bias); }, {"LayerNorm"});
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return factored(f, x, Shape{24}, Shape{24}, 0, true); },
              {"LayerNorm"});
  check_fused(  // a scale for each row
      kRowsOf24,
      [](Forms& f, ValueId x) {
        return factored(f, x, Shape{5, 1}, std::nullopt);
      },
      {"Reduce", "Binary", "Reduce", "Binary", "Unary", "Binary", "Unary", "Binary", "Binary", "Binary"});
  check_fused(  // the mean of another value
      kRowsOf24, [](Forms& f, ValueId x) { return factored(f, x, std::nullopt, std::nullopt, 0.5); },
      {"Reduce", "Binary", "Reduce", "Binary", "Unary", "Binary", "Reduce", "Unary", "Binary", "Binary", "Binary"});
}

TEST(Recompose, RmsNormalization) {
  check_fused(kRowsOf24,
              [](Forms& f, ValueId x) {
                const ValueId root = f.unary(Unary::kSqrt, f.add(f.mean(f.binary(Binary::kPow, x, 2.0)), 1e-6));
                return f.mul(f.weights({24}), f.mul(x, f.unary(Unary::kReciprocal, root)));
              },
              {"LayerNorm"});
}

TEST(Recompose, BiasOfAProduct) {
  check_fused(kRowsOf24,
              [](Forms& f, ValueId x) {
                return f.binary(Binary::kAdd, f.weights({7}), f.matmul(x, f.weights({24, 7}, 4)));
              },
              {"MatMul"});
  check_fused(  // not a row for all rows
      kRowsOf24,
      [](Forms& f, ValueId x) {
        return f.binary(Binary::kAdd, f.matmul(x, f.weights({24, 7}, 4)), f.weights({5, 7}));
      },
      {"MatMul", "Binary"});
  check_fused(  // one that raises the rank
      kRowsOf24,
      [](Forms& f, ValueId x) {
        return f.binary(Binary::kAdd, f.matmul(x, f.weights({24, 7}, 4)), f.weights({1, 1, 1, 7}));
      },
      {"MatMul", "Binary"});
}

/// x as `groups` rows an image, normalized with a factor and an addend for all rows, and in its own shape again, or one
/// of constant numbers.
ValueId grouped(Forms& f, ValueId x, int64_t groups, float scale = 1, float bias = 0,
                std::initializer_list<int64_t> shape = {}) {
  GroupNormAttrs a;
  a.groups = 0;
  const auto all = [&](float v) { return f.b.constant("", random_tensor(DType::kF32, {groups}, v, v, 1)); };
  const ValueId rows = f.reshape(x, {0, groups, -1});
  const ValueId y = f.op(Op::kGroupNorm, make_attrs<GroupNormAttrs>(a), {rows, all(scale), all(bias)});
  if (shape.size() > 0) return f.reshape(y, shape);
  return f.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {y, f.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {x})});
}

TEST(Recompose, GroupNormalization) {
  const Shape images{2, 6, 4, 5};
  using Sizes = std::initializer_list<int64_t>;
  for (const Sizes& shape : {Sizes{0, 6, 4, -1}, Sizes{-1, 6, 4, 5}, Sizes{2, 6, 5, 4}}) {
    const bool restores = *(shape.begin() + 2) == 4;
    const auto scaled = [&](Forms& f, ValueId x) { return f.mul(grouped(f, x, 3, 1, 0, shape), f.weights({6, 1, 1})); };
    check_fused(images, scaled,
                restores ? std::vector<std::string>{"GroupNorm"} : std::vector<std::string>{"GroupNorm", "Binary"});
  }
  check_fused(images,
              [](Forms& f, ValueId x) {
                const ValueId scaled = f.mul(grouped(f, x, 3), f.weights({6, 1, 1}));
                return f.binary(Binary::kAdd, f.weights({1, 6, 1, 1}, 4), scaled);
              },
              {"GroupNorm"});
  check_fused(images,
              [](Forms& f, ValueId x) {
                return f.binary(Binary::kAdd, grouped(f, x, 1), f.weights({6, 1, 1}));
              },
              {"GroupNorm"});
  check_fused(  // an addend that is no number a channel, a factor after an addend
      images,
      [](Forms& f, ValueId x) {
        const ValueId y = f.binary(Binary::kAdd, grouped(f, x, 3), f.weights({4, 1}));
        return f.mul(f.binary(Binary::kAdd, y, f.weights({6, 1, 1})), f.weights({6, 1, 1}, 4));
      },
      {"GroupNorm", "Binary", "Binary", "Binary"});
  check_fused(  // the rows have an addend of their own
      images,
      [](Forms& f, ValueId x) {
        return f.mul(grouped(f, x, 3, 1, 0.5f), f.weights({6, 1, 1}));
      },
      {"GroupNorm", "Binary"});
  check_fused(  // another shape afterwards
      images,
      [](Forms& f, ValueId x) {
        const ValueId y = grouped(f, f.add(x, 1), 3);
        return f.mul(f.reshape(y, {2, 12, 2, 5}), f.weights({12, 1, 1}));
      },
      {"Binary", "GroupNorm", "Binary"});
}

TEST(Recompose, GroupNormalizationOfRows) {
  const auto rows = [](Forms& f, ValueId x, bool rms) {
    LayerNormAttrs a;
    a.rms = rms;
    const ValueId y = f.op(Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), {f.reshape(x, {2, 3, 40})});
    return f.mul(f.reshape(y, {2, 6, 4, 5}), f.weights({6, 1, 1}));
  };
  check_fused({2, 6, 4, 5}, [&](Forms& f, ValueId x) { return rows(f, x, false); }, {"GroupNorm"});
  check_fused({2, 6, 4, 5}, [&](Forms& f, ValueId x) { return rows(f, x, true); }, {"LayerNorm", "Binary"});
}

TEST(Recompose, BoundedFunctions) {
  const auto within = [](Forms& f, ValueId x, double lo, double hi) {
    return f.binary(Binary::kMin, f.binary(Binary::kMax, x, lo), hi);
  };
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return within(f, x, -1, 2); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.binary(Binary::kMin, f.unary(Unary::kRelu, x), 6.0); },
              {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return within(f, f.add(f.mul(x, 0.2), 0.5), 0, 1); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(within(f, f.add(x, 3), 0, 6), 1.0 / 6); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, within(f, f.add(x, 3), 0, 6)), 1.0 / 6); },
              {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(x, f.mul(within(f, f.add(x, 3), 0, 6), 1.0 / 6)); },
              {"Unary"});
  // Bounds without numbers between, another slope.
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return within(f, x, 2, -1); }, {"Binary", "Binary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return f.mul(x, within(f, f.add(f.mul(x, 0.2), 0.5), 0, 1)); },
              {"Unary", "Binary"});
}

/// A bound with more dimensions than x adds them to the result: no activation does.
TEST(FuseActivations, BoundsOfHigherRank) {
  const auto clamped = [](const Shape& bound) {
    return [bound](Forms& f, ValueId x) {
      const ValueId high = f.b.constant("", Tensor::from<float>(DType::kF32, bound, std::vector{1.0f}));
      return f.op(Op::kClamp, make_attrs<NoAttrs>(), {f.mul(x, 3.0), kNoValue, high});
    };
  };
  check_fused(kRowsOf24, clamped({1, 1, 1}), {"Binary"});
  check_fused(kRowsOf24, clamped({1, 1, 1, 1}), {"Binary", "Binary"});
}

TEST(Recompose, Softplus) {
  const auto form = [](Forms& f, ValueId x, double one) {
    const ValueId small = f.unary(Unary::kExp, f.unary(Unary::kNeg, f.unary(Unary::kAbs, x)));
    const ValueId log = f.unary(Unary::kLog, f.add(small, one));
    return f.binary(Binary::kAdd, log, f.unary(Unary::kRelu, x));
  };
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return form(f, x, 1); }, {"Unary"});
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return form(f, x, 2); },
              {"Unary", "Unary", "Unary", "Binary", "Unary", "Unary", "Binary"});
}

TEST(Recompose, DepthToSpaceInTheOtherOrder) {
  const auto form = [](Forms& f, ValueId x, int64_t first) {
    const std::vector<int64_t> from{first, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    GatherAttrs g;
    g.axis = 1;
    BlockAttrs b;
    b.block = 2;
    const ValueId y = f.op(Op::kGather, make_attrs<GatherAttrs>(g), {x, f.b.i64(std::span<const int64_t>(from))});
    return f.op(Op::kDepthSpace, make_attrs<BlockAttrs>(b), {y});
  };
  check_fused({1, 12, 3, 2}, [&](Forms& f, ValueId x) { return form(f, x, 0); }, {"DepthSpace"});
  check_fused({1, 12, 3, 2}, [&](Forms& f, ValueId x) { return form(f, x, 1); }, {"Gather", "DepthSpace"});
}

TEST(PixelShuffle, OfAConvolution) {
  for (const bool last : {false, true}) {
    const Layout layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
    const auto form = [&](Forms& f, ValueId x, int64_t groups) {
      ConvAttrs c;
      c.strides = c.dilations = {1, 1};
      c.pads = {1, 1, 1, 1};
      c.groups = groups;
      c.layout = layout;
      BlockAttrs b;
      b.block = 2;
      b.channel_first_order = true;
      b.layout = layout;
      const ValueId y =
          f.op(Op::kConv, make_attrs<ConvAttrs>(c), {x, f.weights({12, 4 / groups, 3, 3}), f.weights({12}, 5)});
      return f.op(Op::kDepthSpace, make_attrs<BlockAttrs>(b), {y});
    };
    const Shape image = last ? Shape{1, 6, 5, 4} : Shape{1, 4, 6, 5};
    for (const int64_t groups : {1, 2}) {
      check_fused(image, [&](Forms& f, ValueId x) { return form(f, x, groups); }, {"Conv", "DepthSpace"});
      auto module = test::module_of_one_graph();
      Forms f{Builder(*module, 0)};
      f.b.graph().outputs = {form(f, f.b.input("x", ValueType::tensor(DType::kF32, image)), groups)};
      shuffle_pixels_in_blocks(f.b.graph());
      const Node& n = f.b.graph().nodes.back();
      ASSERT_EQ(n.op, Op::kDepthSpace);
      EXPECT_EQ(static_cast<const BlockAttrs&>(*n.attrs).channel_first_order, groups == 2);
    }
  }
}

/// Statistics of `n` channels behind a value.
ValueId batch_normalized(Forms& f, ValueId x, int64_t n) {
  const ValueId variance = f.b.constant("", random_tensor(DType::kF32, {n}, 0.5, 2, 9));
  const auto channels = [&](uint32_t seed) { return f.weights({n}, seed); };
  return f.op(Op::kBatchNorm, make_attrs<BatchNormAttrs>(), {x, channels(5), channels(6), channels(7), variance});
}

TEST(FuseBatchNorm, IntoTheWeightsBeforeIt) {
  for (const int64_t groups : {1, 2}) {
    ConvTransposeAttrs a;
    a.groups = groups;
    a.filter = FilterLayout::kIOS;
    check_fused({2, 4, 5, 3},
                [&](Forms& f, ValueId x) {
                  const ValueId y = f.op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a),
                                         {x, f.weights({4, 3, 2, 2}), f.weights({3 * groups})});
                  return batch_normalized(f, y, 3 * groups);
                },
                {"ConvTranspose"});
  }
  check_fused({4, 6},
              [](Forms& f, ValueId x) {
                return batch_normalized(f, f.matmul(x, f.weights({6, 5})), 5);
              },
              {"MatMul"});
  check_fused(  // a bias by row
      {5, 6},
      [](Forms& f, ValueId x) {
        const ValueId y = f.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, f.weights({6, 5}), f.weights({5, 1}, 8)});
        return batch_normalized(f, y, 5);
      },
      {"MatMul", "BatchNorm"});
  // The second of three dimensions is no column.
  check_fused({4, 5, 6},
              [](Forms& f, ValueId x) {
                return batch_normalized(f, f.matmul(x, f.weights({6, 5})), 5);
              },
              {"MatMul", "BatchNorm"});
}

/// x as indices by where(i < 0, i + count, i).
ValueId wrapped_indices(Forms& f, ValueId x, int64_t count) {
  CastAttrs whole;
  whole.to = DType::kI64;
  const ValueId i = f.op(Op::kCast, make_attrs<CastAttrs>(whole), {x});
  const ValueId below = f.binary(Binary::kLess, i, f.b.i64_scalar(0));
  return f.op(Op::kWhere, make_attrs<NoAttrs>(), {below, f.binary(Binary::kAdd, i, f.b.i64_scalar(count)), i});
}

/// A gather by wrapped_indices() from a table of 5 rows.
ValueId wrapped_gather(Forms& f, ValueId x, int64_t count) {
  GatherAttrs a;
  a.negative = false;
  return f.op(Op::kGather, make_attrs<GatherAttrs>(a), {f.weights({5, 2}), wrapped_indices(f, x, count)});
}

/// A sum of elements into places of 5 rows by wrapped_indices().
ValueId wrapped_scatter(Forms& f, ValueId x, int64_t count) {
  ScatterAttrs a;
  a.reduction = ScatterAttrs::Reduce::kAdd;
  return f.op(Op::kScatterElements, make_attrs<ScatterAttrs>(a),
              {f.weights({5, 2}), wrapped_indices(f, x, count), f.weights({4, 2}, 5)});
}

TEST(Recompose, IndicesThatCountFromTheEnd) {
  check_fused({8}, [](Forms& f, ValueId x) { return wrapped_gather(f, x, 5); }, {"Cast", "Gather"});
  check_fused({4, 2}, [](Forms& f, ValueId x) { return wrapped_scatter(f, x, 5); }, {"Cast", "ScatterElements"});
  // Another number is no extent.
  check_fused({8}, [](Forms& f, ValueId x) { return wrapped_gather(f, x, 4); },
              {"Cast", "Binary", "Binary", "Where", "Gather"});
  check_fused({4, 2}, [](Forms& f, ValueId x) { return wrapped_scatter(f, x, 4); },
              {"Cast", "Binary", "Binary", "Where", "ScatterElements"});
}

TEST(Recompose, AnyAndAllOfTruthValues) {
  for (const Reduction fn : {Reduction::kMax, Reduction::kMin})
    check_fused(
        kRowsOf24,
        [&](Forms& f, ValueId x) {
          const auto cast = [&](ValueId v, DType to) { return f.op(Op::kCast, make_attrs<CastAttrs>(to), {v}); };
          ReduceAttrs a;
          a.fn = fn;
          const ValueId integers = cast(f.binary(Binary::kLess, x, fn == Reduction::kMax ? -2.8 : 2.8), DType::kI32);
          return cast(cast(f.op(Op::kReduce, make_attrs<ReduceAttrs>(a), {integers, f.b.i64({1})}), DType::kBool),
                      DType::kF32);
        },
        {"Binary", "Reduce", "Cast"});
}

}  // namespace
}  // namespace smelt
