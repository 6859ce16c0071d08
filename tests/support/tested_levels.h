// For tests: the levels of the CPU's kernels that they run.
#pragma once

#include <cstdlib>
#include <span>
#include <string_view>

#include "backends/cpu/core/isa.h"

namespace smelt::test {

/// True where SMELT_TEST_LEVELS is "best": on a processor that is emulated (older_processor_test.sh) for the sake of
/// the instructions that it lacks. The kernels of its best level run once each; levels below it, threads and kept
/// weights are what the tests compare on the processor of the machine.
inline bool best_level_only() {
  static const char* const levels = std::getenv("SMELT_TEST_LEVELS");
  return levels && std::string_view(levels) == "best";
}

inline std::span<const Isa> tested_isas() { return best_level_only() ? machine_isas().last(1) : machine_isas(); }

}  // namespace smelt::test
