#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <optional>

#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {
using test::random_tensor;

/// Builds graphs of exporters' forms; a failing node fails the test.
struct Forms {
  Builder b;

  ValueId op(Op op, AttrsPtr attrs, std::vector<ValueId> in) {
    auto made = b.op(op, std::move(attrs), std::move(in));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made.ok() ? *made : 0;
  }
  ValueId unary(Unary fn, ValueId x) { return op(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}); }
  ValueId binary(Binary fn, ValueId x, ValueId y) { return op(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y}); }
  ValueId binary(Binary fn, ValueId x, double y) { return binary(fn, x, b.f32_scalar(static_cast<float>(y))); }
  ValueId mul(ValueId x, ValueId y) { return binary(Binary::kMul, x, y); }
  ValueId mul(ValueId x, double y) { return binary(Binary::kMul, x, y); }
  ValueId add(ValueId x, double y) { return binary(Binary::kAdd, x, y); }
  ValueId weights(const Shape& shape, uint32_t seed = 3) {
    return b.constant("", random_tensor(DType::kF32, shape, -1, 1, seed));
  }
  ValueId mean(ValueId x, int64_t axis = -1) {
    ReduceAttrs a;
    a.fn = Reduction::kMean;
    a.keep_dims = true;
    return op(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, b.i64({axis})});
  }
  ValueId reshape(ValueId x, std::initializer_list<int64_t> shape) {
    ReshapeAttrs a;
    a.allow_zero = false;
    return op(Op::kReshape, make_attrs<ReshapeAttrs>(a), {x, b.i64(shape)});
  }
  ValueId transpose(ValueId x, std::vector<int64_t> perm) {
    return op(Op::kTranspose, make_attrs<TransposeAttrs>(std::move(perm)), {x});
  }
  ValueId matmul(ValueId x, ValueId y) { return op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, y}); }
  ValueId softmax(ValueId x) { return op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}); }
};

using Form = std::function<ValueId(Forms&, ValueId x)>;

/// Runs y = form(x) unfused on the reference back-end and fused on the CPU. `expected`: the operators that must have
/// run there in the end, in order, without those that move elements.
void check(const Shape& shape, const Form& form, const std::vector<std::string>& expected) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Forms f{Builder(*module, 0)};
  const ValueId y = form(f, f.b.input("x", ValueType::tensor(DType::kF32, shape)));
  f.b.graph().outputs = {y};
  ASSERT_TRUE(verify(*module).ok());
  const std::vector<Datum> in{random_tensor(DType::kF32, shape, -3, 3, 1)};
  Tensor results[2];
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    SessionOptions options;
    options.backend = backend;
    options.profile = true;
    auto session = Session::create(ModelAccess::make(module), options);
    ASSERT_TRUE(session.ok()) << session.error().message();
    auto out = session->run(in);
    ASSERT_TRUE(out.ok()) << out.error().message();
    results[backend == BackendKind::kCpu] = (*out)[0].tensor;
    if (backend == BackendKind::kReference) continue;
    std::vector<std::string> ops;
    for (const ProfileEntry& e : session->profile())
      if (e.op != "Transpose" && e.op != "Reshape") ops.push_back(e.op);
    EXPECT_EQ(ops, expected);
  }
  ASSERT_EQ(results[0].shape(), results[1].shape());
  for (int64_t i = 0; i < results[0].elements(); ++i)
    ASSERT_NEAR(get_double(results[0], i), get_double(results[1], i), 2e-5) << "element " << i;
}

const Shape kRows{2, 5, 24};

TEST(Recompose, GeluOfTheErrorFunction) {
  const auto gate = [](Forms& f, ValueId x) {
    return f.add(f.unary(Unary::kErf, f.binary(Binary::kDiv, x, std::numbers::sqrt2)), 1);
  };
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, gate(f, x)), 0.5); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(x, f.mul(gate(f, x), 0.5)); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, 0.5), gate(f, x)); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, gate(f, x)), 0.7); },
        {"Binary", "Unary", "Binary", "Binary", "Binary"});
}

