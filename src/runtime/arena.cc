#include "runtime/arena.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace smelt {
namespace {

constexpr size_t kAlign = 64;
size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }
bool meet(const ArenaItem& a, const ArenaItem& b) { return a.first <= b.last && b.first <= a.last; }

/// Lowest offset at which `item` fits among the placed items (sorted by offset) that live at the same time.
size_t lowest_gap(const ArenaItem& item, const std::vector<const ArenaItem*>& placed) {
  size_t at = 0;
  for (const ArenaItem* p : placed) {
    if (!meet(item, *p)) continue;
    if (at + aligned(item.bytes) <= p->offset) break;
    at = std::max(at, p->offset + aligned(p->bytes));
  }
  return at;
}

}  // namespace

size_t plan_arena(std::vector<ArenaItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const bool by_size = items.size() <= 4096;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return by_size ? items[a].bytes > items[b].bytes : items[a].first < items[b].first;
  });
  std::vector<const ArenaItem*> placed;
  size_t total = 0;
  for (size_t i : order) {
    ArenaItem& item = items[i];
    if (!by_size) std::erase_if(placed, [&](const ArenaItem* p) { return p->last < item.first; });
    item.offset = lowest_gap(item, placed);
    total = std::max(total, item.offset + aligned(item.bytes));
    const auto where = std::upper_bound(placed.begin(), placed.end(), item.offset,
                                        [](size_t offset, const ArenaItem* p) { return offset < p->offset; });
    placed.insert(where, &item);
  }
  return total;
}

size_t arena_lower_bound(const std::vector<ArenaItem>& items) {
  int last = 0;
  for (const ArenaItem& i : items) last = std::max(last, i.last);
  std::vector<int64_t> change(static_cast<size_t>(last) + 2, 0);
  for (const ArenaItem& i : items) {
    change[static_cast<size_t>(i.first)] += static_cast<int64_t>(aligned(i.bytes));
    change[static_cast<size_t>(i.last) + 1] -= static_cast<int64_t>(aligned(i.bytes));
  }
  int64_t now = 0, most = 0;
  for (int64_t c : change) most = std::max(most, now += c);
  return static_cast<size_t>(most);
}

void ScratchStack::Free::operator()(void* p) const { std::free(p); }

void* ScratchStack::take(size_t bytes) {
  const size_t need = aligned(bytes) + kAlign;
  while (current_ < blocks_.size() && used_ + need > blocks_[current_].size) {
    ++current_;
    used_ = 0;
  }
  if (current_ == blocks_.size()) {
    const size_t size = std::max(need, blocks_.empty() ? size_t{1} << 16 : blocks_.back().size);
    void* p = std::aligned_alloc(kAlign, size);
    if (!p) return nullptr;
    blocks_.push_back({std::unique_ptr<void, Free>(p), size});
    used_ = 0;
  }
  void* p = static_cast<char*>(blocks_[current_].data.get()) + used_;
  used_ += need;
  return p;
}

size_t ScratchStack::held() const {
  size_t n = 0;
  for (const Block& b : blocks_) n += b.size;
  return n;
}

}  // namespace smelt
