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
  constexpr size_t kHeap = size_t{32} << 20;         // of address space; pages come when they are written
  constexpr size_t kLeastMapping = size_t{1} << 20;  // blocks of that size have mappings of their own
  static bool called = false;
  if (std::exchange(called, true)) return;
  constexpr size_t kHeader = 4096;  // of the block below: it lies in a page before the huge ones
  const auto end = reinterpret_cast<uintptr_t>(::sbrk(0));
  const uintptr_t begin = round_up(end + kHeader, uintptr_t{kHugePage}), skipped = begin - kHeader - end;
  if (::sbrk(static_cast<intptr_t>(skipped)) == reinterpret_cast<void*>(-1)) return;
  // One block to the end of the heap's new memory: when it is freed, other blocks come from its begin on.
  ::mallopt(M_TRIM_THRESHOLD, 2 * static_cast<int>(kHeap));
  ::mallopt(M_MMAP_THRESHOLD, 2 * static_cast<int>(kHeap));
  void* volatile block = std::malloc(kHeader + kHeap);  // volatile: compilers leave out what is freed at once
  const auto at = reinterpret_cast<uintptr_t>(block);
  if (at > end && at <= begin) ask_for_huge_pages(reinterpret_cast<void*>(begin), kHeap);
  std::free(block);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(kLeastMapping));
#endif
}

}  // namespace smelt::cli
