#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Experts {
  int64_t tokens, each, in, out, count;
  bool shared = true;
};

OpCase experts_case(const Experts& e, DType w) {
  OpCase c{Cat(e.tokens, " tokens, ", e.each, " of ", e.count, " experts, ", e.in, " to ", e.out, ' ', to_string(w)),
           Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(ExpertMatMulAttrs{})};
  c.inputs = {random_tensor(DType::kF32, e.shared ? Shape{e.tokens, e.in} : Shape{e.tokens, e.each, e.in}, -1, 1, 1),
              random_tensor(DType::kI64, {e.tokens, e.each}, 0, static_cast<double>(e.count - 1), 2)};
  for (int64_t i = 0; i < e.count; ++i) {
    Tensor m = random_tensor(w, {e.out, e.in}, w == DType::kF32 ? -1 : 0, w == DType::kF32 ? 1 : 15,
                             static_cast<uint32_t>(3 + i));
    if (w == DType::kU4) {
      auto q = std::make_shared<Quantization>();
      q->kind = Quantization::Kind::kPerBlock;
      q->axis = 1;
      q->block = e.in / 2;
      q->zero_points = {8};
      for (int64_t k = 0; k < 2 * e.out; ++k) q->scales.push_back(0.05f + 0.01f * static_cast<float>(k % 5));
      m.set_quant(q);
    }
    c.constants.push_back(c.inputs.size());
    c.inputs.push_back(std::move(m));
  }
  c.threaded = true;
  return c;
}

/// Rows of an expert: none, one, whole products, products with rows that are padded.
TEST(ExpertMatMulKernel, Rows) {
  for (const DType w : {DType::kF32, DType::kU4})
    for (const Experts& e : {Experts{1, 1, 32, 10, 3},
                             {1, 2, 64, 33, 4},
                             {5, 3, 32, 16, 2, false},
                             {19, 2, 48, 20, 5},
                             {40, 4, 32, 9, 8, false},
                             {300, 1, 16, 7, 1}})
      check_on_cpu(experts_case(e, w), "expert_matmul", {1e-5, 1e-5});
}

TEST(ExpertMatMulKernel, ColumnsAndBroadcasts) {
  for (const bool one_x : {false, true}) {
    ExpertMatMulAttrs a;
    a.transposed = false;
    OpCase c{one_x ? "one row" : "one choice", Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(a)};
    c.inputs = {random_tensor(DType::kF32, {one_x ? 1 : 21, 24}, -1, 1, 1),
                random_tensor(DType::kI64, {one_x ? 21 : 1, 2}, -2, 1, 2),
                random_tensor(DType::kF32, {24, 18}, -1, 1, 3), random_tensor(DType::kF32, {24, 18}, -1, 1, 4)};
    c.constants = {2, 3};
    check_on_cpu(c, "expert_matmul", {1e-5, 1e-5});
  }
}

/// The message is the reference's.
TEST(ExpertMatMulKernel, UnknownExpert) {
  OpCase c = experts_case({2, 1, 8, 4, 2}, DType::kF32);
  c.inputs[1].data<int64_t>()[1] = 2;
  check_fails_alike(c);
}

}  // namespace
}  // namespace smelt
