#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/thread_pool.h"

namespace smelt {

/// The threads that weights are packed by.
class PackingThreads {
 public:
  /// While one lives, what its thread packs is shared with the threads of `pool`.
  class Use {
   public:
    explicit Use(ThreadPool& pool);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ThreadPool* before_;
  };

  /// As many as gain for weights of so many bytes; 1: the calling one alone.
  static int64_t count(int64_t bytes);
  /// Calls body(begin, end, copy) for at most `ranges` that cover [0, n), each on one of those threads. copy:
  /// uninitialised memory of `bytes`, aligned to 64 bytes, of that range alone. Memory that a thread allocates itself
  /// would be new to it each time. Precondition: `ranges` is at most what count() said.
  static void share(int64_t n, int64_t ranges, size_t bytes,
                    const std::function<void(int64_t begin, int64_t end, void* copy)>& body);
};

}  // namespace smelt
