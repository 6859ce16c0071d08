#include "base/large_memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace smelt {

void* allocate_large(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  void* p = nullptr;
  if (posix_memalign(&p, bytes >= kHugePage ? kHugePage : 64, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return p;
}

}  // namespace smelt
