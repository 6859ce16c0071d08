#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ops/gather/gather.h"
#include "passes/passes.h"
#include "tests/support/compare.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

using test::Forms;

/// Attention of x [batch, sequence, 32], 4 heads of 8, whose keys and values have 2, by torch's exporter: lists of
/// dimensions are put together from those of x. `repeats`: of each head of keys.
class OpenHeads {
 public:
  OpenHeads(Module& module, int64_t repeats) : f{Builder(module, 0)}, repeats_(repeats) {}
  /// Makes it graph 0 of the module.
  void build() {
    const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{-1, -1, 32}));
    const ValueId shape = f.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {x});
    batch_ = f.op(Op::kGather, make_attrs<GatherAttrs>(), {shape, f.b.i64({0})});
    length_ = f.op(Op::kGather, make_attrs<GatherAttrs>(), {shape, f.b.i64({1})});
    const ValueId q = heads(x, 4, 3), k = repeated(heads(x, 2, 4)), v = repeated(heads(x, 2, 5));
    const ValueId weights = f.softmax(f.mul(f.matmul(q, f.transpose(k, {0, 1, 3, 2})), 0.35));
    f.b.graph().outputs = {reshape(f.transpose(f.matmul(weights, v), {0, 2, 1, 3}), {batch_, length_, f.b.i64({32})})};
  }

 private:
  ValueId list(const std::vector<ValueId>& of) { return f.op(Op::kConcat, make_attrs<AxisAttrs>(0), of); }
  ValueId reshape(ValueId x, const std::vector<ValueId>& dims) {
    return f.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, list(dims)});
  }
  ValueId heads(ValueId x, int64_t count, uint32_t seed) {
    const ValueId w = f.b.constant("", test::random_tensor(DType::kF32, {32, count * 8}, -0.2, 0.2, seed));
    return f.transpose(reshape(f.matmul(x, w), {batch_, length_, f.b.i64({count}), f.b.i64({8})}), {0, 2, 1, 3});
  }
  ValueId repeated(ValueId x) {
    const ValueId dims = list({batch_, f.b.i64({2}), f.b.i64({repeats_}), length_, f.b.i64({8})});
    const ValueId rest =
        f.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kEqual), {dims, f.b.i64({-1, -1, -1, -1, -1})});
    const ValueId target = f.op(Op::kWhere, make_attrs<NoAttrs>(), {rest, f.b.i64({1, 1, 1, 1, 1}), dims});
    const ValueId apart = f.op(Op::kUnsqueeze, make_attrs<NoAttrs>(), {x, f.b.i64({2})});
    return reshape(f.op(Op::kExpand, make_attrs<NoAttrs>(), {apart, target}),
                   {batch_, f.b.i64({2 * repeats_}), length_, f.b.i64({8})});
  }

  Forms f;
  int64_t repeats_;
  ValueId batch_ = kNoValue, length_ = kNoValue;
};

TEST(RepeatedHeads, OfOpenShapesAreShared) {
  auto module = test::module_of_one_graph();
  OpenHeads(*module, 2).build();
  ASSERT_TRUE(verify(*module).ok());
  const Model model = ModelAccess::make(module);
  for (const int64_t batch : {1, 3}) {
    const std::vector<Datum> in{test::random_tensor(DType::kF32, {batch, 5, 32}, -1, 1, 1)};
    const auto want = test::run_on_reference(model, in);
    SessionOptions options;
    options.profile = true;
    auto session = Session::create(model, options);
    ASSERT_TRUE(session.ok());
    const auto got = session->run(in);
    ASSERT_TRUE(got.ok()) << got.error().message();
    test::expect_near((*got)[0].tensor, test::values(want.at(0).tensor), 1e-5, 1e-5);
    std::vector<std::string> ops;
    for (const ProfileEntry& e : session->profile()) ops.push_back(e.op);
    EXPECT_EQ(std::ranges::count(ops, "Attention"), 1);
    EXPECT_EQ(std::ranges::count(ops, "Expand"), 0);
  }
}

}  // namespace
}  // namespace smelt
