#include "base/large_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace smelt {

constexpr size_t kHugePage = size_t{2} << 20;

void* allocate_large(size_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, bytes >= kHugePage ? kHugePage : 64, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return p;
}

bool is_worth_mapping([[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return bytes >= size_t{1} << 17;
#endif
}

void* map_zeroed(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const size_t whole = huge ? bytes + kHugePage : bytes;
  void* const mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (!huge) return mapped;
  // The pages before and behind the first aligned block go back.
  auto* const begin = static_cast<std::byte*>(mapped);
  std::byte* const p = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), used = (bytes + page - 1) / page * page;
  if (p > begin) ::munmap(begin, static_cast<size_t>(p - begin));
  if (begin + whole > p + used) ::munmap(p + used, static_cast<size_t>(begin + whole - (p + used)));
#ifdef MADV_HUGEPAGE
  ::madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return p;
}

void unmap_zeroed(void* memory, size_t bytes) { ::munmap(memory, bytes); }

}  // namespace smelt
