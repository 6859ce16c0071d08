#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// `layers` products with a matrix, each with a sigmoid; float16 all through.
std::shared_ptr<Module> chain_of_products(DType dtype, int layers) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.25);
  ValueId x = b.input("x", ValueType::tensor(dtype, Shape{4, 32}));
  for (int i = 0; i < layers; ++i) {
    Tensor w(dtype, Shape{32, 32});
    for (int64_t k = 0; k < w.elements(); ++k) set_double(w, k, normal(random));
    x = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, b.constant("w", std::move(w))}).value();
    x = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64({4, 32})}).value();
    x = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value();
  }
  b.graph().outputs = {x};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

std::vector<double> run_chain(std::shared_ptr<const Module> module, bool strict) {
  SessionOptions options;
  options.strict_types = strict;
  auto session = Session::create(ModelAccess::make(module), options);
  EXPECT_TRUE(session.ok());
  const DType dtype = module->graphs[0].value(module->graphs[0].inputs[0]).type.dtype;
  Tensor x(dtype, Shape{4, 32});
  for (int64_t i = 0; i < x.elements(); ++i) set_double(x, i, std::sin(static_cast<double>(i)));
  auto out = session->run(std::vector<Datum>{x});
  EXPECT_TRUE(out.ok()) << out.error().message();
  const Tensor& y = (*out)[0].tensor;
  EXPECT_EQ(y.dtype(), dtype);
  std::vector<double> values(static_cast<size_t>(y.elements()));
  to_doubles(y, values.data());
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(WidenFloat16, ChainsKeepFloat32UnlessTypesAreStrict) {
  constexpr int kLayers = 24;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto module = chain_of_products(dtype, kLayers);
    // The exact result: the same numbers in float32.
    auto exact = std::make_shared<Module>(*module);
    for (Value& v : exact->graphs[0].values) {
      if (v.type.dtype != dtype) continue;
      v.type.dtype = DType::kF32;
      if (!v.constant) continue;
      auto wide = std::make_shared<Tensor>(DType::kF32, v.constant->shape());
      to_floats(*v.constant, wide->data<float>());
      v.constant = wide;
    }
    const auto want = run_chain(exact, true), loose = run_chain(module, false), strict = run_chain(module, true);
    const double half_step = dtype == DType::kF16 ? 2.5e-4 : 2e-3;  // of the result's own rounding, below 1
    EXPECT_LE(largest_difference(want, loose), 2 * half_step + (dtype == DType::kF16 ? 2e-3 : 2e-2) * 0.5);
    EXPECT_GT(largest_difference(want, strict), 2 * largest_difference(want, loose));
  }
}

TEST(WidenFloat16, CastsStandWhereTheGraphBeginsAndEnds) {
  auto module = chain_of_products(DType::kF16, 2);
  Graph& g = module->graphs[0];
  widen_float16(g);
  ASSERT_TRUE(verify(*module).ok()) << verify(*module).error().message();
  std::vector<Op> ops;
  for (const Node& n : g.nodes) ops.push_back(n.op);
  EXPECT_EQ(ops, (std::vector<Op>{Op::kCast, Op::kMatMul, Op::kReshape, Op::kUnary, Op::kMatMul, Op::kReshape,
                                  Op::kUnary, Op::kCast}));
  EXPECT_EQ(g.value(g.inputs[0]).type.dtype, DType::kF16);
  EXPECT_EQ(g.value(g.outputs[0]).type.dtype, DType::kF16);
  EXPECT_EQ(g.value(g.nodes[1].inputs[1]).type.dtype, DType::kF32);
}

TEST(WidenFloat16, EinsteinSumsAreFloat32) {
  Module module;
  module.graphs.resize(1);
  module.methods.push_back({"main", 0});
  Builder b(module, 0);
  EinsumAttrs a;
  a.equation = "nctv,vw->nctw";
  const ValueId x = b.input("x", ValueType::tensor(DType::kF16, Shape{2, 3, 4, 5}));
  const ValueId w = b.constant("w", Tensor(DType::kF16, Shape{5, 6}));
  const ValueId wide = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value();
  b.graph().outputs = {b.op(Op::kEinsum, make_attrs<EinsumAttrs>(a), {wide, w}).value()};
  Graph& g = module.graphs[0];
  widen_float16(g);
  ASSERT_TRUE(verify(module).ok()) << verify(module).error().message();
  std::vector<Op> ops;
  for (const Node& n : g.nodes) ops.push_back(n.op);
  EXPECT_EQ(ops, (std::vector<Op>{Op::kCast, Op::kUnary, Op::kEinsum, Op::kCast}));
}

TEST(WidenFloat16, Float32ConstantsThatAreCastStayAsTheyAre) {
  Module module;
  module.graphs.resize(1);
  module.methods.push_back({"main", 0});
  Builder b(module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF16, Shape{4, 5}));
  const ValueId w = b.constant("w", Tensor(DType::kF32, Shape{5, 6}));
  const ValueId narrow = b.op(Op::kCast, make_attrs<CastAttrs>(DType::kF16), {w}).value();
  b.graph().outputs = {b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, narrow}).value(), narrow};
  Graph& g = module.graphs[0];
  widen_float16(g);
  ASSERT_TRUE(verify(module).ok()) << verify(module).error().message();
  std::vector<Op> ops;
  for (const Node& n : g.nodes) ops.push_back(n.op);
  EXPECT_EQ(ops, (std::vector<Op>{Op::kCast, Op::kMatMul, Op::kCast, Op::kCast}));
  EXPECT_EQ(g.value(g.nodes[1].inputs[1]).constant, g.value(w).constant);
}

TEST(WidenFloat16, LargeConstantsAreMadeWhenTheyAreRead) {
  Module module;
  module.graphs.resize(1);
  module.methods.push_back({"main", 0});
  Builder b(module, 0);
  Tensor weights(DType::kF16, Shape{32, 48});
  set_double(weights, 100, 0.25);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF16, Shape{4, 32}));
  const ValueId w = b.constant("w", std::move(weights));
  b.graph().outputs = {b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, w}).value()};
  Graph& g = module.graphs[0];
  widen_float16(g);
  ASSERT_EQ(g.nodes.size(), 3U);
  const Tensor& wide = *g.value(g.nodes[1].inputs[1]).constant;
  EXPECT_NE(wide.source(), nullptr);
  EXPECT_EQ(wide.dtype(), DType::kF32);
  EXPECT_EQ(wide.read_once().data<float>()[100], 0.25f);
  float part[2];
  wide.copy_elements(99, 2, part);
  EXPECT_EQ(part[1], 0.25f);
}

TEST(WidenFloat16, FloatGraphsStayAsTheyAre) {
  auto module = chain_of_products(DType::kF32, 2);
  const size_t nodes = module->graphs[0].nodes.size(), values = module->graphs[0].values.size();
  widen_float16(module->graphs[0]);
  EXPECT_EQ(module->graphs[0].nodes.size(), nodes);
  EXPECT_EQ(module->graphs[0].values.size(), values);
}

}  // namespace
}  // namespace smelt
