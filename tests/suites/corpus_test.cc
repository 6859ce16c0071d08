// The golden cases of tests/corpus (unpacked into the build tree by ctest's set-up) and of ../shared/corpus, through
// every back-end. One test a format, group and back-end; failures name the case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "cli/golden_case.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

struct Suite {
  fs::path folder;
  std::string name;
  BackendKind backend;
  DeviceStorage storage = DeviceStorage::kAuto;
};

std::vector<fs::path> sorted_folders(const fs::path& root) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(root, ec))
    if (e.is_directory()) out.push_back(e.path());
  std::sort(out.begin(), out.end());
  return out;
}

/// Cases that are known not to match, one "format/group/name: reason" a line.
std::set<std::string> known_failures() {
  std::set<std::string> out;
  std::ifstream file(source_folder() / "tests/corpus/known_failures.txt");
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(':'); !line.empty() && line[0] != '#' && colon != std::string::npos)
      out.insert(line.substr(0, colon));
  return out;
}

class Corpus : public testing::Test {
 public:
  explicit Corpus(Suite suite) : suite_(std::move(suite)) {}
  void TestBody() override {
    static const std::set<std::string> known = known_failures();
    SessionOptions options;
    options.backend = suite_.backend;
    options.device_storage = suite_.storage;
    std::shared_ptr<vulkan::Device> device;  // stays open from case to case
    if (suite_.backend == BackendKind::kVulkan) {
      auto opened = vulkan::open_device(-1);
      if (!opened.ok()) GTEST_SKIP() << opened.error().message();
      device = opened.value();
    }
    size_t ran = 0;
    for (const fs::path& folder : sorted_folders(suite_.folder)) {
      const std::string name = suite_.folder.parent_path().filename().string() + "/" +
                               suite_.folder.filename().string() + "/" + folder.filename().string();
      if (known.count(name)) continue;
      const cli::CaseResult r = cli::run_golden_case(folder, {}, options);
      if (r.verdict == cli::CaseResult::Verdict::kFailed) ADD_FAILURE() << name << ": " << r.why;
      ++ran;
    }
    EXPECT_GT(ran, 0u);
  }

 private:
  Suite suite_;
};

void add(const fs::path& format, const std::string& prefix) {
  struct Way {
    const char* name;
    BackendKind backend;
    DeviceStorage storage = DeviceStorage::kAuto;
  };
  for (const fs::path& group : sorted_folders(format))
    for (const Way& way : {Way{"_reference", BackendKind::kReference}, Way{"_cpu", BackendKind::kCpu},
                           Way{"_vulkan", BackendKind::kVulkan},
                           Way{"_vulkan_texture", BackendKind::kVulkan, DeviceStorage::kTexture}}) {
      // Forced textures: where there are blobs for them, and whole networks.
      if (way.storage == DeviceStorage::kTexture && format.filename() != "vulkan" && group.filename() != "nets")
        continue;
      const std::string test = format.filename().string() + "_" + group.filename().string() + way.name;
      Suite suite{group, test, way.backend, way.storage};
      testing::RegisterTest(prefix.c_str(), test.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [suite]() -> testing::Test* { return new Corpus(suite); });
    }
}

/// Bundles are programs with expectations of their own: their cases go through `smelt verify`.
const bool registered = [] {
  for (const fs::path& format : sorted_folders(corpus_folder()))
    if (format.filename() != "bundled") add(format, "Corpus");
  const fs::path shared = source_folder().parent_path() / "shared/corpus/tflite/real";
  if (fs::exists(shared))
    for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
      Suite suite{shared, "", backend};
      testing::RegisterTest("SharedCorpus", backend == BackendKind::kCpu ? "tflite_real_cpu" : "tflite_real_reference",
                            nullptr, nullptr, __FILE__, __LINE__,
                            [suite]() -> testing::Test* { return new Corpus(suite); });
    }
  return true;
}();

TEST(SharedCorpus, IsThere) {
  if (!fs::exists(source_folder().parent_path() / "shared/corpus"))
    GTEST_SKIP() << "no ../shared/corpus beside this checkout: third-party models are not run";
}

}  // namespace
}  // namespace smelt
