#include "backends/vulkan/device/pipelines.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "backends/vulkan/device/cache_file.h"
#include "backends/vulkan/device/cooperative_matrix.h"
#include "backends/vulkan/device/device.h"
#include "support/temporary_folder.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

namespace fs = std::filesystem;

VkPhysicalDeviceProperties some_device() {
  VkPhysicalDeviceProperties p{};
  p.vendorID = 0x1234;
  p.deviceID = 0x5678;
  for (uint8_t i = 0; i < VK_UUID_SIZE; ++i) p.pipelineCacheUUID[i] = i;
  return p;
}

/// What the driver of `device` would hand out.
std::vector<char> driver_bytes(const VkPhysicalDeviceProperties& device) {
  VkPipelineCacheHeaderVersionOne head{
      sizeof head, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, device.vendorID, device.deviceID, {}};
  std::memcpy(head.pipelineCacheUUID, device.pipelineCacheUUID, VK_UUID_SIZE);
  std::vector<char> bytes(sizeof head + 100, 'x');
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(VulkanCacheFile, WhatWasKeptComesBack) {
  TemporaryFolder folder;
  const auto device = some_device();
  const auto bytes = driver_bytes(device);
  const std::string path = (folder.path() / "below" / "cache.bin").string();
  EXPECT_TRUE(read_cache_file(path, device).empty());
  write_cache_file(path, bytes);
  EXPECT_EQ(read_cache_file(path, device), bytes);
  write_cache_file(path, bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "below"), fs::directory_iterator()), 1)
      << "nothing else stays behind";
}

TEST(VulkanCacheFile, DamageIsSeen) {
  TemporaryFolder folder;
  const auto device = some_device();
  const std::string path = (folder.path() / "cache.bin").string();
  write_cache_file(path, driver_bytes(device));
  const std::string good = contents(path);
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    put(path, bad);
    EXPECT_TRUE(read_cache_file(path, device).empty()) << "byte " << i;
  }
  for (size_t n : {size_t{0}, size_t{5}, size_t{24}, good.size() - 1}) {
    put(path, good.substr(0, n));
    EXPECT_TRUE(read_cache_file(path, device).empty()) << n << " bytes";
  }
  put(path, good + "more");
  EXPECT_TRUE(read_cache_file(path, device).empty());
}

TEST(VulkanCacheFile, AnotherDeviceOrDriverHasItsOwn) {
  TemporaryFolder folder;
  const std::string path = (folder.path() / "cache.bin").string();
  write_cache_file(path, driver_bytes(some_device()));
  auto vendor = some_device(), device = some_device(), driver = some_device();
  ++vendor.vendorID;
  ++device.deviceID;
  ++driver.pipelineCacheUUID[15];
  for (const auto& other : {vendor, device, driver}) EXPECT_TRUE(read_cache_file(path, other).empty());
  EXPECT_FALSE(read_cache_file(path, some_device()).empty());
}

class VulkanPipelines : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Device::open(-1);
    if (!opened.ok()) GTEST_SKIP() << "no Vulkan device: " << opened.error().message();
    device_ = opened.value();
    vkGetPhysicalDeviceProperties(device_->physical(), &properties_);
  }
  std::shared_ptr<Device> device_;
  VkPhysicalDeviceProperties properties_{};
  const TemporaryFolder folder_;
  const Forced cache_{"SMELT_CACHE_DIR", folder_.path().c_str()};
};

TEST_F(VulkanPipelines, ThreadsMakeWhatIsAsked) {
  const Shader& a = *find_shader("copy_32");
  const Shader& b = *find_shader("where_32");
  for (int threads : {1, 3}) {
    Pipelines all(device_->handle(), properties_, false);
    for (uint32_t width : {8u, 16u, 32u, 8u})
      for (const Shader* s : {&a, &b}) all.request(*s, {&width, 1}, threads);
    std::vector<VkPipeline> seen;
    for (uint32_t width : {8u, 16u, 32u, 64u})
      for (const Shader* s : {&a, &b}) {
        const auto p = all.get(*s, {&width, 1}), again = all.get(*s, {&width, 1});
        ASSERT_TRUE(p.ok() && again.ok());
        EXPECT_EQ(p->handle, again->handle);
        EXPECT_EQ(std::count(seen.begin(), seen.end(), p->handle), 0);
        seen.push_back(p->handle);
      }
  }
}

TEST_F(VulkanPipelines, WhatAThreadCouldNotMakeIsTriedAgain) {
  static std::promise<void> begun, go;
  begun = {};
  go = {};
  const uint32_t width = 8;
  const Shader& shader = *find_shader("copy_32");
  Pipelines all(device_->handle(), properties_, false);
  const auto real = vkCreateShaderModule;
  vkCreateShaderModule = [](VkDevice, const VkShaderModuleCreateInfo*, const VkAllocationCallbacks*, VkShaderModule*) {
    begun.set_value();
    go.get_future().wait();
    return VK_ERROR_OUT_OF_HOST_MEMORY;
  };
  all.request(shader, {&width, 1}, 1);
  begun.get_future().wait();
  vkCreateShaderModule = real;
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    go.set_value();
  });
  const auto p = all.get(shader, {&width, 1});
  later.join();
  EXPECT_TRUE(p.ok()) << p.error().message();
}

TEST_F(VulkanPipelines, EveryShaderMakesOne) {
  const uint32_t width = 8;
  Pipelines all(device_->handle(), properties_, false);
  for (const Shader& s : all_shaders()) {
    if (uses_cooperative_matrix(s.words())) continue;  // whose sizes are the device's choice: VulkanCooperativeMatrix
    const auto p = all.get(s, {&width, 1});
    ASSERT_TRUE(p.ok()) << s.name << ": " << p.error().message();
  }
}

TEST_F(VulkanPipelines, RequestsThatNobodyFetchesEndWithTheirOwner) {
  const uint32_t width = 8;
  Pipelines all(device_->handle(), properties_, false);
  for (const Shader& s : all_shaders().first(20)) all.request(s, {&width, 1}, 2);
}

TEST_F(VulkanPipelines, TheCacheIsReadBackAndADamagedOneIsReplaced) {
  const std::string path = cache_file(properties_);
  const uint32_t width = 8;
  const auto use = [&] {
    Pipelines all(device_->handle(), properties_, false);
    EXPECT_TRUE(all.get(*find_shader("copy_32"), {&width, 1}).ok());
    all.save();
  };
  use();
  ASSERT_FALSE(read_cache_file(path, properties_).empty());
  use();
  put(path, "not a cache");
  use();
  EXPECT_FALSE(read_cache_file(path, properties_).empty());
}

}  // namespace
}  // namespace smelt::vulkan
