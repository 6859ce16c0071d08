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
#include "tests/support/cpu_case.h"
#include "tests/support/op_runner.h"

namespace smelt::vulkan {

using smelt::testing::KernelCase;

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

/// One operator with its operands.
struct OpCase {
  std::string label;
  Op op;
  AttrsPtr attrs;
  std::vector<Tensor> inputs;         ///< undefined: absent
  std::vector<bool> constant = {};    ///< by input; missing entries: computed
  std::vector<ValueType> outputs{1};  ///< declared types
  bool is_constant(size_t i) const { return i < constant.size() && constant[i]; }
};

inline std::vector<ValueType> outputs_of(const OpCase& c) { return c.outputs; }
inline std::vector<ValueType> outputs_of(const KernelCase& c) { return {c.output}; }

/// An OpCase or a KernelCase.
template <class Case>
test::OpRunner runner_of(const Case& c) {
  test::OpRunner r(c.op, c.attrs);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    if (!t.defined())
      r.absent();
    else if (c.is_constant(i))
      r.constant(t);
    else
      r.input(t);
  }
  return r.outputs(outputs_of(c));
}

struct Near {
  double absolute = 1e-5, relative = 1e-5;
};

/// Shapes and types are equal, and so are integers; reals are near.
inline void expect_same(const std::vector<Datum>& got, const std::vector<Datum>& want, const Near& near) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const Tensor &e = want[i].tensor, &g = got[i].tensor;
    SCOPED_TRACE("output " + std::to_string(i));
    ASSERT_EQ(g.dtype(), e.dtype());
    ASSERT_EQ(g.shape(), e.shape());
    const bool real = is_float(e.dtype());
    test::expect_near(g, test::values(e), real ? near.absolute : 0, real ? near.relative : 0);
  }
}

/// What a test asks of the layout pass: of the result, and of all values.
struct StoragePreference {
  StorageHint result;
  DeviceStorage all = DeviceStorage::kBuffer;
  bool fp16 = false;  ///< SessionOptions::fp16
};

/// The operator gives on the device what the reference kernel gives. `kernels`: those that ran there, without
/// "vulkan:".
inline void check_same(test::OpRunner op, const Near& near, const StoragePreference& preference = {},
                       std::vector<std::string>* kernels = nullptr) {
  const auto want = op.backend(BackendKind::kReference).run_all();
  ASSERT_TRUE(want.ok()) << want.error().message();
  const auto got = op.device(preference.all, preference.result, preference.fp16).run_all();
  ASSERT_TRUE(got.ok()) << got.error().message();
  expect_same(*got, *want, near);
  for (const std::string& k : op.kernels())
    if (kernels && k.rfind("vulkan:", 0) == 0) kernels->push_back(k.substr(7));
}

/// The same by kernel `want`, or one of several, A|B. "": it runs on the host.
inline void check_by(const test::OpRunner& op, const std::string& want, const Near& near,
                     const StoragePreference& preference = {}) {
  SCOPED_TRACE("by " + want);
  std::vector<std::string> kernels;
  check_same(op, near, preference, &kernels);
  const auto meant = [&](const std::string& k) { return ("|" + want + "|").find("|" + k + "|") != std::string::npos; };
  const bool as_meant = want.empty() ? kernels.empty() : std::any_of(kernels.begin(), kernels.end(), meant);
  EXPECT_TRUE(as_meant) << "ran " << ::testing::PrintToString(kernels);
}

/// The same with a whole kernel name, "vulkan:NAME".
inline void check_case(const OpCase& c, const std::string& want, const Near& near = {}) {
  SCOPED_TRACE(c.label);
  check_by(runner_of(c), want.empty() ? "" : want.substr(7), near);
}

inline void check_on_gpu(const KernelCase& c, const std::string& want, double tolerance = 1e-5,
                         const StoragePreference& preference = {}) {
  SCOPED_TRACE(c.label);
  check_by(runner_of(c), want, {tolerance, tolerance}, preference);
}

/// What a run on the device gives.
inline Result<std::vector<Datum>> run_on_gpu(const OpCase& c) {
  return runner_of(c).device(DeviceStorage::kBuffer).run_all();
}

/// Whether the best device is a software one with subgroups of eight lanes.
inline bool eight_lanes() {
  const auto device = open_device(-1);
  return device.ok() && device_info(**device).type == "CPU" && device_info(**device).subgroup_size == 8;
}

}  // namespace smelt::vulkan
