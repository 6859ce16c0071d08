#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "tests/support/module.h"
#include "tests/support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Outcome {
  Result<std::vector<Datum>> results;
  std::vector<std::string> kernels;  ///< but for views
};

/// `unknown`: the model does not say the dimensions.
Outcome run(const OpCase& c, BackendKind backend, bool unknown = false) {
  OpRunner runner(c);
  runner.backend(backend);
  if (unknown) runner.unknown_shapes();
  Outcome made{runner.run_all(), {}};
  for (const ProfileEntry& e : runner.profile())
    if (e.op != "Reshape") made.kernels.push_back(e.kernel);
  return made;
}

/// The CPU gives what the reference kernel gives, by `kernel` among others, and by reference kernels only where
/// `reference` says so.
void check(const OpCase& c, const std::string& kernel, bool reference = false) {
  for (bool unknown : {false, true}) {
    SCOPED_TRACE(c.label + (unknown ? ", shapes known at run time" : ""));
    const Outcome want = run(c, BackendKind::kReference, unknown), got = run(c, BackendKind::kCpu, unknown);
    ASSERT_TRUE(want.results.ok()) << want.results.error().message();
    ASSERT_TRUE(got.results.ok()) << got.results.error().message();
    const DType dtype = want.results->front().tensor.dtype();
    expect_same(*got.results, *want.results, dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 1e-3 : 1e-2);
    EXPECT_GT(std::ranges::count(got.kernels, kernel), 0) << ::testing::PrintToString(got.kernels);
    EXPECT_EQ(std::ranges::count(got.kernels, "reference") > 0, reference) << ::testing::PrintToString(got.kernels);
  }
}

TEST(Decompose, DynamicMatricesOfExperts) {
  for (const bool shared : {false, true}) {
    OpCase c{shared ? "a row a token" : "a row an expert",
             Op::kExpertMatMul,
             make_attrs<ExpertMatMulAttrs>(ExpertMatMulAttrs{}),
             {}};
    c.inputs = {random_tensor(DType::kF32, shared ? Shape{3, 6} : Shape{3, 2, 6}, -1, 1, 1),
                random_tensor(DType::kI64, {3, 2}, -2, 1, 2), random_tensor(DType::kF32, {5, 6}, -1, 1, 3),
                random_tensor(DType::kF32, {5, 6}, -1, 1, 4)};
    check(c, "matmul_f32");
  }
}

OpCase einsum(const char* equation, const std::vector<Shape>& shapes, DType dtype = DType::kF32) {
  EinsumAttrs a;
  a.equation = equation;
  OpCase c{equation, Op::kEinsum, make_attrs<EinsumAttrs>(a), {}};
  uint32_t seed = 1;
  for (const Shape& shape : shapes) c.inputs.push_back(random_tensor(dtype, shape, -1, 1, seed++));
  return c;
}

