#include "base/recycled_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/huge_pages.h"
#include "base/large_memory.h"

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
  memory_ = map_before_huge_pages(bytes_, small_);
  filled_ = small_;
  return !memory_.empty();
}

void* RecycledMemory::take(size_t bytes, Contents contents) {
  if (bytes > bytes_) return nullptr;
  bytes = round_up(std::max<size_t>(bytes, 1), size_t{64});
  if (bytes <= lent_.size() - lent_used_) {
    std::byte* const p = lent_.data() + std::exchange(lent_used_, lent_used_ + bytes);
    if (contents == Contents::kZeros) std::memset(p, 0, bytes);
    return p;
  }
  if (bytes > bytes_ - used_ || (memory_.empty() && !map())) return nullptr;
  std::byte* const p = memory_.data() + used_;
  used_ += bytes;
  while (filled_ < used_ && filled_ + kHugePage <= bytes_) {
    fill_huge_pages(memory_.data() + filled_, kHugePage);
    filled_ += kHugePage;
  }
  std::byte* const touched = memory_.data() + touched_;
  if (contents == Contents::kZeros && touched > p) std::memset(p, 0, std::min(bytes, static_cast<size_t>(touched - p)));
  touched_ = std::max(touched_, used_);
  return p;
}

void RecycledMemory::release() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  memory_ = {};
  used_ = touched_ = filled_ = 0;
}

}  // namespace smelt
