// Behind the last test of a run of all: every kernel of the CPU's list was compared with the reference kernel, and
// every shader of the GPU's list has run.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "backends/cpu/core/kernel.h"
#include "backends/vulkan/device/cooperative_matrix.h"
#include "backends/vulkan/device/device.h"
#include "support/coverage.h"

namespace smelt::test {
namespace {

std::set<std::string>& compared() {
  static auto* const names = new std::set<std::string>;
  return *names;
}

std::set<std::string>& ran() {
  static auto* const names = new std::set<std::string>;
  return *names;
}

class Coverage final : public ::testing::EmptyTestEventListener {
  void OnTestIterationEnd(const ::testing::UnitTest& tests, int) override {
    if (tests.test_to_run_count() != tests.total_test_count() || tests.Failed()) return;
    for (const KernelInfo& k : all_kernels())
      if (best_isa().contains(k.isa) && !compared().contains(k.name)) complain("no test compares ", k.name);
    if (ran().empty()) return;
    const auto devices = vulkan::devices();
    const bool matrices = devices.ok() && devices->front().half_matrices && devices->front().int8_matrices;
    for (const vulkan::Shader& s : vulkan::all_shaders())
      if (!ran().contains(s.name) && (matrices || !vulkan::uses_cooperative_matrix(s.words()))) complain("no test runs ", s.name);
  }
  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    if (complaints_ > 0) std::_Exit(1);
  }
  void complain(const char* what, const char* name) {
    ++complaints_;
    std::fprintf(stderr, "%s%s\n", what, name);
  }

  int complaints_ = 0;
};

[[maybe_unused]] const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Coverage);
  return true;
}();

}  // namespace

void note_compared(const char* name) { compared().insert(name); }

void note_shaders() {
  if (const auto device = vulkan::Device::open(-1); device.ok()) ran().merge((*device)->pipelines().shaders());
}

}  // namespace smelt::test
