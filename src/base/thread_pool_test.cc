#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <vector>

namespace smelt {
namespace {

TEST(ThreadPool, EveryIndexComesOnce) {
  for (int threads : {-1, 1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      pool.parallel_for(n, 3, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& s : seen) EXPECT_EQ(s, 1);
    }
  }
}

TEST(ThreadPool, WhatATaskThrowsComesToTheCaller) {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 10; ++round) {
      EXPECT_THROW(pool.parallel_for(100, 1,
                                     [&](int64_t begin, int64_t) {
                                       if (begin % 3 == 0) throw std::bad_alloc();
                                     }),
                   std::bad_alloc);
      std::atomic<int> calls = 0;
      pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { calls += static_cast<int>(end - begin); });
      EXPECT_EQ(calls, 100);
    }
  }
}

}  // namespace
}  // namespace smelt