TEST(Recompose, GeluOfTanh) {
  const double root = std::sqrt(2 / std::numbers::pi);
  check(kRows,
        [&](Forms& f, ValueId x) {
          const ValueId cube = f.mul(f.binary(Binary::kPow, x, 3.0), 0.044715);
          const ValueId tanh = f.unary(Unary::kTanh, f.mul(f.binary(Binary::kAdd, x, cube), root));
          return f.mul(f.mul(x, 0.5), f.add(tanh, 1));
        },
        {"Unary"});
  check(kRows,
        [&](Forms& f, ValueId x) {
          const ValueId square = f.add(f.mul(f.mul(x, x), 0.044715), 1);
          const ValueId tanh = f.unary(Unary::kTanh, f.mul(f.mul(x, root), square));
          return f.mul(x, f.mul(f.add(tanh, 1), 0.5));
        },
        {"Unary"});
}

TEST(Recompose, SigmoidGates) {
  check(kRows, [](Forms& f, ValueId x) { return f.mul(x, f.unary(Unary::kSigmoid, x)); }, {"Unary"});
  check(kRows, [](Forms& f, ValueId x) { return f.mul(f.unary(Unary::kSigmoid, f.mul(x, 1.702)), x); }, {"Unary"});
  check(kRows, [](Forms& f, ValueId x) { return f.mul(f.weights({24}), f.unary(Unary::kSigmoid, x)); },
        {"Unary", "Binary"});
}

TEST(Recompose, LayerNormalization) {
  for (const bool affine : {false, true})
    check(kRows,
          [&](Forms& f, ValueId x) {
            const ValueId centred = f.binary(Binary::kSub, x, f.mean(x));
            const ValueId variance = f.mean(f.binary(Binary::kPow, centred, 2.0), affine ? 2 : -1);
            const ValueId y = f.binary(Binary::kDiv, centred, f.unary(Unary::kSqrt, f.add(variance, 1e-5)));
            return affine ? f.binary(Binary::kAdd, f.weights({24}, 5), f.mul(y, f.weights({24}))) : y;
          },
          {"LayerNorm"});
  check(kRows,
        [](Forms& f, ValueId x) {  // of another dimension
          const ValueId centred = f.binary(Binary::kSub, x, f.mean(x, 1));
          const ValueId variance = f.mean(f.mul(centred, centred), 1);
          return f.binary(Binary::kDiv, centred, f.unary(Unary::kSqrt, f.add(variance, 1e-5)));
        },
        {"Reduce", "Binary", "Binary", "Reduce", "Binary", "Unary", "Binary"});
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
      check(kRows, [&](Forms& f, ValueId x) { return factored(f, x, scale, bias); }, {"LayerNorm"});
  check(kRows, [](Forms& f, ValueId x) { return factored(f, x, Shape{24}, Shape{24}, 0, true); }, {"LayerNorm"});
  check(  // a scale for each row
      kRows,
      [](Forms& f, ValueId x) {
        return factored(f, x, Shape{5, 1}, std::nullopt);
      },
      {"Reduce", "Binary", "Reduce", "Binary", "Unary", "Binary", "Unary", "Binary", "Binary", "Binary"});
  check(  // the mean of another value
      kRows, [](Forms& f, ValueId x) { return factored(f, x, std::nullopt, std::nullopt, 0.5); },
      {"Reduce", "Binary", "Reduce", "Binary", "Unary", "Binary", "Reduce", "Unary", "Binary", "Binary", "Binary"});
}

TEST(Recompose, RmsNormalization) {
  check(kRows,
        [](Forms& f, ValueId x) {
          const ValueId root = f.unary(Unary::kSqrt, f.add(f.mean(f.binary(Binary::kPow, x, 2.0)), 1e-6));
          return f.mul(f.weights({24}), f.mul(x, f.unary(Unary::kReciprocal, root)));
        },
        {"LayerNorm"});
}

