#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <tuple>
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

TEST(ThreadPool, ChunksAreAboutAsLargeAndBeginAtMultiplesOfTheGrainsPowerOfTwo) {
  ThreadPool pool(2);
  for (const auto& [n, grain, chunks, smallest, unit] :
       {std::tuple<int64_t, int64_t, int, int64_t, int64_t>{25, 3, 10, 2, 1},
        {100000, 16384, 8, 12480, 64},
        {3, 1, 3, 1, 1},
        {25, 8, 4, 1, 8},
        {1000, 300, 4, 248, 4}}) {
    std::atomic<int> seen = 0;
    pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
      ++seen;
      EXPECT_EQ(begin % unit, 0) << n;
      EXPECT_GE(end - begin, smallest) << n;
      EXPECT_LE(end - begin, grain) << n;
    });
    EXPECT_EQ(seen, chunks) << n;
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
