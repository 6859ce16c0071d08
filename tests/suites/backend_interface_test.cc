// A third back-end behind the interface of backends/backend.h: "adder" runs additions of float32 tensors of one shape
// in memory of its own. A plan mixes it with the CPU's kernels and the reference kernels.
#include <gtest/gtest.h>

#include <map>

#include "backends/backend.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "runtime/compiled.h"
#include "runtime/planned_environment.h"

namespace smelt {
namespace {

/// The memory of one plan, by value.
using AdderMemory = std::map<ValueId, std::vector<float>>;

class AdderSegment final : public Segment {
 public:
  AdderSegment(std::vector<const Node*> nodes, std::shared_ptr<AdderMemory> memory)
      : nodes_(std::move(nodes)), memory_(std::move(memory)) {}
  Status run(KernelContext& context, std::span<const Datum> values) override {
    for (const Node* n : nodes_) {
      SMELT_TRY(context.tick());
      const float* a = operand(n->inputs[0], values);
      const float* b = operand(n->inputs[1], values);
      std::vector<float>& sum = memory_->at(n->outputs[0]);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
    }
    return Ok();
  }

 private:
  const float* operand(ValueId id, std::span<const Datum> values) const {
    const auto here = memory_->find(id);
    return here != memory_->end() ? here->second.data() : values[static_cast<size_t>(id)].tensor.data<float>();
  }
  std::vector<const Node*> nodes_;
  std::shared_ptr<AdderMemory> memory_;
};

class AdderCompiler final : public PlanCompiler {
 public:
  std::unique_ptr<PreparedNode> prepare(const NodeRequest& n, std::string* why) override {
    const bool add = n.node.op == Op::kBinary && n.attrs<BinaryAttrs>().fn == Binary::kAdd;
    const bool fits = add && n.outputs[0].dtype == DType::kF32 && n.inputs[0].shape == n.inputs[1].shape;
    if (fits) return std::make_unique<PreparedNode>();
    if (why) *why = "not an addition of float32 tensors of one shape";
    return nullptr;
  }
  Result<CompiledPlan> compile(const PlanOutline& plan) override {
    CompiledPlan out;
    out.nodes.resize(plan.nodes.size());
    const auto memory = std::make_shared<AdderMemory>();
    for (const NodeRange& p : plan.partitions) {
      std::vector<const Node*> nodes;
      for (auto k = static_cast<size_t>(p.first); k <= static_cast<size_t>(p.last); ++k) {
        if (plan.nodes[k].placement != Placement::kHere) continue;
        nodes.push_back(plan.nodes[k].node);
        out.nodes[k].kernel = "adder:add";
        const ValueId id = nodes.back()->outputs[0];
        auto& sum = (*memory)[id];
        sum.resize(static_cast<size_t>(plan.values[static_cast<size_t>(id)].type->shape.elements()));
        out.views.push_back({id, sum.data()});
        out.use.arena_bytes += sum.size() * sizeof(float);
      }
      out.segments.push_back(std::make_shared<AdderSegment>(std::move(nodes), memory));
    }
    return out;
  }
};

class AdderSession final : public BackendSession {
 public:
  MemorySpace memory() const override { return MemorySpace::kDevice; }
  std::unique_ptr<PlanCompiler> begin_plan(const std::function<Status(size_t)>&) override {
    return std::make_unique<AdderCompiler>();
  }
};

class AdderModel final : public BackendModel {
 public:
  std::unique_ptr<BackendSession> make_session(const SessionOptions&, int) override {
    return std::make_unique<AdderSession>();
  }
  size_t weight_bytes() const override { return 0; }
};

class AdderBackend final : public Backend {
 public:
  const char* name() const override { return "adder"; }
  MemorySpace memory() const override { return MemorySpace::kDevice; }
  Result<std::shared_ptr<BackendDevice>> open(const SessionOptions&) const override {
    return std::make_shared<BackendDevice>();
  }
  std::shared_ptr<BackendModel> make_model(std::shared_ptr<BackendDevice>, CompileMode) const override {
    return std::make_shared<AdderModel>();
  }
};

/// x -> x + x -> + x (two additions in a row) -> matrix product -> + x.
std::shared_ptr<Module> sums() {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods = {{"main", 0}};
  Builder b(*module, 0);
  const auto add = [&](ValueId x, ValueId y) {
    return b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, y}).value();
  };
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2, 2}));
  const ValueId three = add(add(x, x), x);
  const ValueId product = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {three, x}).value();
  b.graph().outputs = {add(product, x)};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

TEST(BackendInterface, APlanMixesAThirdBackendWithTheHost) {
  static const AdderBackend adder;
  const RegisteredBackend registered(adder);
  ASSERT_EQ(find_backend("adder"), &adder);
  const SessionOptions options{.backend = "adder", .profile = true};
  auto backends = open_backends(options);
  ASSERT_TRUE(backends.ok());
  ASSERT_EQ(backends->front().backend, &adder);
  const auto module = sums();
  const float identity[] = {2, 0, 0, 2};
  const std::vector<Datum> in{Tensor::from<float>(DType::kF32, Shape{2, 2}, identity)};
  for (const bool cpu : {true, false}) {
    if (!cpu) backends->resize(1);
    PlannedEnvironment env(module, options, Compiled(module).models(*backends));
    for (int run = 0; run < 2; ++run) {
      std::vector<Datum> out;
      env.control.begin(options, env.size, in);
      ASSERT_TRUE(env.run(0, in, {}, out).ok());
      EXPECT_EQ(out[0].tensor.data<float>()[0], 14);
      EXPECT_EQ(out[0].tensor.data<float>()[1], 0);
    }
    const std::vector<Step>& steps = env.latest(0)->steps();
    ASSERT_EQ(steps.size(), 4u);
    for (const size_t k : {0, 1, 3}) EXPECT_STREQ(steps[k].kernel_name(), "adder:add");
    EXPECT_EQ(std::get<SegmentStep>(steps[1].work).segment, nullptr) << "the first of a partition runs it";
    EXPECT_NE(std::get<SegmentStep>(steps[3].work).segment, nullptr);
    EXPECT_EQ(steps[2].is<SegmentStep>(), cpu) << "else the reference kernel";
    EXPECT_EQ(steps[2].host_reason, "not an addition of float32 tensors of one shape");
    EXPECT_EQ(steps[0].calls, 2u);
    EXPECT_EQ(env.latest(0)->device().arena_bytes, 3 * sizeof(identity));
  }
}

}  // namespace
}  // namespace smelt
