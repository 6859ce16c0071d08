#include "ops/matmul/matmul.h"

#include <cmath>
#include <limits>

#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct MatMulRow {
  Shape a, b;
  bool transpose_a = false, transpose_b = false;
  Shape c = Shape::of_rank(1, -1);  ///< -1: none
  double alpha = 1, beta = 1;
  ActKind act = ActKind::kNone;
};

const MatMulRow kRows[] = {
    {{1, 128}, {128, 10}, false, false, {10}},
    {{1, 100}, {33, 100}, false, true, {33}, 1, 1, ActKind::kRelu},
    {{17, 31}, {31, 65}},
    {{29, 64}, {64, 48}, false, false, {48}, 0.5, 2},
    {{64, 19}, {64, 33}, true, false, {19, 1}, 1, 1, ActKind::kRelu},
    {{64, 19}, {33, 64}, true, true, {1}, 1, -1},
    {{2, 3, 15, 20}, {2, 3, 20, 18}},
    {{2, 3, 15, 20}, {3, 18, 20}, false, true},
    {{4, 5, 24}, {24, 40}, false, false, {40}},
    {{3, 1, 5, 8}, {4, 8, 7}, false, false, {5, 7}, 2, 1, ActKind::kRelu6},
    {{8}, {8, 5}},
    {{6, 8}, {8}},
    {{5}, {5}},
    {{1, 2000}, {2000, 3}},
    {{100, 1}, {1, 100}, false, false, {100}},
    {{7, 40}, {40, 70}, false, false, {7, 70}, 1, 0.25, ActKind::kTanh},
    {{9, 1024}, {1024, 130}, false, false, {130}},
    {{1024, 5}, {130, 1024}, true, true},
    // K in chunks.
    {{40, 1001}, {1001, 37}, false, false, {37}, 1, 1, ActKind::kRelu},
    {{19, 577}, {577, 70}},
};

OpCase matmul_case(const MatMulRow& r, bool dynamic) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_a = r.transpose_a;
  attrs->transpose_b = r.transpose_b;
  attrs->alpha = r.alpha;
  attrs->beta = r.beta;
  attrs->act.kind = r.act;
  OpCase c;
  c.label = "a " + r.a.str() + " b " + r.b.str();
  c.op = Op::kMatMul;
  c.attrs = attrs;
  c.inputs = {random_tensor(DType::kF32, r.a, -1, 1, 1), random_tensor(DType::kF32, r.b, -1, 1, 2)};
  if (!dynamic) c.constants = {1, 2};
  if (r.c != Shape{-1}) c.inputs.push_back(random_tensor(DType::kF32, r.c, -1, 1, 3));
  c.threaded = r.a.rank() == 4 || r.alpha == 0.5;
  return c;
}

constexpr Tolerance kTolerance{1e-4, 1e-5};

void check_all(bool dynamic) {
  for (const MatMulRow& r : kRows) check_on_cpu(matmul_case(r, dynamic), "matmul_f32", kTolerance);
}

TEST(MatMulF32, NanStays) {
  for (const int64_t rows : {1, 3, 40}) {
    OpCase c = matmul_case({{rows, 64}, {64, 40}, false, false, {40}}, false);
    c.inputs[0].data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
    check_on_cpu(c, "matmul_f32", kTolerance);
  }
}

TEST(MatMulF32, ConstantB) { check_all(false); }
TEST(MatMulF32, DynamicB) { check_all(true); }

// Lines of b as they lie, rows of b as they lie, one column, one row of few entries less than whole vectors.
TEST(MatMulVectorF32, LinesAndRows) {
  for (const MatMulRow& r : {MatMulRow{{1, 100}, {33, 100}, false, true},
                             {{2, 3, 1, 64}, {2, 3, 77, 64}, false, true},
                             {{4, 2, 3, 70}, {4, 1, 19, 70}, false, true, {-1}, 0.25},
                             {{5, 1, 40}, {5, 40, 70}},
                             {{1, 300}, {300, 1030}},
                             {{1, 100}, {33, 100}, false, true, {33}, 2, 0.5, ActKind::kRelu},
                             {{3, 64}, {19, 64}, false, true, {1, 19}, 1, 1, ActKind::kTanh},
                             {{1, 40}, {40, 70}, false, false, {70}, 1, 2, ActKind::kRelu6},
                             {{30, 40}, {40, 1}, false, false, {1}, 1, 1, ActKind::kRelu},
                             {{2, 4, 1, 33}, {4, 33, 16}},
                             {{40, 1000}, {1000, 1}},
                             {{3, 33, 17}, {3, 17, 1}, false, false, {-1}, 2},
                             {{16}, {16, 50}},
                             {{6, 18}, {18}}}) {
    OpCase c = matmul_case(r, true);
    c.threaded = true;
    check_on_cpu(c, "matmul_vector_f32", kTolerance);
  }
  check_on_cpu(matmul_case({{40, 1000}, {1000, 1}}, false), "matmul_vector_f32", kTolerance);
}

/// Rows and columns that are many enough on every level; all with two threads and more, since rows are many.
const MatMulRow kStrassenRows[] = {
    {{181, 260}, {260, 530}, false, false, {530}, 1, 1, ActKind::kRelu},
    {{3, 64, 256}, {256, 512}},
    {{256, 200}, {512, 256}, true, true, {512}, 0.5, 2},
    {{90, 1548}, {1548, 520}, false, false, {520}, 1, 1, ActKind::kTanh},
};

TEST(MatMulStrassenF32, ManyRows) {
  if (!machine_has(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  for (const MatMulRow& r : kStrassenRows) {
    OpCase c = matmul_case(r, false);
    c.threaded = true;
    // Products of numbers up to 1 that are added in the order of the level-1 cache's size: a few roundings of each.
    const double depth = static_cast<double>(r.a[r.a.rank() - 1]);
    check_on_cpu(c, "matmul_strassen_f32", {std::ldexp(4 * depth, -24), 1e-5});
  }
}

/// Products by halves are never chosen where a caller asks for one order of sums.
TEST(MatMulStrassenF32, KeepsOneOrderByNotApplying) {
  const OpCase rows = matmul_case(kStrassenRows[1], false);
  KernelRunner runner(rows);
  const auto info = std::ranges::find(all_kernels(), std::string("matmul_strassen_f32"), &KernelInfo::name);
  ASSERT_NE(info, all_kernels().end());
  EXPECT_FALSE(runner.make(*info, best_isa().with(IsaFeature::kOneOrder), 1));
}

// Products of rounded operands are exact, alpha and beta powers of two.
TEST(MatMulBf16, RoundedOperands) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  for (const MatMulRow& r : kRows) {
    if (r.transpose_a) continue;
    OpCase c = matmul_case(r, false);
    for (const size_t i : {0, 1}) c.inputs[i] = rounded_to_bf16(c.inputs[i]);
    for (const Isa isa : bf16_isas()) check_named(c, "matmul_bf16", isa, kTolerance);
  }
}

}  // namespace
}  // namespace smelt
