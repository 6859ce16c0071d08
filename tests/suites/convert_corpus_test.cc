// The golden cases of tests/corpus through a conversion to another format: what is written and read back gives what the
// case expects.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/golden_case.h"
#include "convert/convert.h"
#include "tests/support/case_shapes.h"
#include "tests/support/paths.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

struct Group {
  const char* writer;
  const char* folder;  ///< below the corpus
  double floor;        ///< share of the cases that pass at least
};

class ConvertCorpus : public testing::TestWithParam<Group> {};

TEST_P(ConvertCorpus, CasesPass) {
  const fs::path folder = corpus_folder() / GetParam().folder;
  size_t ran = 0, passed = 0;
  std::vector<std::string> failures;
  std::vector<fs::path> cases;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec)) cases.push_back(e.path());
  if (cases.empty()) GTEST_SKIP() << folder << " holds no cases";
  std::sort(cases.begin(), cases.end());
  for (const fs::path& c : cases) {
    bool written = true;
    const auto change = [&](const Model& model, const SessionOptions& options) {
      convert::Options how{.method = options.method};
      if (formats::find_writer(GetParam().writer)->static_shapes)
        how.shapes = test::open_shapes(model, options.method, c);
      auto made = test::rewritten(model, GetParam().writer, how);
      written = made.ok();
      return made;
    };
    // Integer results of a fixed-point rule may differ by a step from those that pass through real numbers.
    const cli::CaseTolerance tolerance{.rtol = 1e-3, .atol = 1e-4, .steps = 1};
    const cli::CaseResult r = cli::run_golden_case(c, {}, {}, tolerance, change);
    if (r.verdict == cli::CaseResult::Verdict::kSkipped) continue;
    ++ran;
    if (r.verdict == cli::CaseResult::Verdict::kPassed)
      ++passed;
    else
      failures.push_back(c.filename().string() + (written ? ": " : ": not written: ") + r.why);
  }
  const double share = ran == 0 ? 0 : static_cast<double>(passed) / static_cast<double>(ran);
  std::printf("%s: %zu of %zu cases pass as %s (%.1f %%)\n", GetParam().folder, passed, ran, GetParam().writer,
              100 * share);
  if (share < GetParam().floor)
    for (const std::string& f : failures) std::printf("  %s\n", f.c_str());
  EXPECT_GE(share, GetParam().floor);
}

INSTANTIATE_TEST_SUITE_P(Groups, ConvertCorpus,
                         testing::Values(Group{"onnx", "tflite/ops", 0.893}, Group{"onnx", "onnx/ops", 0.92},
                                         Group{"onnx", "pte/portable", 0.96}, Group{"onnx", "xnnpack/seed", 0.94},
                                         Group{"onnx", "vulkan/seed", 0.945}, Group{"tflite", "tflite/ops", 0.98},
                                         Group{"tflite", "onnx/ops", 0.895}, Group{"tflite", "pte/portable", 0.92},
                                         Group{"tflite", "xnnpack/seed", 0.945}, Group{"tflite", "vulkan/seed", 0.97},
                                         Group{"pte", "onnx/ops", 0.853}, Group{"pte", "tflite/ops", 0.895},
                                         Group{"pte", "pte/portable", 0.91}));

}  // namespace
}  // namespace smelt
