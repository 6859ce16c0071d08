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
#include "tests/support/paths.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

const formats::Writer* writer_of(const std::string& name) {
  for (const formats::Writer* w : formats::all_writers())
    if (w->name == name) return w;
  return nullptr;
}

/// The model written by a writer and read back. An error of code kUnsupported lists what the format lacks.
Result<Model> rewritten(const Model& model, const std::string& method, const formats::Writer& writer) {
  convert::Options options;
  options.method = method;
  SMELT_ASSIGN(const auto written, convert::convert(model, writer, options));
  if (!written.missing.empty()) return Unsupported(written.missing[0].op, ": ", written.missing[0].place);
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (const auto chunk : written.files[0].bytes.chunks()) bytes->insert(bytes->end(), chunk.begin(), chunk.end());
  return Model::load_bytes(*bytes, bytes, "written model");
}

struct Group {
  const char* writer;
  const char* folder;  ///< below the corpus
  double floor;        ///< share of the cases that pass at least
};

class ConvertCorpus : public testing::TestWithParam<Group> {};

TEST_P(ConvertCorpus, CasesPass) {
  const fs::path folder = corpus_folder() / GetParam().folder;
  const formats::Writer* const writer = writer_of(GetParam().writer);
  ASSERT_NE(writer, nullptr);
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
      auto made = rewritten(model, options.method, *writer);
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
                         testing::Values(Group{"onnx", "tflite/ops", 0.89}, Group{"onnx", "onnx/ops", 0.92},
                                         Group{"onnx", "pte/portable", 0.955}, Group{"onnx", "xnnpack/seed", 0.94},
                                         Group{"onnx", "vulkan/seed", 0.945}, Group{"tflite", "tflite/ops", 0.98},
                                         Group{"tflite", "onnx/ops", 0.785}, Group{"tflite", "pte/portable", 0.885},
                                         Group{"tflite", "xnnpack/seed", 0.88}, Group{"tflite", "vulkan/seed", 0.945}));

}  // namespace
}  // namespace smelt
