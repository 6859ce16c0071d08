#include "runtime/arena_items.h"

#include <gtest/gtest.h>
#include <smelt/model.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "runtime/compiled.h"
#include "runtime/model_access.h"
#include "runtime/planned_environment.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// What is an output of the model beside the result.
enum class Shown : uint8_t { kNothing, kWhole, kPart, kViewOfPart };

/// The three parts of tanh(x), along `axis`, of which the last is parted again: a * b - its second half.
Model parted(const Shape& shape, int64_t axis, Shown shown) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const auto unary = [&](Unary fn, ValueId x) { return b.op(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}).value(); };
  const auto binary = [&](Binary fn, ValueId x, ValueId y) {
    return b.op(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y}).value();
  };
  const ValueId whole = unary(Unary::kTanh, b.input("x", ValueType::tensor(DType::kF32, shape)));
  SplitAttrs split;
  split.axis = axis;
  split.count = 3;
  const auto parts = b.node(Op::kSplit, make_attrs<SplitAttrs>(split), {whole}, 3).value();
  const int64_t last = shape.elements() / 3;
  const ValueId flat = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {parts[2], b.i64({last})}).value();
  const ValueId half =
      b.op(Op::kSlice, make_attrs<NoAttrs>(), {flat, b.i64({last / 2}), b.i64({last}), b.i64({0})}).value();
  const ValueId product = binary(Binary::kMul, unary(Unary::kExp, parts[0]), unary(Unary::kSin, parts[1]));
  const ValueId rows = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {product, b.i64({2, last / 2})}).value();
  b.graph().outputs = {binary(Binary::kSub, rows, half)};
  if (shown == Shown::kWhole) b.graph().outputs.push_back(whole);
  if (shown == Shown::kPart) b.graph().outputs.push_back(parts[1]);
  if (shown == Shown::kViewOfPart) b.graph().outputs.push_back(flat);
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

/// Results of two runs are those of the reference. Returns the operators whose nodes copy.
std::vector<std::string> copying(const Shape& shape, int64_t axis, Shown shown) {
  SessionOptions options, reference;
  options.profile = true;
  reference.backend = BackendKind::kReference;
  auto session = Session::create(parted(shape, axis, shown), options).value();
  auto expected = Session::create(parted(shape, axis, shown), reference).value();
  for (const unsigned seed : {1u, 2u}) {
    const std::vector<Datum> in{test::random_tensor(DType::kF32, shape, -1, 1, seed)};
    const auto want = expected.run(in).value(), got = session.run(in).value();
    for (size_t i = 0; i < want.size(); ++i)
      for (int64_t k = 0; k < want[i].tensor.elements(); ++k)
        EXPECT_NEAR(got[i].tensor.data<float>()[k], want[i].tensor.data<float>()[k], 1e-6)
            << "output " << i << " element " << k;
  }
  std::vector<std::string> ops;
  for (const ProfileEntry& e : session.profile())
    if (e.kernel == "strided_copy") ops.push_back(e.op);
  return ops;
}

TEST(ArenaItems, PartsLieWhereTheirValueDoes) {
  const std::vector<std::string> none, split{"Split"}, both{"Split", "Slice"};
  EXPECT_EQ(copying({1, 96}, 1, Shown::kNothing), none);
  EXPECT_EQ(copying({6, 16}, 0, Shown::kNothing), none);
  EXPECT_EQ(copying({2, 48}, 1, Shown::kNothing), split);  // parts of rows
  EXPECT_EQ(copying({1, 96}, 1, Shown::kWhole), split);    // outputs may move
  EXPECT_EQ(copying({1, 96}, 1, Shown::kPart), split);
  EXPECT_EQ(copying({1, 96}, 1, Shown::kViewOfPart), both);
}

/// Who else reads u.
enum class Reader : uint8_t { kNone, kLater, kCaller };