TEST(Recompose, BiasOfAProduct) {
  check(kRows,
        [](Forms& f, ValueId x) {
          return f.binary(Binary::kAdd, f.weights({7}), f.matmul(x, f.weights({24, 7}, 4)));
        },
        {"MatMul"});
  check(  // not a row for all rows
      kRows,
      [](Forms& f, ValueId x) {
        return f.binary(Binary::kAdd, f.matmul(x, f.weights({24, 7}, 4)), f.weights({5, 7}));
      },
      {"MatMul", "Binary"});
  check(  // one that raises the rank
      kRows,
      [](Forms& f, ValueId x) {
        return f.binary(Binary::kAdd, f.matmul(x, f.weights({24, 7}, 4)), f.weights({1, 1, 1, 7}));
      },
      {"MatMul", "Binary"});
}

/// x as `groups` rows an image, normalized with a factor and an addend for all rows, and in its own shape again.
ValueId grouped(Forms& f, ValueId x, int64_t groups, float scale = 1, float bias = 0) {
  GroupNormAttrs a;
  a.groups = 0;
  const auto all = [&](float v) { return f.b.constant("", random_tensor(DType::kF32, {groups}, v, v, 1)); };
  const ValueId rows = f.reshape(x, {0, groups, -1});
  const ValueId y = f.op(Op::kGroupNorm, make_attrs<GroupNormAttrs>(a), {rows, all(scale), all(bias)});
  return f.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {y, f.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {x})});
}

