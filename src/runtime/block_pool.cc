#include "runtime/block_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/checked.h"

namespace smelt {

BlockPool::~BlockPool() {
  for (const Block& b : blocks_) std::free(b.memory);
}

size_t BlockPool::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

/// The smallest block that is large enough and wastes no more than it serves; else a new one.
BlockPool::Block BlockPool::find(size_t bytes) {
  constexpr size_t kAlign = 64;
  const std::lock_guard lock(mutex_);
  auto best = blocks_.end();
  for (auto b = blocks_.begin(); b != blocks_.end(); ++b)
    if (b->bytes >= bytes && b->bytes / 2 <= bytes && (best == blocks_.end() || b->bytes < best->bytes)) best = b;
  Block found{nullptr, round_up(bytes, kAlign)};
  if (best != blocks_.end()) {
    found = *best;
    blocks_.erase(best);
    waiting_ -= found.bytes;
  } else if (found.memory = std::aligned_alloc(kAlign, found.bytes); !found.memory) {
    return found;
  }
  used_ += found.bytes;
  most_used_ = std::max(most_used_, used_);
  return found;
}

void BlockPool::give_back(Block block) noexcept {
  const std::lock_guard lock(mutex_);
  used_ -= block.bytes;
  waiting_ += block.bytes;
  try {
    blocks_.push_back(block);
  } catch (const std::bad_alloc&) {
    waiting_ -= block.bytes;
    std::free(block.memory);
  }
  auto kept = blocks_.begin();
  for (const size_t most = std::min(kMost, most_used_); waiting_ > most; ++kept) {
    waiting_ -= kept->bytes;
    std::free(kept->memory);
  }
  blocks_.erase(blocks_.begin(), kept);
}

std::shared_ptr<void> BlockPool::take(size_t bytes) {
  const Block block = find(bytes);
  if (!block.memory) return nullptr;
  try {
    return {block.memory, [pool = weak_from_this(), block](void*) {
              if (const auto p = pool.lock())
                p->give_back(block);
              else
                std::free(block.memory);
            }};
  } catch (const std::bad_alloc&) {  // the block is back
    return nullptr;
  }
}

}  // namespace smelt
