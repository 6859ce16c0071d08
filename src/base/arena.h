#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace smelt {

/// A buffer that must exist from step `first` to step `last`, both included.
struct ArenaItem {
  size_t bytes = 0;
  int first = 0, last = 0;
  size_t offset = 0;  ///< result of plan_arena
  int32_t id = -1;    ///< the caller's
};

/// Gives every item an offset (64-byte aligned) so that items whose lifetimes meet never overlap. Greedy by size with
/// the lowest gap that fits, then, some rounds, with what stuck out placed first; beyond 4096 items first-fit in order
/// of first use. Returns the arena's size.
size_t plan_arena(std::vector<ArenaItem>& items);

/// Largest sum of bytes alive at one step: no plan can need less.
size_t arena_lower_bound(const std::vector<ArenaItem>& items);

/// Memory that goes back the way it came from.
class WorkMemory {
 public:
  static constexpr size_t kLarge = size_t{1} << 20;  ///< from here on blocks have pages of their own
  /// Without contents, aligned to 64 bytes. Small blocks come from a huge page that weights have begun, where one has
  /// enough left. False: there is no memory.
  bool allocate(size_t bytes);
  void* get() const { return data_.get(); }

 private:
  struct Free {
    void (*unmap)(void* memory, size_t bytes);  ///< nullptr: memory of std::malloc()'s kind
    size_t bytes;
    void operator()(void* p) const { unmap ? unmap(p, bytes) : std::free(p); }
  };
  std::unique_ptr<void, Free> data_{nullptr, Free{nullptr, 0}};
};

/// Memory of activations, allocated without contents.
class ArenaMemory {
 public:
  /// Null: there is no memory.
  static std::shared_ptr<ArenaMemory> make(size_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  size_t bytes() const { return bytes_; }

 private:
  WorkMemory data_;
  size_t bytes_ = 0;
};

/// Scratch memory handed out as a stack; blocks are kept, so a repeated run allocates nothing.
class ScratchStack {
 public:
  struct Mark {
    size_t block, used;
  };
  Mark mark() const { return {current_, used_}; }
  void release(Mark m) {
    current_ = m.block;
    used_ = m.used;
  }
  /// 64-byte aligned, at least 64 bytes of slack behind; null when no memory is left.
  void* take(size_t bytes);
  size_t held() const;
  /// Makes one block of what a take() of that many bytes needs in place of smaller ones. Does nothing where one is as
  /// large, or while memory is taken, or where there is none.
  void reserve(size_t bytes);

 private:
  struct Block {
    WorkMemory data;
    size_t size;
  };
  /// False: there is no memory.
  bool add_block(size_t bytes);

  std::vector<Block> blocks_;
  size_t current_ = 0, used_ = 0;
};

}  // namespace smelt
