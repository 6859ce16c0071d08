#include "base/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>

namespace smelt {
namespace {

HugePageChoice& choice() {
  static HugePageChoice c;
  return c;
}

thread_local int quick_pages = 0;  ///< objects of QuickPages that live

bool worth_asking(HugePageChoice::Clock::time_point now = HugePageChoice::Clock::now()) {
  if (quick_pages > 0) {
    static const bool are_slow = reports_free_memory();
    if (are_slow) return false;
  }
  return choice().worth_asking(now);
}

void advise([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes > 0) ::madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace

QuickPages::QuickPages() { ++quick_pages; }
QuickPages::~QuickPages() { --quick_pages; }

bool reports_free_memory(const char* path) {
  constexpr int kMostOrder = 30;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[16];
  const ssize_t bytes = ::read(file, text, sizeof text);
  ::close(file);
  int order = -1;
  return bytes > 0 && std::from_chars(text, text + bytes, order).ec == std::errc() && order >= 0 && order <= kMostOrder;
}

void ask_for_huge_pages(void* begin, size_t bytes) {
  if (worth_asking()) advise(begin, bytes);
}

void fill_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  auto* const first = static_cast<std::byte*>(begin);
  for (size_t at = 0; at < bytes; at += kHugePage) {
    const auto start = HugePageChoice::Clock::now();
    if (!worth_asking(start)) return;
    advise(first + at, kHugePage);
    // Adds nothing: another thread may write here already.
    std::atomic_ref(*reinterpret_cast<unsigned char*>(first + at)).fetch_or(0);
    choice().filled(start, HugePageChoice::Clock::now());
  }
#endif
}

void join_pages_later(void* begin, size_t bytes) { advise(begin, bytes); }

}  // namespace smelt
