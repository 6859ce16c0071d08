// Every kernel of the CPU's list is compared with the reference kernel by some test, and every shader of the GPU's list
// runs in one. Tests run in several processes, each of which leaves a record; the test reads them all.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "backends/cpu/core/kernel.h"
#include "backends/vulkan/device/cooperative_matrix.h"
#include "backends/vulkan/device/device.h"
#include "support/coverage.h"

namespace smelt::test {
namespace {

/// Lines "kernel NAME" and "shader NAME".
std::set<std::string>& covered() {
  static auto* const lines = new std::set<std::string>;
  return *lines;
}

/// Writes the record to the file that SMELT_COVERAGE names.
class Record final : public ::testing::EmptyTestEventListener {
  void OnTestIterationEnd(const ::testing::UnitTest&, int) override {
    const char* path = std::getenv("SMELT_COVERAGE");
    if (!path) return;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path);
    for (const std::string& line : covered()) file << line << '\n';
  }
};

[[maybe_unused]] const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Record);
  return true;
}();

TEST(Coverage, EveryKernelAndShader) {
  const char* records = std::getenv("SMELT_COVERAGE_RECORDS");
  if (!records) GTEST_SKIP() << "SMELT_COVERAGE_RECORDS names no folder of records";
  std::set<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(records)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) lines.insert(line);
  }
  for (const KernelInfo& k : all_kernels()) {
    if (!named_isas().back().contains(k.isa)) continue;
    EXPECT_TRUE(lines.contains(std::string("kernel ") + k.name)) << "no test compares " << k.name;
  }
  if (lines.empty() || !lines.rbegin()->starts_with("shader ")) return;  // no Vulkan device
  const auto devices = vulkan::devices();
  const bool matrices = devices.ok() && devices->front().half_matrices && devices->front().int8_matrices;
  for (const vulkan::Shader& s : vulkan::all_shaders()) {
    if (!matrices && vulkan::uses_cooperative_matrix(s.words())) continue;
    EXPECT_TRUE(lines.contains(std::string("shader ") + s.name)) << "no test runs " << s.name;
  }
}

}  // namespace

void note_compared(const char* name) { covered().insert(std::string("kernel ") + name); }

void note_shaders() {
  if (const auto device = vulkan::Device::open(-1); device.ok())
    for (const auto& name : (*device)->pipelines().shaders()) covered().insert(std::string("shader ") + name);
}

}  // namespace smelt::test
