#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {

using test::random_tensor;

struct ThreeProducts {
  bool asymmetric = false;
  int64_t second_groups = 1;

  /// Three convolutions of one image, or three products of one matrix.
  std::shared_ptr<Module> convolutions() const {
    return make(Shape{2, 6, 5, 8}, Shape{2, 6, 5, 4}, Op::kConv, [&](int i) {
      ConvAttrs a;
      a.layout = Layout::kChannelsLast;
      a.filter = FilterLayout::kOSI;
      a.auto_pad = AutoPad::kSameUpper;
      a.dynamic_quant = true;
      a.asymmetric_inputs = asymmetric;
      const int64_t groups = i == 1 ? second_groups : 1, taps = i == 2 ? 3 : 1;
      a.groups = groups;
      return std::pair{make_attrs<ConvAttrs>(a), Shape{4, taps, taps, 8 / groups}};
    });
  }
  std::shared_ptr<Module> products() const {
    return make(Shape{3, 7, 16}, Shape{3, 7, 4}, Op::kMatMul, [&](int) {
      MatMulAttrs a;
      a.transpose_b = a.dynamic_quant = true;
      a.asymmetric_inputs = asymmetric;
      return std::pair{make_attrs<MatMulAttrs>(a), Shape{4, 16}};
    });
  }

 private:
  template <class F>
  static std::shared_ptr<Module> make(const Shape& from, const Shape& to, Op op, F&& node) {
    auto module = std::make_shared<Module>();
    module->graphs.resize(1);
    module->methods.push_back({"main", 0});
    Builder b(*module, 0);
    const ValueId x = b.input("x", ValueType::tensor(DType::kF32, from));
    std::vector<ValueId> results;
    for (int i = 0; i < 3; ++i) {
      const auto [attrs, shape] = node(i);
      Tensor w = random_tensor(DType::kI8, shape, -127, 127, static_cast<uint32_t>(i + 1));
      w.set_quant(test::per_tensor(0.02f, 0));
      results.push_back(b.value("y", ValueType::tensor(DType::kF32, to)));
      EXPECT_TRUE(b.node_to(op, attrs, {x, b.constant("w", w)}, {results.back()}).ok());
    }
    b.graph().outputs = results;
    EXPECT_TRUE(verify(*module).ok());
    return module;
  }
};

int quantizations(const Module& m) {
  int n = 0;
  for (const Node& node : m.graphs[0].nodes) n += node.op == Op::kQuantize;
  return n;
}

std::vector<Datum> results(const std::shared_ptr<const Module>& module, const Tensor& x, const SessionOptions& on) {
  auto session = Session::create(ModelAccess::make(module), on);
  EXPECT_TRUE(session.ok());
  auto out = session->run(std::vector<Datum>{x});
  EXPECT_TRUE(out.ok()) << out.error().message();
  return std::move(out).value();
}

/// The results of nodes that share a quantization are those of each node alone, which has nobody to share with:
/// within `tolerance`.
void expect_same(const std::shared_ptr<Module>& module, const SessionOptions& on, float tolerance) {
  const Graph& g = module->graphs[0];
  const Tensor x = random_tensor(DType::kF32, g.value(g.inputs[0]).type.shape, -2, 3, 7);
  const auto shared = share_dynamic_quantization(module);
  EXPECT_EQ(quantizations(*module), 0);
  EXPECT_EQ(quantizations(*shared), 1);
  EXPECT_TRUE(verify(*shared).ok());
  const auto all = results(shared, x, on);
  for (size_t i = 0; i < all.size(); ++i) {
    auto alone = std::make_shared<Module>(*module);
    alone->graphs[0].nodes = {g.nodes[i]};
    alone->graphs[0].outputs = {g.outputs[i]};
    const auto expected = results(alone, x, on);
    const Tensor &a = expected[0].tensor, &b = all[i].tensor;
    ASSERT_EQ(a.shape(), b.shape());
    for (int64_t k = 0; k < a.elements(); ++k)
      EXPECT_NEAR(a.data<float>()[k], b.data<float>()[k], tolerance) << i << ", " << k;
  }
}

TEST(ShareDynamicQuantization, GivesTheResultsOfEachNodeAlone) {
  for (const bool asymmetric : {false, true})
    for (const auto& module : {ThreeProducts{asymmetric}.convolutions(), ThreeProducts{asymmetric}.products()}) {
      expect_same(module, {.backend = BackendKind::kCpu}, 0);
      expect_same(module, {.backend = BackendKind::kReference}, 1e-4f);
    }
}

TEST(ShareDynamicQuantization, LeavesGroupsAndSingleReaders) {
  const auto grouped = share_dynamic_quantization(ThreeProducts{.second_groups = 2}.convolutions());
  EXPECT_EQ(quantizations(*grouped), 1);
  EXPECT_TRUE(static_cast<const ConvAttrs&>(*grouped->graphs[0].nodes[2].attrs).dynamic_quant);
  std::shared_ptr<Module> alone = ThreeProducts{}.products();
  alone->graphs[0].nodes.resize(1);
  alone->graphs[0].outputs.resize(1);
  EXPECT_EQ(share_dynamic_quantization(alone), alone);
}

}  // namespace
}  // namespace smelt
