#include "base/arena.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/huge_pages.h"
#include "base/large_memory.h"

namespace smelt {
namespace {

constexpr size_t kAlign = 64;
size_t aligned(size_t n) { return round_up(n, kAlign); }

/// A placed item: from `offset` to `end` while steps `first` to `last` run.
struct Placed {
  size_t offset, end;
  int first, last;
};

/// The placed items, those that live for some steps only apart by blocks of steps: most items meet few others.
class PlacedItems {
 public:
  explicit PlacedItems(const std::vector<ArenaItem>& items) {
    int last = 0;
    for (const ArenaItem& item : items) last = std::max(last, item.last);
    of_block_.resize(block(last) + 1);
  }
  /// Lowest offset at which `item` fits among the placed items that live at the same time.
  size_t lowest_gap(const ArenaItem& item) {
    const size_t bytes = aligned(item.bytes);
    const int first = item.first, last = item.last;
    ahead_.clear();
    const auto look_at = [&](const std::vector<Placed>& list) {
      if (!list.empty()) ahead_.push_back({list.data(), list.data() + list.size()});
    };
    look_at(long_);
    for (size_t i = block(first); i <= block(last); ++i) look_at(of_block_[i]);
    size_t at = 0;
    for (bool moves = true; moves;) {
      moves = false;
      for (auto& [p, end] : ahead_)
        for (; p < end && p->offset < at + bytes; ++p)  // none behind is in the way, until `at` moves
          if (first <= p->last && p->first <= last && p->end > at) {
            at = p->end;
            moves = true;
          }
    }
    return at;
  }
  void add(const Placed& p) {
    if (is_long(p)) return insert(p, long_);
    for (size_t i = block(p.first); i <= block(p.last); ++i) insert(p, of_block_[i]);
  }
  /// No item to come lives before this step.
  void forget_before(int step) {
    std::erase_if(long_, [&](const Placed& p) { return p.last < step; });
  }

 private:
  static constexpr int kBlock = 16, kShort = 48;  ///< steps
  static size_t block(int step) { return static_cast<size_t>(step / kBlock); }
  static bool is_long(const Placed& p) { return p.last - p.first > kShort; }
  static void insert(const Placed& p, std::vector<Placed>& list) {
    const auto where = std::upper_bound(list.begin(), list.end(), p.offset,
                                        [](size_t offset, const Placed& other) { return offset < other.offset; });
    list.insert(where, p);
  }

  // Sorted by offset.
  std::vector<Placed> long_;
  std::vector<std::vector<Placed>> of_block_;
  std::vector<std::pair<const Placed*, const Placed*>> ahead_;  ///< of lowest_gap(): what it has not looked at
};

/// Places items one after another. Returns the arena's size.
size_t place(std::vector<ArenaItem>& items, const std::vector<size_t>& order, bool by_time) {
  PlacedItems placed(items);
  size_t total = 0;
  for (size_t i : order) {
    ArenaItem& item = items[i];
    if (by_time) placed.forget_before(item.first);
    item.offset = placed.lowest_gap(item);
    const size_t end = item.offset + aligned(item.bytes);
    total = std::max(total, end);
    placed.add({item.offset, end, item.first, item.last});
  }
  return total;
}

/// Places what stuck out earlier, again and again, as long as the effort lasts. `total` is what placing in `order`
/// gave.
size_t improve(std::vector<ArenaItem>& items, std::vector<size_t> order, size_t total) {
  constexpr size_t kEffort = size_t{1} << 19;
  const size_t least = arena_lower_bound(items);
  std::vector<ArenaItem> trial = items;
  for (size_t rounds = std::min<size_t>(kEffort / (items.size() * items.size() + 1), 64); rounds > 0 && total > least;
       --rounds) {
    const auto top = std::max_element(order.begin(), order.end(), [&](size_t a, size_t b) {
      return trial[a].offset + aligned(trial[a].bytes) < trial[b].offset + aligned(trial[b].bytes);
    });
    std::rotate(order.begin(), top, top + 1);
    const size_t now = place(trial, order, false);
    if (now >= total) continue;
    total = now;
    items = trial;
  }
  return total;
}

}  // namespace

size_t plan_arena(std::vector<ArenaItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const bool by_time = items.size() > 4096;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return by_time ? items[a].first < items[b].first : items[a].bytes > items[b].bytes;
  });
  size_t total = place(items, order, by_time);
  if (by_time) return total;
  total = improve(items, order, total);
  // What lives long placed first suits networks whose layers read those of all layers before.
  constexpr size_t kTwoOrders = 1024;  // beyond, a second plan takes too long
  if (items.size() > kTwoOrders || total <= arena_lower_bound(items)) return total;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return items[a].last - items[a].first > items[b].last - items[b].first; });
  std::vector<ArenaItem> trial = items;
  const size_t by_lifetime = improve(trial, order, place(trial, order, false));
  if (by_lifetime >= total) return total;
  items = std::move(trial);
  return by_lifetime;
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

bool WorkMemory::allocate(size_t bytes) {
  if (is_worth_mapping(bytes)) {
    const bool large = bytes >= kLarge;
    void* const mapped = large ? map_zeroed(bytes) : map_begun_block(bytes);
    if (mapped) data_ = {mapped, Free{large ? unmap_zeroed : unmap_block, bytes}};
    if (mapped || large) return mapped != nullptr;
  }
  data_ = {allocate_large(bytes), Free{nullptr, bytes}};
  return data_ != nullptr;
}

std::shared_ptr<ArenaMemory> ArenaMemory::make(size_t bytes) {
  auto memory = std::make_shared<ArenaMemory>();
  memory->bytes_ = bytes;
  return memory->data_.allocate(bytes) ? memory : nullptr;
}

void* ScratchStack::take(size_t bytes) {
  const size_t need = aligned(bytes) + kAlign;
  while (current_ < blocks_.size() && used_ + need > blocks_[current_].size) {
    ++current_;
    used_ = 0;
  }
  if (current_ == blocks_.size()) {
    if (!add_block(std::max(need, blocks_.empty() ? size_t{1} << 16 : blocks_.back().size))) return nullptr;
    used_ = 0;
  }
  void* p = static_cast<char*>(blocks_[current_].data.get()) + used_;
  used_ += need;
  return p;
}

bool ScratchStack::add_block(size_t bytes) {
  Block block{{}, bytes};
  if (!block.data.allocate(bytes)) return false;
  blocks_.push_back(std::move(block));
  return true;
}

void ScratchStack::reserve(size_t bytes) {
  const size_t need = aligned(bytes) + kAlign;
  if (current_ > 0 || used_ > 0 || std::ranges::any_of(blocks_, [&](const Block& b) { return b.size >= need; })) return;
  blocks_.clear();
  add_block(need);
}

size_t ScratchStack::held() const {
  size_t n = 0;
  for (const Block& b : blocks_) n += b.size;
  return n;
}

}  // namespace smelt
