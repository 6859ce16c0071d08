#include "backends/vulkan/device/device.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/alignment.h"
#include "backends/vulkan/record/recorder.h"

namespace smelt::vulkan {
namespace {

#define OPEN_OR_SKIP(name)                                                            \
  auto opened = Device::open(-1);                                                     \
  if (!opened.ok()) GTEST_SKIP() << "no Vulkan device: " << opened.error().message(); \
  const std::shared_ptr<Device> name = opened.value()

TEST(VulkanDevice, ANumberBeyondTheListIsNamed) {
  const auto found = devices();
  if (!found.ok()) {
    EXPECT_EQ(found.error().code(), ErrorCode::kDevice);
    EXPECT_FALSE(found.error().message().empty());
    GTEST_SKIP() << "no Vulkan device: " << found.error().message();
  }
  const auto opened = open_device(1000);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find("there is no Vulkan device 1000"), std::string::npos);
}

TEST(VulkanDevice, UsersShareADevice) {
  OPEN_OR_SKIP(device);
  EXPECT_EQ(Device::open(device->info().index).value(), device);
}

TEST(VulkanDevice, KernelsOfAnOperatorDifferInName) {
  for (const KernelInfo& a : all_kernels())
    for (const KernelInfo& b : all_kernels())
      EXPECT_TRUE(&a == &b || a.op != b.op || std::strcmp(a.name, b.name) != 0) << a.name;
}

TEST(VulkanDevice, AnImpossibleBufferIsALimit) {
  OPEN_OR_SKIP(device);
  const auto b = Buffer::make(device, size_t{1} << 60, Buffer::Use::kDevice);
  ASSERT_FALSE(b.ok());
}

TEST(VulkanRecorder, CopiesWaitForOneAnother) {
  OPEN_OR_SKIP(device);
  auto a = Buffer::make(device, 1024, Buffer::Use::kStaging), b = Buffer::make(device, 1024, Buffer::Use::kDevice),
       c = Buffer::make(device, 1024, Buffer::Use::kStaging);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  Recorder r(device);
  r.fill((*a)->slice(0, 1024), 0x01010101);
  r.copy((*a)->slice(0, 1024), (*b)->slice(0, 1024));
  r.fill((*a)->slice(0, 1024), 0);
  r.copy((*b)->slice(0, 512), (*c)->slice(512, 512));
  r.copy((*a)->slice(0, 512), (*c)->slice(0, 512));
  ASSERT_TRUE(r.end().ok());
  for (int run = 0; run < 3; ++run) {
    std::memset((*c)->mapped(), 7, 1024);
    ASSERT_TRUE(r.run().ok());
    for (int i = 0; i < 1024; ++i) ASSERT_EQ((*c)->mapped()[i], i < 512 ? 0 : 1) << i;
  }
}

TEST(VulkanDevice, AWaitingCallerIsAskedAndItsErrorComesBack) {
  OPEN_OR_SKIP(device);
  constexpr size_t kInt8 = size_t{64} << 20;
  auto a = Buffer::make(device, kInt8, Buffer::Use::kDevice), b = Buffer::make(device, kInt8, Buffer::Use::kDevice);
  ASSERT_TRUE(a.ok() && b.ok());
  Recorder r(device);
  for (int i = 0; i < 40; ++i) r.copy((*a)->slice(0, kInt8), (*b)->slice(0, kInt8));
  ASSERT_TRUE(r.end().ok());
  int asked = 0;
  const Status s = r.run([&]() -> Status {
    ++asked;
    return Error(ErrorCode::kCancelled, "enough");
  });
  // A fast device may be done before anybody is asked.
  EXPECT_EQ(asked > 0, !s.ok());
  if (!s.ok()) {
    EXPECT_EQ(s.error().code(), ErrorCode::kCancelled);
  }
  EXPECT_FALSE(device->lost());
  EXPECT_TRUE(r.run().ok());
}

TEST(VulkanMemory, BuffersAreApartAndAligned) {
  OPEN_OR_SKIP(device);
  const uint32_t type = 0;
  std::vector<Heap::Chunk> chunks;
  for (size_t bytes : {1, 100, 256, 300000, 5, 2000000, 77}) {
    auto chunk = device->heap().take({bytes, 16, 1}, type, false);
    ASSERT_TRUE(chunk.ok());
    EXPECT_EQ(chunk->offset % kBindingAlignment, 0u);
    EXPECT_GE(chunk->bytes, bytes);
    for (const Heap::Chunk& o : chunks)
      EXPECT_FALSE(o.block == chunk->block && o.offset < chunk->offset + bytes && chunk->offset < o.offset + o.bytes);
    chunks.push_back(*chunk);
  }
  const Heap::Chunk freed = chunks[3];
  device->heap().give(freed);
  auto again = device->heap().take({freed.bytes, 16, 1}, type, false);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->block, freed.block);
  EXPECT_EQ(again->offset, freed.offset);
  chunks[3] = *again;
  for (const Heap::Chunk& c : chunks) device->heap().give(c);
}

}  // namespace
}  // namespace smelt::vulkan
