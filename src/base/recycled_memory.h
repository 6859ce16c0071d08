#pragma once

#include <cstddef>
#include <span>

namespace smelt {

/// Memory for contents that are needed one after the other: each overwrites the one before, and the pages stay. All of
/// them take no more pages, and page faults, than the largest. Not thread-safe.
class RecycledMemory {
 public:
  /// `bytes`: the most that can be used at a time; `expected`: the most that is likely to be. Nothing is taken from the
  /// system before it is used.
  explicit RecycledMemory(size_t bytes, size_t expected = 0);
  ~RecycledMemory() { release(); }
  RecycledMemory(const RecycledMemory&) = delete;
  RecycledMemory& operator=(const RecycledMemory&) = delete;

  enum class Contents : unsigned char { kZeros, kAny };
  /// Memory aligned to 64 bytes, until the next reset(). nullptr where not so much is left.
  void* take(size_t bytes, Contents contents = Contents::kZeros);
  void reset() { used_ = lent_used_ = 0; }
  /// take() hands out `memory` first, of any contents and aligned to 64 bytes, until the next lend(). Precondition:
  /// nothing is taken since the last reset().
  void lend(std::span<std::byte> memory) { lent_ = memory; }
  /// All pages go back to the system.
  void release();

  /// The memory that the calling thread uses; nullptr: none.
  static RecycledMemory* current();
  /// While it lives, current() of the calling thread is `memory`, which it resets at its end.
  class Use {
   public:
    explicit Use(RecycledMemory& memory);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    RecycledMemory* before_;
  };

 private:
  bool map();

  size_t bytes_;
  size_t small_;                 ///< bytes of small pages, before huge ones
  std::span<std::byte> memory_;  ///< empty: not mapped
  size_t used_ = 0;
  size_t touched_ = 0;  ///< bytes from the first on that may be other than zero
  size_t filled_ = 0;   ///< huge pages were asked for up to here
  std::span<std::byte> lent_;
  size_t lent_used_ = 0;
};

}  // namespace smelt
