#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "smelt/model.h"

namespace smelt::cli {

/// What became of one golden case (a folder with model.*, inputs/, outputs/ and case.json).
struct CaseResult {
  enum class Verdict : uint8_t { kPassed, kFailed, kSkipped } verdict = Verdict::kPassed;
  std::string why;  ///< of a failure or skip
};

/// Makes the model that runs of the one that was loaded.
using ModelChange = std::function<Result<Model>(const Model&, const SessionOptions&)>;

/// Runs the case and compares: floats by |a-b| <= atol + rtol*|b| (or min_correlation, loose_atol), integers by
/// max_ulp_steps, strings exactly; `expect: error` demands an error. A given tolerance goes before the case's. The case
/// names its data files itself: those of `load` do not count. `change`, if given, stands between loading and running.
CaseResult run_golden_case(const std::filesystem::path& folder, const LoadOptions& load, const SessionOptions& options,
                           const CaseTolerance& tolerance = {}, const ModelChange& change = {});

/// Input files of a case in order, as arguments of gather_inputs.
std::vector<std::string> case_inputs(const std::filesystem::path& folder);

}  // namespace smelt::cli
