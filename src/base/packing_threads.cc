#include "base/packing_threads.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/large_memory.h"

namespace smelt {
namespace {
thread_local ThreadPool* packing_pool = nullptr;
thread_local PackingThreads::Copies* packing_copies = nullptr;
}  // namespace

void* PackingThreads::Copies::take(size_t bytes) {
  constexpr size_t kLeast = size_t{128} << 10;  // what most weights need: a larger block would have other pages
  if (bytes > bytes_) {
    release();
    bytes = std::max(bytes, kLeast);
    memory_.reset(allocate_large(bytes));
    if (!memory_) throw std::bad_alloc();
    bytes_ = bytes;
  }
  return memory_.get();
}

void PackingThreads::Copies::release() {
  memory_.reset();
  bytes_ = 0;
}

PackingThreads::Use::Use(ThreadPool& pool, Copies& copies)
    : pool_before_(std::exchange(packing_pool, &pool)), copies_before_(std::exchange(packing_copies, &copies)) {}

PackingThreads::Use::~Use() {
  packing_pool = pool_before_;
  packing_copies = copies_before_;
}

int64_t PackingThreads::count(int64_t bytes) {
  constexpr int64_t kLeast = 64 * 1024;  // of a thread, which may have to be woken for it
  return packing_pool ? std::clamp<int64_t>(bytes / kLeast, 1, packing_pool->threads()) : 1;
}

[[gnu::cold]] void PackingThreads::share(int64_t n, int64_t ranges, size_t bytes,
                                         const std::function<void(int64_t begin, int64_t end, void* copy)>& body) {
  ranges = std::min(n, ranges);
  if (ranges <= 0) return;
  const size_t apart = round_up(std::max<size_t>(bytes, 1), size_t{64});
  Copies own;
  void* const copies = (packing_copies ? *packing_copies : own).take(apart * static_cast<size_t>(ranges));
  const auto run = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      body(n * i / ranges, n * (i + 1) / ranges, static_cast<char*>(copies) + static_cast<size_t>(i) * apart);
  };
  if (ranges == 1) return run(0, 1);
  packing_pool->parallel_for(ranges, 1, run);
}

}  // namespace smelt
