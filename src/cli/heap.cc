#include "cli/heap.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/checked.h"
#include "base/huge_pages.h"
#include "base/large_memory.h"

namespace smelt::cli {

namespace {
/// Of the heap's huge pages, the first of which is filled; nullptr: there is none.
[[maybe_unused]] std::byte* huge_begin = nullptr;
}  // namespace

void grow_heap_by_huge_pages([[maybe_unused]] size_t small, [[maybe_unused]] size_t huge) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
  constexpr int kMost = 64 << 20, kLeastMapped = 128 << 10;  // the latter is glibc's own
  static bool called = false;
  if (std::exchange(called, true)) return;
  constexpr size_t kPage = 4096;
  const QuickPages quick;
  small = std::max(small, kPage);  // a page for the header of the block below
  const auto end = reinterpret_cast<uintptr_t>(::sbrk(0)), begin = round_up(end + small, uintptr_t{kHugePage});
  if (::sbrk(static_cast<intptr_t>(begin - small - end)) == reinterpret_cast<void*>(-1)) return;
  // One block to the end of the heap's new memory: when it is freed, other blocks come from its begin on.
  ::mallopt(M_TRIM_THRESHOLD, kMost);
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  void* volatile block = std::malloc(small + huge);  // volatile: compilers leave out what is freed at once
  const auto at = reinterpret_cast<uintptr_t>(block);
  if (at > end && at <= begin) {
    auto* const pages = reinterpret_cast<std::byte*>(begin);
    if (small > kPage) {
      ask_for_huge_pages(pages, huge);
    } else {  // The first one is certain to be used. The time of others would not be taken, and they may be slow.
      huge_begin = pages;
      fill_huge_pages(pages, kHugePage);
    }
  }
  std::free(block);
  ::mallopt(M_MMAP_THRESHOLD, kLeastMapped);
#endif
}

void trim_heap() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33) && !defined(__SANITIZE_ADDRESS__)
  constexpr size_t kLeast = size_t{256} << 10;
  std::byte* const begin = std::exchange(huge_begin, nullptr);
  if (!begin) return;
  const std::byte* const top = static_cast<std::byte*>(::sbrk(0)) - ::mallinfo2().keepcost;
  const size_t kept = kLeast + (top > begin ? 3 * static_cast<size_t>(top - begin) : 0);
  if (kept < kHugePage) discard_pages(begin + kept, begin + kHugePage);
#endif
}

}  // namespace smelt::cli
