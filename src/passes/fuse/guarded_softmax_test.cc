#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ops/reduce/reduce.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Forms;
using test::kRowsOf24;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// where(not any(x != -inf), 0, softmax(x)).
ValueId guarded_softmax(Forms& f, ValueId x) {
  ReduceAttrs any;
  any.fn = Reduction::kAny;
  any.keep_dims = true;
  const ValueId shown = f.unary(Unary::kNot, f.binary(Binary::kEqual, x, -kInfinity));
  const ValueId hidden = f.unary(Unary::kNot, f.op(Op::kReduce, make_attrs<ReduceAttrs>(any), {shown, f.b.i64({-1})}));
  const ValueId zeros = f.b.constant("", Tensor(DType::kF32, Shape{2, 3, 5, 5}));
  return f.op(Op::kWhere, make_attrs<NoAttrs>(), {hidden, zeros, f.softmax(x)});
}

/// Scores [2, 3, 5, 5] of heads of x [2, 5, 24], whose products are of three dimensions; hidden: no row of the second
/// batch sees a key.
ValueId scores(Forms& f, ValueId heads, bool hidden) {
  const ValueId keys = f.reshape(f.transpose(heads, {0, 1, 3, 2}), {6, 8, 5});
  const ValueId y = f.reshape(f.matmul(f.reshape(heads, {6, 5, 8}), keys), {2, 3, 5, 5});
  if (!hidden) return y;
  Tensor mask(DType::kF32, Shape{2, 1, 1, 5});
  for (int64_t i = 5; i < 10; ++i) mask.data<float>()[i] = -kInfinity;
  return f.binary(Binary::kAdd, y, f.b.constant("", mask));
}

ValueId heads(Forms& f, ValueId x) { return f.transpose(f.reshape(x, {0, -1, 3, 8}), {0, 2, 1, 3}); }

TEST(GuardedSoftmax, AttentionNeedsNoGuard) {
  for (const bool hidden : {false, true})
    check_fused(kRowsOf24,
                [&](Forms& f, ValueId x) {
                  const ValueId q = heads(f, x);
                  const ValueId seen = f.reshape(guarded_softmax(f, scores(f, q, hidden)), {6, 5, 5});
                  return f.reshape(f.matmul(seen, f.reshape(q, {6, 5, 8})), {2, 3, 5, 8});
                },
                {"Attention"});
}

TEST(GuardedSoftmax, OthersKeepTheirs) {
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return guarded_softmax(f, scores(f, heads(f, x), true)); },
              {"MatMul", "Binary", "Binary", "Unary", "Reduce", "Unary", "Softmax", "Where"});
}

}  // namespace
}  // namespace smelt
