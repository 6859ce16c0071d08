// For tests: runs one operator on a Vulkan device and compares with the reference kernel.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/verify.h"
#include "smelt/model.h"
#include "tests/support/coverage.h"
#include "tests/support/op_runner.h"
#include "vulkan/backend.h"

namespace smelt::vulkan {

/// Skips its tests where no Vulkan device is found.
class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = devices();
    if (!found.ok()) GTEST_SKIP() << "no Vulkan device: " << found.error().message();
    if (found->empty()) GTEST_SKIP() << "no Vulkan device";
  }
};

/// One operator with its operands.
struct OpCase {
  std::string label;
  Op op;
  AttrsPtr attrs;
  std::vector<Tensor> inputs;         ///< undefined: absent
  std::vector<bool> constant = {};    ///< by input; missing entries: computed
  std::vector<ValueType> outputs{1};  ///< declared types
};

struct Near {
  double absolute = 1e-5, relative = 1e-5;
};

inline Result<std::vector<Datum>> run_case(const OpCase& c, BackendKind backend, std::string* kernel) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  std::vector<ValueId> in, out;
  std::vector<Datum> fed;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    if (!t.defined()) {
      in.push_back(kNone);
    } else if (i < c.constant.size() && c.constant[i]) {
      in.push_back(b.constant("", t));
    } else {
      in.push_back(b.input("x", ValueType::tensor(t.dtype(), t.shape(), t.quant())));
      fed.push_back(t);
    }
  }
  for (const ValueType& type : c.outputs) out.push_back(b.value("y", type));
  SMELT_TRY(b.node_to(c.op, c.attrs, in, out));
  b.graph().outputs = out;
  SMELT_TRY(verify(*module));
  SMELT_ASSIGN(
      Session session,
      Session::create(Model(module), {.backend = backend, .device_storage = DeviceStorage::kBuffer, .profile = true}));
  auto result = session.run(fed);
  if (backend == BackendKind::kVulkan) test::note_shaders();
  if (kernel)
    for (const ProfileEntry& e : session.profile()) *kernel = e.kernel;
  return result;
}

/// The operator runs with GPU kernel `want` ("vulkan:NAME") and gives what the reference kernel gives: integers equal,
/// reals within the tolerance. `want` empty: it runs on the host.
inline void check_case(const OpCase& c, const std::string& want, Near near = {}) {
  SCOPED_TRACE(c.label);
  const auto expected = run_case(c, BackendKind::kReference, nullptr);
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  std::string kernel;
  const auto got = run_case(c, BackendKind::kVulkan, &kernel);
  ASSERT_TRUE(got.ok()) << got.error().message();
  if (want.empty())
    EXPECT_NE(kernel.substr(0, 7), "vulkan:");
  else
    EXPECT_EQ(kernel, want);
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor &e = (*expected)[i].tensor, &g = (*got)[i].tensor;
    ASSERT_EQ(g.dtype(), e.dtype()) << "output " << i;
    ASSERT_EQ(g.shape(), e.shape()) << "output " << i;
    const bool real = is_float(e.dtype());
    test::expect_near(g, test::values(e), real ? near.absolute : 0, real ? near.relative : 0);
  }
}

}  // namespace smelt::vulkan
