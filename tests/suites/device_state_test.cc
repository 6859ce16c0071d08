// Variables that stay on the device from run to run.
#include <gtest/gtest.h>

#include <optional>

#include "backends/vulkan/device/backend.h"
#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "runtime/compiled.h"
#include "runtime/model_access.h"
#include "runtime/planned_environment.h"
#include "smelt/model.h"
#include "tests/support/vulkan_check.h"
#include "tests/support/vulkan_fake_calls.h"

namespace smelt {
namespace {

/// Methods on one variable [3, 3]: "add" adds its input and gives the total; "det" reads the total on the host (there
/// is no kernel for determinants on the device); "set" writes its input into it on the host.
std::shared_ptr<Module> counter() {
  auto module = std::make_shared<Module>();
  const ValueType type = ValueType::tensor(DType::kF32, Shape{3, 3});
  module->states.push_back({.name = "total", .type = type});
  module->graphs.resize(3);
  module->methods = {{"add", 0}, {"det", 1}, {"set", 2}};
  for (int graph = 0; graph < 3; ++graph) {
    Builder b(*module, graph);
    const ValueId x = b.input("x", type);
    ValueId out = x;
    if (graph < 2) out = b.op(Op::kStateRead, make_attrs<StateAttrs>(0), {}).value();
    if (graph == 0) out = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {out, x}).value();
    if (graph != 1) {
      EXPECT_TRUE(b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(0), {out}, {}).ok());
    }
    if (graph == 1) out = b.op(Op::kDet, make_attrs<NoAttrs>(), {out}).value();
    b.graph().outputs.push_back(out);
  }
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

class DeviceState : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) staging_.emplace("SMELT_VULKAN_STAGING", "1");
    auto opened = vulkan::open_device(-1);
    if (!opened.ok()) GTEST_SKIP() << "no Vulkan device: " << opened.error().message();
    SessionOptions options;
    options.backend = BackendKind::kVulkan;
    const auto module = counter();
    const auto backends = open_backends(options);
    ASSERT_TRUE(backends.ok());
    environment_ = std::make_unique<PlannedEnvironment>(module, options, Compiled(module).models(*backends));
  }

  /// Runs a method on the unit matrix times x; an element of the diagonal of what comes out.
  float run(int graph, float x) {
    const float unit[] = {x, 0, 0, 0, x, 0, 0, 0, x};
    const std::vector<Datum> in{Tensor::from<float>(DType::kF32, Shape{3, 3}, unit)};
    std::vector<Datum> out;
    environment_->control.begin(environment_->options, environment_->size, in);
    const Status s = environment_->run(graph, in, {}, out);
    EXPECT_TRUE(s.ok()) << s.error().message();
    return s.ok() ? out[0].tensor.data<float>()[0] : -1;
  }
  uint64_t copies() const { return environment_->device()->state_copies(); }
  std::optional<vulkan::Forced> staging_;
  std::unique_ptr<PlannedEnvironment> environment_;
};

TEST_P(DeviceState, CrossesOnlyWhenTheOtherSideReads) {
  EXPECT_EQ(run(0, 1), 1);
  EXPECT_EQ(copies(), 1u) << "the initial content goes up";
  for (int i = 2; i < 6; ++i) EXPECT_EQ(run(0, 1), i);
  EXPECT_EQ(copies(), 1u) << "and stays";
  EXPECT_EQ(run(1, 0), 125);
  EXPECT_EQ(copies(), 2u) << "a method on the host fetches it";
  EXPECT_EQ(run(1, 0), 125);
  EXPECT_EQ(run(0, 1), 6);
  EXPECT_EQ(copies(), 2u) << "both copies were good";
  EXPECT_EQ(run(2, 10), 10);
  EXPECT_EQ(run(1, 0), 1000);
  EXPECT_EQ(copies(), 2u) << "the host reads what the host wrote";
  EXPECT_EQ(run(0, 1), 11);
  EXPECT_EQ(copies(), 3u);
  environment_->reset_state();
  EXPECT_EQ(run(1, 0), 0);
  EXPECT_EQ(run(0, 2), 2);
  EXPECT_EQ(run(1, 0), 8);
}

TEST_P(DeviceState, ARunCopiesInputsAndOutputsOnly) {
  run(0, 1);
  const Plan& plan = *environment_->latest(0);
  EXPECT_EQ(plan.device().copies.up, 1u);
  EXPECT_EQ(plan.device().copies.bytes_up, 36u);
  EXPECT_EQ(plan.device().copies.down, 1u);
  EXPECT_EQ(plan.device().copies.bytes_down, 36u);
  size_t there = 0;
  for (const Step& s : plan.steps()) there += s.is<DeviceStep>();
  EXPECT_EQ(there, 2u);
}

INSTANTIATE_TEST_SUITE_P(Memory, DeviceState, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Staged" : "Shared"; });

template <auto... Entries>
struct Counted {
  std::tuple<vulkan::FakeCall<Entries>...> calls;
  int count() const {
    return std::apply([](const auto&... c) { return (c.count() + ...); }, calls);
  }
};

TEST(DeviceObjects, ALaterRunMakesNoVulkanObjects) {
  SKIP_WITHOUT_GPU();
  auto session = Session::create(ModelAccess::make(counter()), {.backend = BackendKind::kVulkan});
  ASSERT_TRUE(session.ok());
  const std::vector<float> values(9, 0.5f);
  const std::vector<Datum> inputs{Tensor::from<float>(DType::kF32, Shape{3, 3}, values)};
  ASSERT_TRUE(session->run_in_place("add", inputs).ok());
  const Counted<&vkAllocateMemory, &vkCreateBuffer, &vkCreateShaderModule, &vkCreateComputePipelines,
                &vkCreateDescriptorPool, &vkAllocateDescriptorSets, &vkCreateCommandPool, &vkAllocateCommandBuffers,
                &vkBeginCommandBuffer, &vkCreateFence, &vkCreateQueryPool, &vkMapMemory>
      made;
  const vulkan::FakeCall<&vkQueueSubmit> submitted;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(session->run_in_place("add", inputs).ok());
  EXPECT_EQ(made.count(), 0);
  EXPECT_EQ(submitted.count(), 5) << "one submission a run";
}

}  // namespace
}  // namespace smelt
