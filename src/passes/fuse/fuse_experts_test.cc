#include <gtest/gtest.h>

#include "ops/gather/gather.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// Experts 2, 0, 2 and 1 of 3, computed from x so that they are no constants: of rank 1, or of rank 2 for GatherND.
ValueId choice(Forms& f, ValueId x, bool column = false) {
  const ValueId zero = f.mul(f.mean(f.reshape(x, {1, -1})), 0.0);
  const ValueId ids = f.op(Op::kCast, make_attrs<CastAttrs>(DType::kI64),
                           {f.binary(Binary::kAdd, zero, f.b.constant("", floats({4, 1}, {2, 0, -1, 1})))});
  return column ? ids : f.reshape(ids, {4});
}

ValueId gathered(Forms& f, const Shape& matrices, ValueId ids, Op op = Op::kGather) {
  return f.op(op, make_attrs<GatherAttrs>(), {f.weights(matrices), ids});
}

TEST(FuseExperts, RowsTimesGatheredMatrices) {
  check_fused({4, 6},
              [](Forms& f, ValueId x) {
                return f.matmul(f.reshape(x, {4, 1, 6}), gathered(f, {3, 6, 5}, choice(f, x)));
              },
              {"Reduce", "Binary", "Binary", "Cast", "ExpertMatMul"});
  check_fused({4, 6},
              [](Forms& f, ValueId x) {
                return f.matmul(gathered(f, {3, 5, 6}, choice(f, x, true), Op::kGatherND), f.reshape(x, {4, 6, 1}));
              },
              {"Reduce", "Binary", "Binary", "Cast", "ExpertMatMul"});
  check_fused({1, 6},  // one row for all of them
              [](Forms& f, ValueId x) {
                return f.matmul(f.reshape(x, {1, 1, 6}), gathered(f, {3, 6, 5}, choice(f, x)));
              },
              {"Reduce", "Binary", "Binary", "Cast", "ExpertMatMul"});
}

TEST(FuseExperts, OtherProductsStay) {
  check_fused({4, 2, 6},  // several rows each
              [](Forms& f, ValueId x) {
                return f.matmul(x, gathered(f, {3, 6, 5}, choice(f, x)));
              },
              {"Reduce", "Binary", "Binary", "Cast", "Gather", "MatMul"});
  check_fused({4, 1, 6},  // another reader of the matrices
              [](Forms& f, ValueId x) {
                const ValueId m = gathered(f, {3, 6, 5}, choice(f, x));
                return f.binary(Binary::kAdd, f.matmul(x, m), m);
              },
              {"Reduce", "Binary", "Binary", "Cast", "Gather", "MatMul", "Binary"});
  check_fused({3, 6, 5},  // computed matrices
              [](Forms& f, ValueId x) {
                return f.matmul(f.weights({4, 1, 6}), f.op(Op::kGather, make_attrs<GatherAttrs>(), {x, choice(f, x)}));
              },
              {"Reduce", "Binary", "Binary", "Cast", "Gather", "MatMul"});
}

}  // namespace
}  // namespace smelt