/// With int8 values u = p + q and v = tanh(u): the first 16 elements of v + q, for kLater of v + q + u.
Model sum(const Shape& shape, Reader reader) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueType type = ValueType::tensor(DType::kI8, shape, test::per_tensor(0.02f, 3, Rounding::kFixedDouble));
  const auto node = [&](Op op, const std::shared_ptr<const Attrs>& attrs, const std::vector<ValueId>& in) {
    const ValueId y = b.value("", type);
    EXPECT_TRUE(b.node_to(op, attrs, in, {y}).ok());
    return y;
  };
  BinaryAttrs fixed(Binary::kAdd);
  fixed.rounding = Rounding::kFixedDouble;
  const auto add = make_attrs<BinaryAttrs>(fixed);
  const ValueId p = b.input("p", type), q = b.input("q", type), u = node(Op::kBinary, add, {p, q}),
                v = node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {u});
  ValueId w = node(Op::kBinary, add, {v, q});
  if (reader == Reader::kLater) w = node(Op::kBinary, add, {w, u});
  b.graph().outputs = {b.op(Op::kSlice, make_attrs<NoAttrs>(), {w, b.i64({0}), b.i64({16}), b.i64({0})}).value()};
  if (reader == Reader::kCaller) b.graph().outputs.push_back(u);
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

TEST(ArenaItems, ResultsTakeThePlaceOfWhatNothingReads) {
  constexpr int64_t kBytes = 4096;
  for (const auto& [reader, values] : {std::pair{Reader::kNone, 1}, {Reader::kLater, 2}, {Reader::kCaller, 2}}) {
    SessionOptions reference;
    reference.backend = BackendKind::kReference;
    auto session = Session::create(sum({kBytes}, reader), {}).value();
    auto expected = Session::create(sum({kBytes}, reader), reference).value();
    for (const unsigned seed : {1u, 2u}) {
      const std::vector<Datum> in{test::random_quantized(DType::kI8, {kBytes}, 0.02f, 3, seed),
                                  test::random_quantized(DType::kI8, {kBytes}, 0.02f, 3, seed + 2)};
      const auto want = expected.run(in).value(), got = session.run(in).value();
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(test::values(got[i].tensor), test::values(want[i].tensor)) << "output " << i;
    }
    EXPECT_EQ(session.arena_bytes() / static_cast<size_t>(kBytes), static_cast<size_t>(values));
  }
}

/// -x by columns of int8, rows quantized at run time: their copy is what the product needs beside its operands.
TEST(ArenaItems, LargeScratchMemoryLiesInTheArena) {
  const Shape shape{1024, 512};
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, shape));
  Tensor w = test::random_tensor(DType::kI8, Shape{16, 512}, -127, 127, 2);
  w.set_quant(test::per_tensor(0.01f, 0));
  MatMulAttrs product;
  product.transpose_b = product.dynamic_quant = true;
  const ValueId t = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {x}).value();
  const ValueId y = b.value("y", ValueType::tensor(DType::kF32, Shape{1024, 16}));
  ASSERT_TRUE(b.node_to(Op::kMatMul, make_attrs<MatMulAttrs>(product), {t, b.constant("w", w)}, {y}).ok());
  b.graph().outputs = {y};
  ASSERT_TRUE(verify(*module).ok());
  const SessionOptions options;
  PlannedEnvironment env(module, options, Compiled(module).models(*open_backends(options)));
  for (const unsigned seed : {1u, 2u}) {
    const std::vector<Datum> in{test::random_tensor(DType::kF32, shape, -1, 1, seed)};
    const Tensor expected = test::run_on_reference(module, in[0].tensor);
    std::vector<Datum> out;
    env.control.begin(options, env.size, in);
    ASSERT_TRUE(env.run(0, in, {}, out).ok());
    for (int64_t i = 0; i < expected.elements(); ++i)
      ASSERT_NEAR(out[0].tensor.data<float>()[i], expected.data<float>()[i], 1e-4) << i;
  }
  const Step& step = env.latest(0)->steps().back();
  EXPECT_GE(step.scratch_bytes(), ArenaItems::kLargeScratch);
  EXPECT_GE(step.scratch.size(), step.scratch_bytes());
  EXPECT_GE(env.latest(0)->arena_bytes(), static_cast<size_t>(shape.elements()) * 4 + step.scratch.size());
}

}  // namespace
}  // namespace smelt
