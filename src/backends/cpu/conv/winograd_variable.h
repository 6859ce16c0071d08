#pragma once

#include <cstdlib>

namespace smelt::test {

/// In tests: SMELT_CPU_WINOGRAD has a value as long as it lives.
class WinogradVariable {
 public:
  explicit WinogradVariable(const char* value) { setenv("SMELT_CPU_WINOGRAD", value, 1); }
  ~WinogradVariable() { unsetenv("SMELT_CPU_WINOGRAD"); }
};

}  // namespace smelt::test
