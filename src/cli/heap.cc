#include "cli/heap.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/checked.h"
#include "base/huge_pages.h"

namespace smelt::cli {

void grow_heap_by_huge_pages() {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
  constexpr size_t kHeap = 2 * kHugePage;  // what most models and their plans take; more would stay unused in part
  constexpr int kMost = 64 << 20, kLeastMapped = 128 << 10;  // the latter is glibc's own
  constexpr size_t kHeader = 4096;  // of the block below: it lies in a page before the huge ones
  static bool called = false;
  if (std::exchange(called, true)) return;
  const auto end = reinterpret_cast<uintptr_t>(::sbrk(0)), begin = round_up(end + kHeader, uintptr_t{kHugePage});
  if (::sbrk(static_cast<intptr_t>(begin - kHeader - end)) == reinterpret_cast<void*>(-1)) return;
  // One block to the end of the heap's new memory: when it is freed, other blocks come from its begin on.
  ::mallopt(M_TRIM_THRESHOLD, kMost);
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  void* volatile block = std::malloc(kHeader + kHeap);  // volatile: compilers leave out what is freed at once
  const auto at = reinterpret_cast<uintptr_t>(block);
  if (at > end && at <= begin) ask_for_huge_pages(reinterpret_cast<void*>(begin), kHeap);
  std::free(block);
  ::mallopt(M_MMAP_THRESHOLD, kLeastMapped);
#endif
}

}  // namespace smelt::cli
