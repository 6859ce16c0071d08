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
};

/// Gives every item an offset (64-byte aligned) so that items whose lifetimes meet never overlap. Greedy by size with
/// the lowest gap that fits, then, some rounds, with what stuck out placed first; beyond 4096 items first-fit in order
/// of first use. Returns the arena's size.
size_t plan_arena(std::vector<ArenaItem>& items);

/// Largest sum of bytes alive at one step: no plan can need less.
size_t arena_lower_bound(const std::vector<ArenaItem>& items);

/// Memory of activations, allocated without contents.
class ArenaMemory {
 public:
  /// Null: there is no memory.
  static std::shared_ptr<ArenaMemory> make(size_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    size_t mapped;  ///< bytes of map_zeroed(); 0: memory of allocate_large()
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_{nullptr, Free{0}};
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
  struct Free {
    void operator()(void* p) const;
  };
  struct Block {
    std::unique_ptr<void, Free> data;
    size_t size;
  };
  /// False: there is no memory.
  bool add_block(size_t bytes);

  std::vector<Block> blocks_;
  size_t current_ = 0, used_ = 0;
};

}  // namespace smelt
