#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace smelt {

/// Memory of nodes that allocate as they run. Blocks that end serve later nodes, and later runs: pages that the system
/// hands out anew cost about as much as what is written to them. Thread-safe.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  static constexpr size_t kLeast = size_t{1} << 17;  ///< bytes; malloc keeps the pages of smaller blocks itself
  /// Bytes of blocks that wait; also no more than were once in use together.
  static constexpr size_t kMost = size_t{1} << 26;

  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// At least so many bytes, aligned to 64, of undefined contents; null: there is no memory. They may outlive the pool.
  std::shared_ptr<void> take(size_t bytes);
  /// Bytes of blocks that wait.
  size_t waiting() const;

 private:
  struct Block {
    void* memory;
    size_t bytes;
  };
  Block find(size_t bytes);
  void give_back(Block block) noexcept;

  mutable std::mutex mutex_;
  std::vector<Block> blocks_;                      ///< that wait, the oldest first
  size_t waiting_ = 0, used_ = 0, most_used_ = 0;  ///< bytes
};

}  // namespace smelt
