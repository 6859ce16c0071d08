// What a device does wrong comes back as errors, and later sessions start afresh.
#include <gtest/gtest.h>

#include <chrono>

#include "backends/vulkan/device/device.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/model_access.h"
#include "tests/support/vulkan_check.h"
#include "tests/support/vulkan_fake_calls.h"

namespace smelt::vulkan {
namespace {

/// y = x + 1
Model small_model() {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueType type = ValueType::tensor(DType::kF32, Shape{64});
  const std::vector<float> ones(64, 1);
  const ValueId x = b.input("x", type), one = b.constant("one", Tensor::from<float>(DType::kF32, Shape{64}, ones));
  b.graph().outputs.push_back(b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, one}).value());
  return ModelAccess::make(std::move(module));
}

Result<Session> open(const Model& model, double seconds = 0) {
  SessionOptions options;
  options.backend = BackendKind::kVulkan;
  options.limit_seconds = seconds;
  return Session::create(model, options);
}

Status run(Session& session) {
  const std::vector<float> x(64, 2);
  SMELT_ASSIGN(const auto out, session.run(std::vector<Datum>{Tensor::from<float>(DType::kF32, Shape{64}, x)}));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[0].tensor.data<float>()[i], 3);
  return Ok();
}

/// A session on a device that fails in `fake`'s life: the error, the device gone, and a fresh one for others.
template <class Fake, class R>
void lose(R result) {
  const Model model = small_model();
  auto session = open(model), other = open(model);
  ASSERT_TRUE(session.ok() && other.ok());
  ASSERT_TRUE(run(*session).ok());
  {
    auto device = Device::open(-1);
    ASSERT_TRUE(device.ok());
    Fake fake(result);
    // A lost device works on nothing any more; this one, which is none, must have finished.
    fake.before([&] { vkDeviceWaitIdle((*device)->handle()); });
    const Status s = run(*session);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code(), ErrorCode::kDevice) << s.error().message();
    EXPECT_NE(s.error().message().find("VK_ERROR_DEVICE_LOST"), std::string::npos) << s.error().message();
  }
  for (Session* s : {&*session, &*other, &*session}) {
    const Status again = run(*s);
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().code(), ErrorCode::kDevice);
    EXPECT_NE(again.error().message().find("was lost"), std::string::npos) << again.error().message();
  }
  auto fresh = open(model);
  ASSERT_TRUE(fresh.ok());
  EXPECT_TRUE(run(*fresh).ok());
}

TEST(VulkanFailure, LostWhenSubmitting) {
  SKIP_WITHOUT_GPU();
  shared_device().reset();
  lose<FakeCall<&vkQueueSubmit>>(VK_ERROR_DEVICE_LOST);
}

bool waits_for_semaphores() { return devices()->front().timeline_semaphores; }

TEST(VulkanFailure, LostWhileWaiting) {
  SKIP_WITHOUT_GPU();
  shared_device().reset();
  if (waits_for_semaphores()) lose<FakeCall<&vkWaitSemaphores>>(VK_ERROR_DEVICE_LOST);
  const Forced core_only("SMELT_VULKAN_PLAIN", "1");
  lose<FakeCall<&vkWaitForFences>>(VK_ERROR_DEVICE_LOST);
}

/// The device's work seems to go on as long as `Wait` is a fake.
template <auto Wait>
void give_up() {
  const Model model = small_model();
  // The time limit is for the run that does not end: another session makes the pipelines, however long that takes.
  auto other = open(model), session = open(model, 1);
  ASSERT_TRUE(session.ok() && other.ok() && run(*other).ok());
  ASSERT_TRUE(session->prepare(std::vector<Datum>{Tensor(DType::kF32, Shape{64})}).ok());
  {
    auto device = Device::open(-1);
    ASSERT_TRUE(device.ok());
    (*device)->queue().set_patience(std::chrono::milliseconds(200));
    const FakeCall<Wait> fake(VK_TIMEOUT);
    const auto start = std::chrono::steady_clock::now();
    const Status s = run(*session);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code(), ErrorCode::kDevice);
    EXPECT_NE(s.error().message().find("does not finish"), std::string::npos) << s.error().message();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    // It does in truth: nothing needs to be left behind.
    ASSERT_EQ(vkDeviceWaitIdle((*device)->handle()), VK_SUCCESS);
    (*device)->queue().forget_hang();
  }
  EXPECT_FALSE(run(*session).ok());
  EXPECT_FALSE(run(*other).ok());
  auto fresh = open(model);
  ASSERT_TRUE(fresh.ok());
  EXPECT_TRUE(run(*fresh).ok());
}

TEST(VulkanFailure, WorkWithoutEndIsGivenUp) {
  SKIP_WITHOUT_GPU();
  shared_device().reset();
  if (waits_for_semaphores()) give_up<&vkWaitSemaphores>();
  const Forced core_only("SMELT_VULKAN_PLAIN", "1");
  give_up<&vkWaitForFences>();
}

/// Memory runs out in one entry point, from the opening of the device to the end of the first run.
template <auto Entry>
void run_out() {
  const Model model = small_model();
  {
    const FakeCall<Entry> fake(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    auto session = open(model);
    const Status s = session.ok() ? run(*session) : Status(session.error());
    ASSERT_GT(fake.count(), 0);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code(), ErrorCode::kLimit) << s.error().message();
  }
  auto session = open(model);
  ASSERT_TRUE(session.ok());
  {
    const FakeCall<Entry> fake(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    static_cast<void>(run(*session));  // what was made in vain may be there already
  }
  const Status s = run(*session);
  EXPECT_TRUE(s.ok()) << s.error().message();
}

TEST(VulkanFailure, MemoryRunsOut) {
  SKIP_WITHOUT_GPU();
  shared_device().reset();
  if (waits_for_semaphores()) run_out<&vkCreateSemaphore>();
  const Forced core_only("SMELT_VULKAN_PLAIN", "1");
  run_out<&vkCreateDevice>();
  run_out<&vkAllocateMemory>();
  run_out<&vkBindBufferMemory>();
  run_out<&vkCreateBuffer>();
  run_out<&vkCreateShaderModule>();
  run_out<&vkCreateComputePipelines>();
  run_out<&vkCreateDescriptorSetLayout>();
  run_out<&vkCreatePipelineLayout>();
  run_out<&vkCreateDescriptorPool>();
  run_out<&vkAllocateDescriptorSets>();
  run_out<&vkCreateCommandPool>();
  run_out<&vkAllocateCommandBuffers>();
  run_out<&vkBeginCommandBuffer>();
  run_out<&vkEndCommandBuffer>();
  run_out<&vkCreateFence>();
  run_out<&vkQueueSubmit>();
}

TEST(VulkanFailure, WithoutAPipelineCacheItGoesOn) {
  SKIP_WITHOUT_GPU();
  shared_device().reset();
  const FakeCall<&vkCreatePipelineCache> fake(VK_ERROR_OUT_OF_HOST_MEMORY);
  const Model model = small_model();
  auto session = open(model);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(run(*session).ok());
}

}  // namespace
}  // namespace smelt::vulkan