TEST(Decompose, EinsteinSumsAreProductsOfMatrices) {
  check(einsum("bhid,bhjd->bhij", {{2, 3, 5, 8}, {2, 3, 7, 8}}), "matmul_f32");
  check(einsum("...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 6}}), "matmul_f32");
  check(einsum("ab,bc,cd->ad", {{2, 3}, {3, 4}, {4, 5}}), "matmul_f32");
  check(einsum("iij,jk->ki", {{3, 3, 4}, {4, 5}}), "matmul_f32");
  check(einsum("ij->ji", {{3, 4}}), "strided_copy");
  check(einsum("bij,kj->bik", {{2, 5, 8}, {7, 8}}, DType::kF16), "matmul_f32");
  check(einsum("bij,jk->bik", {{2, 5, 8}, {8, 7}}, DType::kBF16), "matmul_f32");
}

TEST(Decompose, Distances) {
  EinsumAttrs a;
  a.equation = "euclidean";
  check({"euclidean",
         Op::kPairwiseDistance,
         make_attrs<EinsumAttrs>(a),
         {random_tensor(DType::kF32, {4, 7}, -1, 1, 1), random_tensor(DType::kF32, {5, 7}, -1, 1, 2)}},
        "reduce_f32");
}

/// A loss picks one score of each row: it is decomposed for its softmax only.
TEST(Decompose, LossesOfScores) {
  const Tensor scores = random_tensor(DType::kF32, {6, 9}, -3, 3, 1);
  Tensor labels(DType::kI64, {6});
  for (int64_t i = 0; i < 6; ++i) labels.data<int64_t>()[i] = i * 4 % 9;
  const AttrsPtr attrs = make_attrs<LossAttrs>();
  check({"both results", Op::kCrossEntropyLoss, attrs, {scores, labels}, {}, std::vector<ValueType>(2)}, "softmax_f32");
  const Outcome loss = run({"", Op::kNllLoss, attrs, {scores, labels}}, BackendKind::kCpu);
  ASSERT_TRUE(loss.results.ok());
  EXPECT_EQ(std::ranges::count(loss.kernels, "gather_elements"), 1);
  EXPECT_EQ(std::ranges::count(loss.kernels, "reference"), 0);
  labels.data<int64_t>()[2] = 9;
  const Outcome beyond = run({"", Op::kCrossEntropyLoss, attrs, {scores, labels}}, BackendKind::kCpu);
  ASSERT_FALSE(beyond.results.ok());
  EXPECT_NE(beyond.results.error().message().find("range"), std::string::npos) << beyond.results.error().message();
}

TEST(Decompose, Bounds) {
  const Tensor x = random_tensor(DType::kF32, {3, 70}, -9, 9, 1), low = random_tensor(DType::kF32, {70}, -4, 0, 2),
               high = random_tensor(DType::kF32, {}, 1, 5, 3);
  check({"both", Op::kClamp, make_attrs<NoAttrs>(), {x, low, high}}, "binary_f32");
  check({"upper", Op::kClamp, make_attrs<NoAttrs>(), {x, {}, high}}, "binary_f32");
}

TEST(Decompose, IndicesOfDimensions) {
  const auto integers = [](const Shape& shape, std::vector<int64_t> values) {
    return Tensor::from<int64_t>(DType::kI64, shape, std::span<const int64_t>(values));
  };
  const Tensor x = random_tensor(DType::kF32, {5, 6, 7, 3}, -9, 9, 1);
  OpCase c{"one", Op::kIndexTensors, make_attrs<IndexAttrs>(), {x, {}, integers({4}, {5, -6, 0, 2})}};
  check(c, "gather");
  c = {"two",
       Op::kIndexTensors,
       make_attrs<IndexAttrs>(),
       {x, {}, integers({2, 1}, {-1, 3}), integers({3}, {0, 6, -7})},
       {2, 3}};
  check(c, "gather");
  c.constants.clear();
  c.label = "two of the run";
  check(c, "reference", true);
  c.label = "apart";
  c.inputs[1] = integers({3}, {0, 4, -5});
  c.inputs[2] = Tensor();
  c.constants = {1, 3};
  check(c, "reference", true);
  c = {"outside", Op::kIndexTensors, make_attrs<IndexAttrs>(), {x, integers({1}, {4}), integers({2}, {0, 6})}, {1, 2}};
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu})
    EXPECT_FALSE(run(c, backend).results.ok());
}

TEST(Decompose, Norms) {
  Tensor axes(DType::kI64, {1});
  axes.data<int64_t>()[0] = 1;
  for (Reduction fn : {Reduction::kL1, Reduction::kL2, Reduction::kLogSum}) {
    ReduceAttrs a;
    a.fn = fn;
    OpCase c{
        to_string(fn), Op::kReduce, make_attrs<ReduceAttrs>(a), {random_tensor(DType::kF32, {6, 40}, 1, 3, 1), axes}};
    c.constants = {1};
    check(c, "reduce_f32");
  }
}

TEST(Decompose, ReducedDimensionsThatAreNoNeighbours) {
  const auto reduction = [](Reduction fn, const Tensor& x, const std::vector<int64_t>& axes, bool keep) {
    ReduceAttrs a;
    a.fn = fn;
    a.keep_dims = keep;
    OpCase c{to_string(fn), Op::kReduce, make_attrs<ReduceAttrs>(a), {x, i64(axes)}};
    c.constants = {1};
    return c;
  };
  const Tensor x = random_tensor(DType::kF32, {3, 4, 2, 5, 6}, 0.5, 2, 1);
  const Tensor whole = random_tensor(DType::kI32, {3, 4, 5}, -9, 9, 1);
  for (const bool keep : {false, true}) {
    for (const auto& axes : {std::vector<int64_t>{0, 2}, {1, -1}, {0, 1, 3}, {0, 2, 4}}) {
      for (const Reduction fn : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kSumSquare,
                                 Reduction::kL1, Reduction::kL2, Reduction::kLogSum, Reduction::kLogSumExp})
        check(reduction(fn, x, axes, keep), "reduce_f32");
      check(reduction(Reduction::kMin, x, axes, keep), "reduce_extreme");
    }
    check(reduction(Reduction::kSum, whole, {0, 2}, keep), "reduce_unquantized");
    check(reduction(Reduction::kMax, whole, {0, 2}, keep), "reduce_extreme");
  }
}