TEST(Recompose, GroupNormalization) {
  const Shape images{2, 6, 4, 5};
  check(images,
        [](Forms& f, ValueId x) {
          const ValueId scaled = f.mul(grouped(f, x, 3), f.weights({6, 1, 1}));
          return f.binary(Binary::kAdd, f.weights({1, 6, 1, 1}, 4), scaled);
        },
        {"GroupNorm"});
  check(images,
        [](Forms& f, ValueId x) {
          return f.binary(Binary::kAdd, grouped(f, x, 1), f.weights({6, 1, 1}));
        },
        {"GroupNorm"});
  check(  // an addend that is no number a channel, a factor after an addend
      images,
      [](Forms& f, ValueId x) {
        const ValueId y = f.binary(Binary::kAdd, grouped(f, x, 3), f.weights({4, 1}));
        return f.mul(f.binary(Binary::kAdd, y, f.weights({6, 1, 1})), f.weights({6, 1, 1}, 4));
      },
      {"GroupNorm", "Binary", "Binary", "Binary"});
  check(  // the rows have an addend of their own
      images,
      [](Forms& f, ValueId x) {
        return f.mul(grouped(f, x, 3, 1, 0.5f), f.weights({6, 1, 1}));
      },
      {"GroupNorm", "Binary"});
  check(  // another shape afterwards
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
  check({2, 6, 4, 5}, [&](Forms& f, ValueId x) { return rows(f, x, false); }, {"GroupNorm"});
  check({2, 6, 4, 5}, [&](Forms& f, ValueId x) { return rows(f, x, true); }, {"LayerNorm", "Binary"});
}

TEST(Recompose, BoundedFunctions) {
  const auto within = [](Forms& f, ValueId x, double lo, double hi) {
    return f.binary(Binary::kMin, f.binary(Binary::kMax, x, lo), hi);
  };
  check(kRows, [&](Forms& f, ValueId x) { return within(f, x, -1, 2); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.binary(Binary::kMin, f.unary(Unary::kRelu, x), 6.0); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return within(f, f.add(f.mul(x, 0.2), 0.5), 0, 1); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(within(f, f.add(x, 3), 0, 6), 1.0 / 6); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(f.mul(x, within(f, f.add(x, 3), 0, 6)), 1.0 / 6); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(x, f.mul(within(f, f.add(x, 3), 0, 6), 1.0 / 6)); }, {"Unary"});
  // Bounds without numbers between, another slope.
  check(kRows, [&](Forms& f, ValueId x) { return within(f, x, 2, -1); }, {"Binary", "Binary"});
  check(kRows, [&](Forms& f, ValueId x) { return f.mul(x, within(f, f.add(f.mul(x, 0.2), 0.5), 0, 1)); },
        {"Unary", "Binary"});
}

TEST(Recompose, Softplus) {
  const auto form = [](Forms& f, ValueId x, double one) {
    const ValueId small = f.unary(Unary::kExp, f.unary(Unary::kNeg, f.unary(Unary::kAbs, x)));
    const ValueId log = f.unary(Unary::kLog, f.add(small, one));
    return f.binary(Binary::kAdd, log, f.unary(Unary::kRelu, x));
  };
  check(kRows, [&](Forms& f, ValueId x) { return form(f, x, 1); }, {"Unary"});
  check(kRows, [&](Forms& f, ValueId x) { return form(f, x, 2); },
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
  check({1, 12, 3, 2}, [&](Forms& f, ValueId x) { return form(f, x, 0); }, {"DepthSpace"});
  check({1, 12, 3, 2}, [&](Forms& f, ValueId x) { return form(f, x, 1); }, {"Gather", "DepthSpace"});
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
    check({2, 4, 5, 3},
          [&](Forms& f, ValueId x) {
            const ValueId y = f.op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a),
                                   {x, f.weights({4, 3, 2, 2}), f.weights({3 * groups})});
            return batch_normalized(f, y, 3 * groups);
          },
          {"ConvTranspose"});
  }
  check({4, 6}, [](Forms& f, ValueId x) { return batch_normalized(f, f.matmul(x, f.weights({6, 5})), 5); }, {"MatMul"});
  check(  // a bias by row
      {5, 6},
      [](Forms& f, ValueId x) {
        const ValueId y = f.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, f.weights({6, 5}), f.weights({5, 1}, 8)});
        return batch_normalized(f, y, 5);
      },
      {"MatMul", "BatchNorm"});
  // The second of three dimensions is no column.
  check({4, 5, 6},
        [](Forms& f, ValueId x) {
          return batch_normalized(f, f.matmul(x, f.weights({6, 5})), 5);
        },
        {"MatMul", "BatchNorm"});
}

/// 3 heads of 8 elements.
ValueId heads(Forms& f, ValueId x, const std::vector<int64_t>& perm) {
  return f.transpose(f.reshape(x, {0, -1, 3, 8}), perm);
}
ValueId join(Forms& f, ValueId y) { return f.reshape(f.transpose(y, {0, 2, 1, 3}), {0, -1, 24}); }

/// A gather of x as indices by where(i < 0, i + count, i) from a table of 5 rows.
ValueId wrapped_gather(Forms& f, ValueId x, int64_t count) {
  CastAttrs whole;
  whole.to = DType::kI64;
  const ValueId i = f.op(Op::kCast, make_attrs<CastAttrs>(whole), {x});
  const ValueId below = f.binary(Binary::kLess, i, f.b.i64_scalar(0));
  const ValueId at =
      f.op(Op::kWhere, make_attrs<NoAttrs>(), {below, f.binary(Binary::kAdd, i, f.b.i64_scalar(count)), i});
  GatherAttrs a;
  a.negative = false;
  return f.op(Op::kGather, make_attrs<GatherAttrs>(a), {f.weights({5, 2}), at});
}

TEST(Recompose, IndicesThatCountFromTheEnd) {
  check({8}, [](Forms& f, ValueId x) { return wrapped_gather(f, x, 5); }, {"Cast", "Gather"});
  // Another number is no extent.
  check({8}, [](Forms& f, ValueId x) { return wrapped_gather(f, x, 4); },
        {"Cast", "Binary", "Binary", "Where", "Gather"});
}

