// For tests: a Vulkan device with 64-bit arithmetic.
#pragma once

#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {

/// Skips its tests where the device has no float64 or int64.
class VulkanDoubleTest : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped()) return;
    const auto device = open_device(-1);
    ASSERT_TRUE(device.ok());
    if (!device_info(**device).float64 || !device_info(**device).int64) GTEST_SKIP() << "no float64 or int64";
  }
};

}  // namespace smelt::vulkan
