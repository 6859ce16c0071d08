#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

namespace smelt {

constexpr size_t kHugePage = size_t{2} << 20;

/// Says when huge pages are worth asking for. Where memory is fragmented the system may move other pages together for
/// each huge page that it gives: that takes ten times as long as the small pages would. After such a page none are
/// asked for until kPause has passed. Thread-safe.
class HugePageChoice {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kSlow{700};  ///< filling one with zeros takes about 100 to 300
  static constexpr std::chrono::milliseconds kPause{20};

  bool worth_asking(Clock::time_point now = Clock::now()) const { return now >= resume_.load(); }
  /// A huge page was first written at `begin`, and the write had ended at `end`.
  void filled(Clock::time_point begin, Clock::time_point end) {
    if (end - begin > kSlow) resume_.store(end + kPause);
  }

 private:
  std::atomic<Clock::time_point> resume_{};
};

/// Asks for huge pages for the aligned memory [begin, begin + bytes), `bytes` a multiple of kHugePage. The system gives
/// one where a page is first written.
void ask_for_huge_pages(void* begin, size_t bytes);

/// Gives the aligned memory [begin, begin + bytes), all of which is about to be written, its huge pages at once, for as
/// long as HugePageChoice finds them worth asking for. `bytes`: a multiple of kHugePage.
void fill_huge_pages(void* begin, size_t bytes);

/// For memory that is written: the system may join small pages to huge ones, aside and when it likes.
void join_pages_later(void* begin, size_t bytes);

}  // namespace smelt
