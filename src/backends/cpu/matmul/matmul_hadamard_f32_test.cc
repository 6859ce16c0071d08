#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Rotation {
  int64_t m, n;
  bool bias = false;
  ActKind act = ActKind::kNone;
};
const Rotation kRotations[] = {{1, 16}, {5, 32}, {3, 64, true}, {33, 128}, {2, 512, true, ActKind::kRelu}, {4, 2048}};

OpCase rotation(const Rotation& r, bool transpose, Tensor matrix) {
  MatMulAttrs a;
  a.transpose_b = transpose;
  a.act.kind = r.act;
  OpCase c{Cat("rotation ", r.m, " x ", r.n, transpose ? ", transposed" : ""),
           Op::kMatMul,
           make_attrs<MatMulAttrs>(a),
           {random_tensor(DType::kF32, {r.m, r.n}, -1, 1, 1), std::move(matrix)},
           {1}};
  if (r.bias) c.inputs.push_back(random_tensor(DType::kF32, {r.n}, -1, 1, 3));
  c.threaded = true;
  return c;
}

TEST(HadamardProduct, IsThatOfTheMatrix) {
  for (const Rotation& r : kRotations)
    for (const bool transpose : {false, true})
      check_on_cpu(rotation(r, transpose, hadamard(r.n, r.n == 64 ? -0.125f : 0.0625f)), "matmul_hadamard_f32", 1e-5);
}

TEST(HadamardProduct, OfAnyOtherMatrixIsRefused) {
  constexpr int64_t kRows = 64;
  for (const int64_t changed : {0, 1, 63, 64 * 40 + 17, 64 * 64 - 1}) {
    Tensor matrix = hadamard(kRows, 0.125f);
    matrix.data<float>()[changed] *= -1;
    const OpCase c = rotation({4, kRows}, true, std::move(matrix));
    KernelRunner runner(c);
    ASSERT_TRUE(runner.shape_error().ok());
    for (const KernelInfo& info : all_kernels())
      if (std::string_view(info.name) == "matmul_hadamard_f32") {
        EXPECT_FALSE(runner.make(info, best_isa(), 1)) << changed;
      }
    check_on_cpu(c);
  }
}

}  // namespace
}  // namespace smelt
