#include "base/huge_pages.h"

#include <sys/mman.h>

namespace smelt {
namespace {

HugePageChoice& choice() {
  static HugePageChoice c;
  return c;
}

void advise([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes > 0) ::madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace

void ask_for_huge_pages(void* begin, size_t bytes) {
  if (choice().worth_asking()) advise(begin, bytes);
}

void fill_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  auto* const first = static_cast<std::byte*>(begin);
  for (size_t at = 0; at < bytes; at += kHugePage) {
    const auto start = HugePageChoice::Clock::now();
    if (!choice().worth_asking(start)) return;
    advise(first + at, kHugePage);
    // Adds nothing: another thread may write here already.
    std::atomic_ref(*reinterpret_cast<unsigned char*>(first + at)).fetch_or(0);
    choice().filled(start, HugePageChoice::Clock::now());
  }
#endif
}

void join_pages_later(void* begin, size_t bytes) { advise(begin, bytes); }

}  // namespace smelt
