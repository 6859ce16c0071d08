// For tests: runs one operator on a Vulkan device and compares with the reference kernel.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/device/device.h"
#include "tests/support/op_runner.h"

namespace smelt::vulkan {

using namespace smelt::test;

/// The device that tests share, so that a process opens it once and keeps its pipelines. Null before the first test
/// that uses one, behind a change of an environment variable (Forced), and where a test wants a fresh one.
inline std::shared_ptr<Device>& shared_device() {
  static std::shared_ptr<Device> device;
  return device;
}

/// Lets the shared device go before the driver's own end of process.
struct SharedDeviceEnd : ::testing::Environment {
  void TearDown() override { shared_device().reset(); }
};
inline ::testing::Environment* const kSharedDeviceEnd = ::testing::AddGlobalTestEnvironment(new SharedDeviceEnd);

/// Opens the shared device unless it is open; the error where there is none.
inline Status share_device() {
  if (!shared_device()) {
    SMELT_ASSIGN(shared_device(), open_device(-1));
  }
  return Ok();
}

#define SKIP_WITHOUT_GPU()                                           \
  if (const auto found = smelt::vulkan::share_device(); !found.ok()) \
  GTEST_SKIP() << "no Vulkan device: " << found.error().message()

/// Skips its tests where no Vulkan device is found.
class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }
};

/// An environment variable for as long as the object lives, then what it was before. It changes while no thread makes a
/// pipeline: drivers read the environment there. Devices are opened afresh behind each change, as some variables shape
/// them.
class Forced {
 public:
  Forced(const char* name, const char* value) : name_(name) {
    if (const char* e = std::getenv(name)) before_ = e;
    set(value);
  }
  ~Forced() { set(before_ ? before_->c_str() : nullptr); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;

 private:
  void set(const char* value) const {
    Device::settle();
    shared_device().reset();
    if (value)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

/// What a test asks of the layout pass: of the result, and of all values.
struct StoragePreference {
  StorageHint result;
  DeviceStorage all = DeviceStorage::kBuffer;
  bool fp16 = false;  ///< SessionOptions::fp16
};

/// The operator gives on the device what the reference kernel gives. `kernels`: those that ran there, without
/// "vulkan:".
inline void check_same(OpRunner op, Tolerance tolerance, const StoragePreference& preference = {},
                       std::vector<std::string>* kernels = nullptr) {
  const auto want = op.backend(BackendKind::kReference).run_all();
  ASSERT_TRUE(want.ok()) << want.error().message();
  const auto got = op.device(preference.all, preference.result, preference.fp16).run_all();
  ASSERT_TRUE(got.ok()) << got.error().message();
  expect_same(*got, *want, tolerance);
  for (const std::string& k : op.kernels())
    if (kernels && k.rfind("vulkan:", 0) == 0) kernels->push_back(k.substr(7));
}

/// The operator gives on the device what the reference kernel gives, by kernel `want` or one of several, A|B. "": it
/// runs on the host.
inline void check_on_gpu(const OpRunner& op, const std::string& want, Tolerance tolerance = {},
                         const StoragePreference& preference = {}) {
  SCOPED_TRACE("by " + want);
  std::vector<std::string> kernels;
  check_same(op, tolerance, preference, &kernels);
  const auto meant = [&](const std::string& k) { return ("|" + want + "|").find("|" + k + "|") != std::string::npos; };
  const bool as_meant = want.empty() ? kernels.empty() : std::any_of(kernels.begin(), kernels.end(), meant);
  EXPECT_TRUE(as_meant) << "ran " << ::testing::PrintToString(kernels);
}

inline void check_on_gpu(const OpCase& c, const std::string& want, Tolerance tolerance = {},
                         const StoragePreference& preference = {}) {
  SCOPED_TRACE(c.label);
  check_on_gpu(OpRunner(c), want, tolerance, preference);
}

/// What a run on the device gives.
inline Result<std::vector<Datum>> run_on_gpu(const OpCase& c) {
  return OpRunner(c).device(DeviceStorage::kBuffer).run_all();
}

/// True if the best device is a software one with subgroups of eight lanes.
inline bool eight_lanes() {
  const auto device = open_device(-1);
  return device.ok() && device_info(**device).type == "CPU" && device_info(**device).subgroup_size == 8;
}

}  // namespace smelt::vulkan