TEST(Recompose, AnyAndAllOfTruthValues) {
  for (const Reduction fn : {Reduction::kMax, Reduction::kMin})
    check(kRows,
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

TEST(FuseAttention, DividedAndMasked) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  for (const Shape& mask : {Shape{2, 1, 1, 5}, Shape{5, 5}, Shape{1, 3, 5, 5}})
    check(kRows,
          [&](Forms& f, ValueId x) {
            const ValueId q = heads(f, x, swap), k = heads(f, f.mul(x, f.weights({24})), {0, 2, 3, 1});
            const ValueId scores = f.binary(Binary::kDiv, f.matmul(q, k), std::sqrt(8.0));
            const ValueId seen = f.softmax(f.binary(Binary::kAdd, f.weights(mask, 9), scores));
            return join(f, f.matmul(seen, heads(f, f.add(x, 1), swap)));
          },
          {"Binary", "Binary", "Attention"});
}

TEST(FuseAttention, PermutationsThatAreInputs) {
  check(kRows,
        [&](Forms& f, ValueId x) {
          const auto turned = [&](std::vector<int64_t> perm) {
            const ValueId split = f.reshape(x, {2, 5, 3, 8}), order = f.b.i64(std::move(perm));
            return f.op(Op::kTranspose, make_attrs<TransposeAttrs>(), {split, order});
          };
          const ValueId q = turned({0, 2, 1, 3});
          return join(f, f.matmul(f.softmax(f.matmul(q, turned({0, 2, 3, 1}))), q));
        },
        {"Attention"});
}

TEST(FuseAttention, RootOfTheScaleAndGuardedRows) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  for (const bool guarded : {false, true})
    check(kRows,
          [&](Forms& f, ValueId x) {
            const double root = std::pow(8.0, -0.25);
            const ValueId q = f.mul(heads(f, x, swap), root), k = heads(f, x, swap);
            ValueId seen = f.softmax(f.matmul(q, f.mul(f.transpose(k, {0, 1, 3, 2}), root)));
            if (guarded)
              seen = f.op(Op::kWhere, make_attrs<NoAttrs>(), {f.unary(Unary::kIsNan, seen), f.b.f32_scalar(0), seen});
            return f.matmul(seen, k);
          },
          {"Attention"});
}

TEST(FuseAttention, ScaleBelowTheTurnedKeys) {
  check({2, 5, 24},
        [](Forms& f, ValueId x) {
          const ValueId q = f.mul(heads(f, x, {0, 2, 1, 3}), 0.6);
          const ValueId k = f.transpose(f.mul(f.reshape(x, {0, -1, 3, 8}), 0.6), {0, 2, 3, 1});
          return join(f, f.matmul(f.softmax(f.matmul(q, k)), heads(f, x, {0, 2, 1, 3})));
        },
        {"Attention"});
}

TEST(FuseAttention, KeysTurnedInThreeDimensions) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  check(kRows,
        [&](Forms& f, ValueId x) {
          const ValueId q = heads(f, x, swap);
          const ValueId k = f.reshape(f.transpose(f.reshape(q, {-1, 5, 8}), {0, 2, 1}), {2, 3, 8, 5});
          return join(f, f.matmul(f.softmax(f.matmul(q, k)), q));
        },
        {"Attention"});
}

