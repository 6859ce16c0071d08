#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace smelt {

constexpr size_t kHugePage = size_t{2} << 20;
/// What stays in small pages before huge ones are asked for: what small models need does not fill one.
constexpr size_t kSmallPages = size_t{1} << 19;
/// What takes less time in a huge page.
constexpr size_t kFillsHugePage = size_t{3} << 18;

/// Says when huge pages are worth asking for. Where memory is fragmented the system may move other pages together for
/// each huge page that it gives, or a host may have to find it: that takes up to ten times as long as the small pages
/// would, and the next one is likely to take as long. After such a page none are asked for until kPauses times that
/// long has passed, in which most models load, and four times longer after each further one. Thread-safe.
class HugePageChoice {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kSlow{1000};  ///< filling one with zeros takes about 100 to 300
  static constexpr int kPauses = 64, kMostPauses = 1024;

  bool worth_asking(Clock::time_point now = Clock::now()) const { return now >= resume_.load(); }
  /// A huge page was first written at `begin`, and the write had ended at `end`.
  void filled(Clock::time_point begin, Clock::time_point end) {
    if (end - begin <= kSlow) return pauses_.store(kPauses);
    const int pauses = pauses_.load();
    resume_.store(end + pauses * (end - begin));
    pauses_.store(std::min(4 * pauses, kMostPauses));
  }

 private:
  std::atomic<Clock::time_point> resume_{};
  std::atomic<int> pauses_ = kPauses;
};

/// While one lives, the calling thread is given huge pages only where they come quickly: not where a host takes back
/// free memory, which is mostly memory of huge pages, and takes milliseconds to give one again. For what has to be
/// there soon, as the memory of a first run.
class QuickPages {
 public:
  QuickPages();
  ~QuickPages();
  QuickPages(const QuickPages&) = delete;
  QuickPages& operator=(const QuickPages&) = delete;
};

/// True if the system reports free memory to a host, which takes it back. `path`: the module parameter that gives the
/// order of the blocks reported, a power of two of pages; negative where none are.
bool reports_free_memory(const char* path = "/sys/module/page_reporting/parameters/page_reporting_order");

/// Asks for huge pages for the aligned memory [begin, begin + bytes), `bytes` a multiple of kHugePage. The system gives
/// one where a page is first written.
void ask_for_huge_pages(void* begin, size_t bytes);

/// Gives the aligned memory [begin, begin + bytes), all of which is about to be written, its huge pages at once, for as
/// long as HugePageChoice finds them worth asking for. `bytes`: a multiple of kHugePage.
void fill_huge_pages(void* begin, size_t bytes);

/// For memory that is written: the system may join small pages to huge ones, aside and when it likes.
void join_pages_later(void* begin, size_t bytes);

}  // namespace smelt
