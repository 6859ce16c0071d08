#pragma once

#include <algorithm>
#include <cstdlib>

#include "backends/cpu/conv/winograd_choice_i8.h"
#include "tests/support/tested_levels.h"

namespace smelt::test {

/// In tests: SMELT_CPU_WINOGRAD has a value as long as it lives.
class WinogradVariable {
 public:
  explicit WinogradVariable(const char* value) { setenv("SMELT_CPU_WINOGRAD", value, 1); }
  ~WinogradVariable() { unsetenv("SMELT_CPU_WINOGRAD"); }
};

/// Runs check() with the transforms that times choose, and with each of both where it applies.
template <class Check>
void for_each_winograd_setting(Check check) {
  for (const char* setting : {"4", "always2", "always4"}) {
    const WinogradVariable variable(setting);
    check();
  }
}

/// The kernel of that name, of Winograd's convolutions of bytes, where a level that is tested has it; else none.
inline const char* winograd_kernel_of_bytes(const char* name) {
  const auto has_it = [](Isa isa) { return winograd_times_i8(isa) != nullptr; };
  return std::ranges::any_of(tested_isas(), has_it) ? name : "";
}

}  // namespace smelt::test