TEST(Decompose, LogarithmsOfSums) {
  for (const bool keep : {false, true}) {
    ReduceAttrs a;
    a.fn = Reduction::kLogSumExp;
    a.keep_dims = keep;
    OpCase c{"log sum exp",
             Op::kReduce,
             make_attrs<ReduceAttrs>(a),
             {random_tensor(DType::kF32, {6, 40, 3}, -90, 90, 1), i64({1})}};
    c.constants = {1};
    const float inf = std::numeric_limits<float>::infinity();
    auto* x = c.inputs[0].data<float>();
    for (int64_t i = 0; i < 40; ++i) x[3 * i] = -inf;
    x[1] = inf;
    check(c, "reduce_f32");
  }
}

TEST(Decompose, NormalizationByNorms) {
  for (const int64_t axis : {1, -1})
    for (const int64_t p : {1, 2})
      for (const double epsilon : {0.0, 0.5})
        for (const bool most : {false, true}) {
          LpNormAttrs a;
          a.axis = axis;
          a.p = p;
          a.epsilon = epsilon;
          a.epsilon_max = most;
          OpCase c{"lp norm",
                   Op::kLpNorm,
                   make_attrs<LpNormAttrs>(a),
                   {random_tensor(DType::kF32, {2, 6, 5, 40}, -1, 1, 1)}};
          std::fill_n(c.inputs[0].data<float>(), 40, 0.0f);
          if (axis == 1)
            for (int64_t i = 0; i < 6; ++i) c.inputs[0].data<float>()[i * 200] = 0;
          check(c, "reduce_f32");
        }
}

TEST(Decompose, NoNumbers) {
  OpCase c{"is nan", Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIsNan), {random_tensor(DType::kF32, {6, 7}, -1, 1, 1)}};
  c.inputs[0].data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  c.inputs[0].data<float>()[6] = std::numeric_limits<float>::infinity();
  c.outputs[0].dtype = DType::kBool;
  check(c, "binary_unquantized");
}

TEST(Decompose, Infinities) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [positive, negative] : {std::pair{1, 1}, {1, 0}, {0, 1}}) {
    OpCase c{"is inf", Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIsInf, positive, negative), {}};
    c.inputs = {Tensor::from<float>(DType::kF32, {6}, std::vector{inf, -inf, nan, 0.0f, 3e38f, -3e38f})};
    c.outputs[0].dtype = DType::kBool;
    check(c, "binary_unquantized");
  }
}

TEST(Decompose, MeansAndVariances) {
  const auto normalization = [](const Shape& shape, std::vector<int64_t> axes) {
    MeanVarianceNormAttrs a;
    a.axes = std::move(axes);
    return OpCase{shape.str(),
                  Op::kMeanVarianceNorm,
                  make_attrs<MeanVarianceNormAttrs>(a),
                  {random_tensor(DType::kF32, shape, -1, 3, 1)}};
  };
  check(normalization({1, 5, 6, 7}, {0, 2, 3}), "group_norm_f32");
  check(normalization({3, 5, 6, 7}, {2, 3}), "group_norm_f32");
  check(normalization({3, 5, 6, 7}, {1, 2, -1}), "group_norm_f32");
  for (const auto& c : {normalization({3, 5, 6, 7}, {0, 2, 3}), normalization({3, 5, 6, 7}, {1, 2})}) {
    const Outcome made = run(c, BackendKind::kCpu);
    ASSERT_TRUE(made.results.ok());
    EXPECT_EQ(made.kernels, std::vector<std::string>{"reference"}) << c.label;
  }
}

TEST(Decompose, NormsOfWindows) {
  for (const double p : {1.0, 2.0})
    for (int form = 0; form < 4; ++form) {
      PoolAttrs a;
      a.kind = PoolKind::kLp;
      a.p = p;
      a.kernel = {3, 2};
      a.strides = {2, 1};
      a.pads = {1, 0, 1, 1};
      a.layout = form & 1 ? Layout::kChannelsLast : Layout::kChannelsFirst;
      a.mean_square = p == 2 && (form & 2);
      check({"lp pool", Op::kPool, make_attrs<PoolAttrs>(a), {random_tensor(DType::kF32, {2, 9, 8, 7}, -1, 1, 1)}},
            "pool_f32");
    }
}

