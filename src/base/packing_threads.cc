#include "base/packing_threads.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/large_memory.h"

namespace smelt {
namespace {
thread_local ThreadPool* packing_pool = nullptr;
}  // namespace

PackingThreads::Use::Use(ThreadPool& pool) : before_(std::exchange(packing_pool, &pool)) {}
PackingThreads::Use::~Use() { packing_pool = before_; }

int64_t PackingThreads::count(int64_t bytes) {
  constexpr int64_t kLeast = 64 * 1024;  // of a thread, which may have to be woken for it
  return packing_pool ? std::clamp<int64_t>(bytes / kLeast, 1, packing_pool->threads()) : 1;
}

[[gnu::cold]] void PackingThreads::share(int64_t n, int64_t ranges, size_t bytes,
                                         const std::function<void(int64_t begin, int64_t end, void* copy)>& body) {
  ranges = std::min(n, ranges);
  if (ranges <= 0) return;
  const size_t apart = round_up(std::max<size_t>(bytes, 1), size_t{64});
  const std::unique_ptr<void, decltype(&std::free)> copies(allocate_large(apart * static_cast<size_t>(ranges)),
                                                           std::free);
  if (!copies) throw std::bad_alloc();
  const auto run = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      body(n * i / ranges, n * (i + 1) / ranges, static_cast<char*>(copies.get()) + static_cast<size_t>(i) * apart);
  };
  if (ranges == 1) return run(0, 1);
  packing_pool->parallel_for(ranges, 1, run);
}

}  // namespace smelt
