#pragma once

#include <vector>

#include "tests/support/cpu_case.h"

namespace smelt::bench {

/// A node of a real model with the work that it does.
struct BenchCase {
  testing::KernelCase c;
  double operations = 0;  ///< multiplications and additions, or elements moved
};

/// Shapes of MobileNet V2 1.0/224, ResNet-50, transformer layers and their 8-bit forms.
std::vector<BenchCase> all_cases();

}  // namespace smelt::bench
