// For tests: runs one node with the reference kernel and on the Vulkan device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "cpu/testing.h"
#include "graph/builder.h"
#include "graph/verify.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/coverage.h"
#include "vulkan/backend.h"

namespace smelt::vulkan {

using smelt::testing::KernelCase;

/// An environment variable for as long as the object lives.
class Forced {
 public:
  Forced(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Forced() { unsetenv(name_); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;

 private:
  const char* name_;
};

/// What a test asks of the layout pass: of the result, and of all values.
struct StorageWish {
  StorageHint result;
  DeviceStorage all = DeviceStorage::kBuffer;
};

inline Result<std::vector<Datum>> run_case(const KernelCase& c, BackendKind backend, std::string* kernels,
                                           const StorageWish& wish = {}) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  std::vector<ValueId> in, out{b.value("y", c.output)};
  std::vector<Datum> fed;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    if (!t.defined()) {
      in.push_back(kNone);
    } else if (c.is_constant(i)) {
      in.push_back(b.constant("", t));
    } else {
      in.push_back(b.input("x", ValueType::tensor(t.dtype(), t.shape(), t.quant())));
      fed.emplace_back(t);
    }
  }
  SMELT_TRY(b.node_to(c.op, c.attrs, in, out));
  b.graph().outputs = out;
  b.graph().value(out[0]).storage = wish.result;
  SMELT_TRY(verify(*module));
  SessionOptions options;
  options.backend = backend;
  options.device_storage = wish.all;
  options.profile = true;
  SMELT_ASSIGN(Session session, Session::create(Model(module), options));
  auto result = session.run(fed);
  if (backend == BackendKind::kVulkan) test::note_shaders();
  for (const ProfileEntry& e : session.profile()) *kernels += e.kernel + " ";
  return result;
}

/// The node must run with the kernel "vulkan:WANT" (or one of several, A|B) and give what the reference gives: integers
/// equal, real numbers within `tolerance` of the largest of 1 and the value.
inline void check_on_gpu(const KernelCase& c, const std::string& want, double tolerance = 1e-5,
                         const StorageWish& wish = {}) {
  SCOPED_TRACE(c.label + " by " + want);
  std::string kernels, none;
  const auto expected = run_case(c, BackendKind::kReference, &none);
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  const auto got = run_case(c, BackendKind::kVulkan, &kernels, wish);
  ASSERT_TRUE(got.ok()) << got.error().message();
  bool ran = false;
  for (size_t at = 0; at <= want.size();) {
    const size_t end = std::min(want.find('|', at), want.size());
    ran = ran || kernels.find("vulkan:" + want.substr(at, end - at) + " ") != std::string::npos;
    at = end + 1;
  }
  EXPECT_TRUE(ran) << "ran " << kernels;
  const Tensor &e = expected->front().tensor, &g = got->front().tensor;
  ASSERT_EQ(e.shape(), g.shape());
  ASSERT_EQ(e.dtype(), g.dtype());
  for (int64_t i = 0; i < e.elements(); ++i) {
    const double want_value = get_double(e, i), value = get_double(g, i);
    if (std::isnan(want_value) && std::isnan(value)) continue;
    const double allowed = is_integer(e.dtype()) ? 0 : tolerance * std::max(1.0, std::abs(want_value));
    ASSERT_LE(std::abs(want_value - value), allowed) << "element " << i << ": " << value << ", not " << want_value;
  }
}

#define SKIP_WITHOUT_GPU()                                                        \
  if (const auto found = smelt::vulkan::devices(); !found.ok() || found->empty()) \
  GTEST_SKIP() << "no Vulkan device" << (found.ok() ? "" : ": " + found.error().message())

/// Whether the best device is a software one with subgroups of eight lanes.
inline bool eight_lanes() {
  const auto device = open_device(-1);
  return device.ok() && device_info(**device).type == "CPU" && device_info(**device).subgroup_size == 8;
}

}  // namespace smelt::vulkan
