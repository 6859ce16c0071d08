#include <gtest/gtest.h>

#include <vector>

#include "passes/passes.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Forms;
using test::kRowsOf24;

ValueId where(Forms& f, ValueId condition, ValueId a, ValueId b) {
  return f.op(Op::kWhere, make_attrs<NoAttrs>(), {condition, a, b});
}

ValueId sum(Forms& f, ValueId x, int64_t axis) {
  ReduceAttrs a;
  a.keep_dims = true;
  return f.op(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, f.b.i64({axis})});
}

TEST(SpelledOut, SlopesOfWhatIsNegative) {
  check_fused(
      kRowsOf24,
      [](Forms& f, ValueId x) { return where(f, f.binary(Binary::kLess, x, 0.0), f.mul(x, f.weights({24})), x); },
      {"Binary"});
  check_fused(
      kRowsOf24,
      [](Forms& f, ValueId x) { return where(f, f.binary(Binary::kGreater, x, 0.0), x, f.mul(f.weights({}), x)); },
      {"Binary"});
  const std::vector<std::string> apart{"Binary", "Binary", "Where"};
  check_fused(
      kRowsOf24,  // the other sign
      [](Forms& f, ValueId x) { return where(f, f.binary(Binary::kGreater, x, 0.0), f.mul(x, f.weights({24})), x); },
      apart);
  check_fused(
      kRowsOf24,  // another bound
      [](Forms& f, ValueId x) { return where(f, f.binary(Binary::kLess, x, 1.0), f.mul(x, f.weights({24})), x); },
      apart);
  check_fused(
      {5, 24},  // the slopes enlarge x
      [](Forms& f, ValueId x) {
        return where(f, f.binary(Binary::kLess, x, 0.0), f.mul(x, f.weights({2, 5, 24})), x);
      },
      apart);
}

TEST(SpelledOut, NormsOfRows) {
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return f.unary(Unary::kSqrt, sum(f, f.mul(x, x), -1)); },
              {"Reduce"});
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return sum(f, f.unary(Unary::kSquare, x), 2); }, {"Reduce"});
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return f.unary(Unary::kSqrt, sum(f, f.mul(x, x), 1)); },
              {"Binary", "Reduce", "Unary"});
  check_fused(kRowsOf24, [](Forms& f, ValueId x) { return sum(f, f.mul(x, f.add(x, 1)), -1); },
              {"Binary", "Binary", "Reduce"});
  check_fused(kRowsOf24,  // the sum is read twice
              [](Forms& f, ValueId x) {
                const ValueId squares = sum(f, f.mul(x, x), -1);
                return f.binary(Binary::kDiv, f.unary(Unary::kSqrt, squares), squares);
              },
              {"Reduce", "Unary", "Binary"});
}

/// x with its mean row in place of its row of the greatest mean, set as TensorFlow Lite sets an item of a list; the
/// rows behind it are from `step` rows behind it on.
ValueId with_item(Forms& f, ValueId x, int64_t step) {
  const ValueId i = f.op(Op::kArgReduce, make_attrs<ArgReduceAttrs>(), {f.reshape(f.mean(x), {6})});
  const ValueId next = f.binary(Binary::kAdd, i, f.b.i64_scalar(step));
  const auto numbers = [&](ValueId first, int64_t rest) {
    return f.op(Op::kConcat, make_attrs<AxisAttrs>(0), {f.reshape(first, {1}), f.b.i64({rest})});
  };
  const auto slice = [&](ValueId begin, ValueId size) {
    return f.op(Op::kSliceSize, make_attrs<NoAttrs>(), {x, begin, size});
  };
  const ValueId item = f.reshape(f.unary(Unary::kTanh, f.reshape(f.mean(x, 0), {24})), {1, 24});
  return f.op(Op::kConcat, make_attrs<AxisAttrs>(0),
              {slice(f.b.i64({0, 0}), numbers(i, -1)), item, slice(numbers(next, 0), f.b.i64({-1, -1}))});
}

TEST(SpelledOut, ItemsOfLists) {
  check_fused({6, 24}, [](Forms& f, ValueId x) { return with_item(f, x, 1); },
              {"Reduce", "ArgReduce", "Reduce", "Unary", "ScatterND"});
  check_fused(
      {6, 24}, [](Forms& f, ValueId x) { return with_item(f, x, 0); },  // the list grows
      {"Reduce", "ArgReduce", "Binary", "Reduce", "Unary", "Concat", "SliceSize", "Concat", "SliceSize", "Concat"});
}

/// The sum of products of x * weights of shape a and weights of shape b.
test::Form einsum(const char* equation, const Shape& a, const Shape& b) {
  return [=](Forms& f, ValueId x) {
    EinsumAttrs e;
    e.equation = equation;
    const ValueId left = f.binary(Binary::kMul, x, f.weights(a)), right = f.weights(b, 5);
    return f.op(Op::kEinsum, make_attrs<EinsumAttrs>(e), {left, right});
  };
}
Op einsum_becomes(const test::Form& form) {
  Module module;
  module.graphs.resize(1);
  Forms f{Builder(module, 0)};
  Graph& graph = module.graphs[0];
  graph.outputs = {form(f, f.b.input("x", ValueType::tensor(DType::kF32, Shape{1})))};
  recompose(graph);
  return graph.nodes.back().op;
}

TEST(SpelledOut, SumsOfProductsOfMatrices) {
  for (const auto& form : {
           einsum("bhid,bhjd->bhij", {2, 3, 5, 4}, {2, 3, 7, 4}),
           einsum("bhij, bhjd -> bhid", {2, 3, 5, 4}, {2, 3, 4, 7}),
           einsum("...jd,...id->...ij", {2, 7, 4}, {2, 5, 4}),  // the right one comes first
           einsum("ij,jk", {5, 4}, {4, 7}),
           einsum("bid,bjd->bij", {2, 5, 4}, {1, 7, 4}),  // one batch for all
           einsum("bid,bjd->bji", {2, 5, 4}, {2, 7, 4}),
       }) {
    EXPECT_EQ(einsum_becomes(form), Op::kMatMul);
    check_fused({1}, form, {"Binary", "MatMul"});
  }
  for (const auto& form : {einsum("bdi,bdj->bij", {2, 4, 5}, {2, 4, 7}), einsum("bid,hjd->bhij", {2, 5, 4}, {3, 7, 4}),
                           einsum("bid,bjd->bij", {2, 5, 4}, {2, 7, 1}), einsum("bid,bid->bid", {2, 5, 4}, {2, 5, 4})})
    EXPECT_EQ(einsum_becomes(form), Op::kEinsum);
}

}  // namespace
}  // namespace smelt