TEST(Decompose, DeformableConvolutions) {
  for (const int64_t groups : {1, 2})
    for (int form = 0; form < 4; ++form) {
      DeformConvAttrs a;
      a.strides = {2, 1};
      a.pads = {1, 2, 1, 0};
      a.dilations = {1, 2};
      a.offset_groups = groups;
      const Shape offsets{2, groups * 12, 4, 5};
      OpCase c{Cat(groups, " form ", form),
               Op::kDeformConv,
               make_attrs<DeformConvAttrs>(a),
               {random_tensor(DType::kF32, {2, 8, 7, 5}, -1, 1, 1), random_tensor(DType::kF32, {9, 8, 3, 2}, -1, 1, 2),
                random_tensor(DType::kF32, offsets, -3, 3, 3)}};
      c.inputs.push_back(form & 1 ? random_tensor(DType::kF32, {9}, -1, 1, 4) : Tensor());
      if (form & 2) c.inputs.push_back(random_tensor(DType::kF32, {2, groups * 6, 4, 5}, 0, 1, 5));
      c.constants = {1, 3};
      check(c, "sample_pixels_f32");
    }
}

/// Nodes of one graph, decomposed and not, and plans for several shapes.
TEST(Decompose, PlansOfOneGraph) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueType type = ValueType::tensor(DType::kF32, Shape{-1, -1});
  const ValueId x = b.input("x", type), y = b.input("y", type);
  EinsumAttrs a;
  a.equation = "ij,kj->ik";
  const auto add = [&](Op op, AttrsPtr attrs, std::vector<ValueId> in) { return b.op(op, attrs, in).value(); };
  const ValueId first = add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x});
  const ValueId sums = add(Op::kEinsum, make_attrs<EinsumAttrs>(a), {first, y});
  const ValueId more = add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {sums, sums});
  const ValueId last = add(Op::kEinsum, make_attrs<EinsumAttrs>(a), {more, sums});
  b.graph().outputs = {sums, last};
  Session reference = Session::create(ModelAccess::make(module), {.backend = BackendKind::kReference}).value();
  Session cpu = Session::create(ModelAccess::make(module), {.backend = BackendKind::kCpu}).value();
  for (const auto& [m, n, k] : {std::tuple{4, 3, 5}, std::tuple{2, 7, 5}, std::tuple{4, 3, 5}, std::tuple{1, 1, 1}}) {
    const std::vector<Datum> in{random_tensor(DType::kF32, {m, k}, -1, 1, 1),
                                random_tensor(DType::kF32, {n, k}, -1, 1, 2)};
    const auto want = reference.run(in), got = cpu.run(in);
    ASSERT_TRUE(want.ok() && got.ok()) << (want.ok() ? got.error().message() : want.error().message());
    for (size_t i = 0; i < 2; ++i) expect_near((*got)[i].tensor, values((*want)[i].tensor));
  }
}

TEST(Decompose, RulesThatDoNotApply) {
  const ValueType real = ValueType::tensor(DType::kF32, Shape{2, 2}), integers = ValueType::tensor(DType::kI32, {2, 2});
  const auto rule = [](Op op, AttrsPtr attrs, std::vector<ValueType> inputs, const ValueType& output) {
    Node node;
    node.op = op;
    node.attrs = std::move(attrs);
    node.inputs.resize(inputs.size(), 0);
    node.outputs = {0};
    const std::vector<const Tensor*> dynamic(inputs.size(), nullptr);
    return decompose({node, inputs, dynamic, {&output, 1}}).has_value();
  };
  EinsumAttrs a;
  a.equation = "ij,jk->ik";
  EXPECT_TRUE(rule(Op::kEinsum, make_attrs<EinsumAttrs>(a), {real, real}, real));
  EXPECT_FALSE(rule(Op::kEinsum, make_attrs<EinsumAttrs>(a), {integers, integers}, integers));
  EXPECT_FALSE(rule(Op::kEinsum, make_attrs<EinsumAttrs>(a), {real, real}, ValueType::tensor(DType::kF32, {3, 2})));
  a.equation = "ij,jk";
  EXPECT_TRUE(rule(Op::kEinsum, make_attrs<EinsumAttrs>(a), {real, real}, real));
  EXPECT_FALSE(rule(Op::kMatMul, make_attrs<MatMulAttrs>(), {real, real}, real));
  EXPECT_FALSE(rule(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {real}, real));
}

}  // namespace
}  // namespace smelt
