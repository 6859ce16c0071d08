#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
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
  struct Case {
    int64_t n, grain, smallest, unit;
    int chunks;
  };
  for (const Case& c : {Case{25, 3, 2, 1, 10}, Case{100000, 16384, 12480, 64, 8}, Case{3, 1, 1, 1, 3},
                        Case{25, 8, 1, 8, 4}, Case{1000, 300, 248, 4, 4}}) {
    std::atomic<int> seen = 0;
    pool.parallel_for(c.n, c.grain, [&](int64_t begin, int64_t end) {
      ++seen;
      EXPECT_EQ(begin % c.unit, 0) << c.n;
      EXPECT_GE(end - begin, c.smallest) << c.n;
      EXPECT_LE(end - begin, c.grain) << c.n;
    });
    EXPECT_EQ(seen, c.chunks) << c.n;
  }
}

TEST(ThreadPool, OneThreadAloneComputesTheChunksOfSeveral) {
  using Chunk = std::pair<int64_t, int64_t>;
  for (const ThreadPool::Chunks kind : {ThreadPool::Chunks::kAny, ThreadPool::Chunks::kFixed}) {
    ThreadPool pool(3, kind);
    std::array<std::vector<Chunk>, 2> chunks;
    std::mutex adding;
    const auto fill = [&](std::vector<Chunk>& to, bool here) {
      const std::thread::id caller = std::this_thread::get_id();
      pool.parallel_for(1000, 30, [&](int64_t begin, int64_t end) {
        EXPECT_TRUE(!here || std::this_thread::get_id() == caller);
        const std::lock_guard lock(adding);
        to.emplace_back(begin, end);
      });
      std::ranges::sort(to);
    };
    fill(chunks[0], false);
    {
      const ThreadPool::Alone alone;
      fill(chunks[1], true);
    }
    EXPECT_EQ(chunks[0], chunks[1]);
    EXPECT_GT(chunks[0].size(), 3U);
  }
}

TEST(ThreadPool, ThreadsCountAsFarAtFirstAndAfterAPause) {
  ThreadPool one(1), two(2);
  one.rest();
  EXPECT_FALSE(one.near());
  EXPECT_FALSE(two.near()) << "at first";
  for (int run = 0; run < 100; ++run) {
    two.rest();
    two.near();  // either answer may be right
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  EXPECT_FALSE(two.near());
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