/// Causal attention of one head whose scores a Where replaces by `lowest`; it reads where they are seen, or hidden.
ValueId where_hidden(Forms& f, ValueId x, bool seen, double lowest) {
  const ValueId q = heads(f, x, {0, 2, 1, 3});
  const ValueId scores = f.mul(f.matmul(q, f.transpose(q, {0, 1, 3, 2})), 0.25);
  const ValueId row = f.b.constant("", test::tensor(DType::kI64, {5, 1}, {0, 1, 2, 3, 4}));
  const ValueId key = f.b.constant("", test::tensor(DType::kI64, {1, 5}, {0, 1, 2, 3, 4}));
  const ValueId number = f.b.f32_scalar(static_cast<float>(lowest));
  // A sum with what the run gives keeps the condition from being folded.
  CastAttrs whole;
  whole.to = DType::kI64;
  const ValueId zeros = f.op(Op::kCast, make_attrs<CastAttrs>(whole), {f.mul(f.reshape(x, {-1, 1}), 0.0)});
  GatherAttrs first;
  const ValueId zero = f.op(Op::kGather, make_attrs<GatherAttrs>(first), {zeros, f.b.i64_scalar(0)});
  const ValueId at = f.binary(Binary::kAdd, row, zero);
  const ValueId condition = f.binary(seen ? Binary::kLessEqual : Binary::kGreater, key, at);
  const std::vector<ValueId> in =
      seen ? std::vector{condition, scores, number} : std::vector{condition, number, scores};
  return join(f, f.matmul(f.softmax(f.op(Op::kWhere, make_attrs<NoAttrs>(), in)), q));
}

TEST(FuseAttention, ScoresThatAWhereHides) {
  for (const bool seen : {false, true}) {
    const std::vector<std::string> expected{"Binary", "Cast", "Gather", "Binary", "Binary", "Where", "Attention"};
    check(
        kRows, [&](Forms& f, ValueId x) { return where_hidden(f, x, seen, -1e9); }, expected);
    check(
        kRows, [&](Forms& f, ValueId x) { return where_hidden(f, x, seen, -HUGE_VAL); }, expected);
  }
  // -2 beside a score is something.
  check(kRows, [&](Forms& f, ValueId x) { return where_hidden(f, x, false, -2); },
        {"MatMul", "Binary", "Cast", "Gather", "Binary", "Binary", "Where", "Softmax", "MatMul"});
}

TEST(FuseAttention, WindowsThatSplitTheBatchStay) {
  check(  // [2, 6, 24] as 6 windows of 2 rows: the batch of the heads is not that of x
      {2, 6, 24},
      [](Forms& f, ValueId x) {
        const ValueId q = f.transpose(f.reshape(x, {6, 2, 3, 8}), {0, 2, 1, 3});
        const ValueId y = f.matmul(f.softmax(f.matmul(q, f.transpose(q, {0, 1, 3, 2}))), q);
        return f.reshape(f.transpose(y, {0, 2, 1, 3}), {2, 6, 24});
      },
      {"Attention"});
}

TEST(FuseAttention, OthersStay) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  check(  // one batch of keys for all queries
      kRows,
      [&](Forms& f, ValueId x) {
        const ValueId k = f.weights({1, 3, 5, 8});
        return f.matmul(f.softmax(f.matmul(heads(f, x, swap), f.transpose(k, {0, 1, 3, 2}))), k);
      },
      {"MatMul", "Softmax", "MatMul"});
  check(  // a mask that makes the scores larger
      {1, 5, 24},
      [&](Forms& f, ValueId x) {
        const ValueId q = heads(f, x, swap), scores = f.matmul(q, f.transpose(q, {0, 1, 3, 2}));
        return f.matmul(f.softmax(f.binary(Binary::kAdd, scores, f.weights({4, 1, 5, 5}))), q);
      },
      {"MatMul", "Binary", "Softmax", "MatMul"});
  check(  // the probabilities have another reader
      kRows,
      [&](Forms& f, ValueId x) {
        const ValueId q = heads(f, x, swap);
        const ValueId seen = f.softmax(f.matmul(q, f.transpose(q, {0, 1, 3, 2})));
        return f.matmul(seen, f.matmul(seen, q));
      },
      {"MatMul", "Softmax", "MatMul", "MatMul"});
}

}  // namespace
}  // namespace smelt
