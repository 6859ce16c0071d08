#pragma once

#include <functional>
#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::cli {

/// How close numbers must be: |expected - got| <= atol + |rtol * got| for float32, float64 and float16; NaN equals NaN,
/// infinities of one sign are equal. Every other type must be equal byte by byte, bfloat16 too unless `given`.
struct MatchRule {
  double rtol = 1e-5, atol = 1e-8;
  bool given = false;  ///< the caller chose the tolerances
};

/// One test set's verdict.
struct SetResult {
  /// kSkipped: nothing to compare with; kBroken: it could not be run.
  enum class Verdict : uint8_t { kPassed, kFailed, kSkipped, kBroken } verdict = Verdict::kPassed;
  std::string name;  ///< "forward, set 0"
  std::string text;  ///< what matched or what did not, and where
};

/// Runs every set of every method of the bundle, in order, in one session: methods may share state. Methods without a
/// test set and sets without expected outputs are skipped, not passed. An error: the bundle can't be read, or holds no
/// test set.
Result<std::vector<SetResult>> verify_bundle(const std::string& path, const LoadOptions& load,
                                             const SessionOptions& options, const MatchRule& rule);

}  // namespace smelt::cli
