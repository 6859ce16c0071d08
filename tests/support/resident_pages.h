#pragma once

#include <cstdint>
#include <fstream>

namespace smelt::test {

/// Memory of this process, in pages.
inline int64_t resident_pages() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

}  // namespace smelt::test
