#include "base/recycled_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/huge_pages.h"

namespace smelt {
namespace {

constexpr size_t kMost = size_t{1} << 40;

thread_local RecycledMemory* in_use = nullptr;

}  // namespace

RecycledMemory* RecycledMemory::current() { return in_use; }
RecycledMemory::Use::Use(RecycledMemory& memory) : before_(std::exchange(in_use, &memory)) {}
RecycledMemory::Use::~Use() { std::exchange(in_use, before_)->reset(); }

RecycledMemory::RecycledMemory(size_t bytes, size_t expected)
    : bytes_(round_up(std::min(bytes, kMost), kHugePage)), small_(expected >= kFillsHugePage ? 0 : kSmallPages) {}

bool RecycledMemory::map() {
  const size_t whole = bytes_ + 2 * kHugePage;
  void* const mapped =
      ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  // From `small_` before an aligned address on.
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t first = 2 * kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage - small_;
  ::munmap(begin, first);
  if (whole > first + bytes_) ::munmap(begin + first + bytes_, whole - first - bytes_);
  memory_ = begin + first;
  filled_ = small_;
  return true;
}

void* RecycledMemory::take(size_t bytes) {
  if (bytes > bytes_) return nullptr;
  bytes = round_up(std::max<size_t>(bytes, 1), size_t{64});
  if (bytes > bytes_ - used_ || (!memory_ && !map())) return nullptr;
  std::byte* const p = memory_ + used_;
  used_ += bytes;
  while (filled_ < used_ && filled_ + kHugePage <= bytes_) {
    fill_huge_pages(memory_ + filled_, kHugePage);
    filled_ += kHugePage;
  }
  std::byte* const touched = memory_ + touched_;
  if (touched > p) std::memset(p, 0, std::min(bytes, static_cast<size_t>(touched - p)));
  touched_ = std::max(touched_, used_);
  return p;
}

void RecycledMemory::release() {
  if (memory_) ::munmap(memory_, bytes_);
  memory_ = nullptr;
  used_ = touched_ = filled_ = 0;
}

}  // namespace smelt
