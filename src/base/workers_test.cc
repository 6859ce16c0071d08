#include "base/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

namespace smelt {
namespace {

template <class F>
void share(Workers& workers, int64_t chunks, F&& body) {
  using Body = std::remove_reference_t<F>;
  workers.run(
      {[](void* f, int64_t begin, int64_t end) { (*static_cast<Body*>(f))(begin, end); }, &body, {chunks, 1, chunks}});
}

TEST(Workers, EveryChunkRunsOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    Workers workers(threads);
    for (int round = 0; round < 300; ++round) {
      const int64_t chunks = round % 23;
      std::vector<std::atomic<int>> times(static_cast<size_t>(chunks));
      share(workers, chunks, [&](int64_t begin, int64_t end) {
        ASSERT_EQ(end, begin + 1);
        ++times[static_cast<size_t>(begin)];
      });
      for (const auto& t : times) ASSERT_EQ(t, 1) << threads << " threads, " << chunks << " chunks";
    }
  }
}

TEST(Workers, WhatAJobWroteTheNextOneReads) {
  Workers workers(4);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 2000; ++round)
    share(workers, 64, [&](int64_t i, int64_t) { values[static_cast<size_t>((i + round) % 64)] += i; });
  int64_t sum = 0;
  for (const int64_t v : values) sum += v;
  EXPECT_EQ(sum, 2000 * 63 * 64 / 2);
}

TEST(Workers, WhoIsDoneTakesFromOthers) {
  // A caller whose first chunk waits for all others: the chunks behind it in its own share have to be taken.
  Workers workers(2);
  std::atomic<int> done = 0;
  share(workers, 8, [&](int64_t i, int64_t) {
    if (i == 0)
      while (done < 7) std::this_thread::yield();
    ++done;
  });
  EXPECT_EQ(done, 8);
}

TEST(Workers, ThreadsThatSleepAreWoken) {
  Workers workers(3);
  for (int pause = 0; pause < 3; ++pause) {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    std::atomic<int> met = 0;
    // All three have to be there at once.
    share(workers, 3, [&](int64_t, int64_t) {
      ++met;
      while (met < 3) std::this_thread::yield();
    });
    EXPECT_EQ(met, 3);
  }
}

TEST(Workers, CallersTakeTurns) {
  Workers workers(3);
  std::atomic<int> inside = 0, jobs = 0;
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        int64_t expected = 0;
        std::atomic<int64_t> sum = 0;
        for (int64_t i = 0; i < 10; ++i) expected += i;
        share(workers, 10, [&](int64_t i, int64_t) {
          EXPECT_LE(++inside, 3);
          sum += i;
          --inside;
        });
        EXPECT_EQ(sum, expected);
        ++jobs;
      }
    });
  callers.clear();
  EXPECT_EQ(jobs, 800);
}

TEST(Workers, TheFirstFailureComesToTheCallerAndNothingIsLost) {
  Workers workers(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> calls = 0;
    EXPECT_THROW(share(workers, 12,
                       [&](int64_t i, int64_t) {
                         ++calls;
                         if (i % 4 == 1) throw std::runtime_error("chunk");
                       }),
                 std::runtime_error);
    EXPECT_EQ(calls, 12);
    calls = 0;
    share(workers, 12, [&](int64_t, int64_t) { ++calls; });
    EXPECT_EQ(calls, 12);
  }
}

TEST(Workers, ThreadsSayThatTheyCompute) {
  Workers workers(2);
  EXPECT_FALSE(Workers::Computing::here());
  share(workers, 6, [&](int64_t, int64_t) { EXPECT_TRUE(Workers::Computing::here()); });
  EXPECT_FALSE(Workers::Computing::here());
}

TEST(Workers, TheyMayBeginAndEndWithoutAJob) {
  for (int i = 0; i < 50; ++i) Workers workers(4);
}

}  // namespace
}  // namespace smelt
