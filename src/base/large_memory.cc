#include "base/large_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/huge_pages.h"

namespace smelt {

namespace {
/// Of the whole pages between two addresses.
void advise_pages(std::byte* begin, std::byte* end, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(begin), page);
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, advice);
}
}  // namespace

void discard_pages(std::byte* begin, std::byte* end) { advise_pages(begin, end, MADV_DONTNEED); }

void populate_pages([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::byte* end) {
#ifdef MADV_POPULATE_WRITE
  advise_pages(begin, end, MADV_POPULATE_WRITE);
#endif
}

namespace {
/// A rest of half a huge page or more becomes a whole one. Others, and sizes that are out of all bounds, stay.
size_t in_huge_pages(size_t bytes) {
  const bool rounds = is_worth_mapping(bytes) && bytes < SIZE_MAX / 2 && bytes % kHugePage >= kHugePage / 2;
  return rounds ? round_up(bytes, kHugePage) : bytes;
}

/// Fills the huge pages of `bytes` aligned bytes, in_huge_pages(asked). What was not asked for goes back.
void fill_pages(std::byte* begin, size_t asked, size_t bytes) {
  const size_t huge = bytes / kHugePage * kHugePage;
  fill_huge_pages(begin, huge);
  if (asked < huge) discard_pages(begin + asked, begin + huge);
}
}  // namespace

void* allocate_large(size_t asked) {
  void* p = nullptr;
  const size_t bytes = in_huge_pages(asked);
  if (posix_memalign(&p, bytes >= kHugePage ? kHugePage : 64, bytes) != 0) return nullptr;
  fill_pages(static_cast<std::byte*>(p), asked, bytes);
  return p;
}

bool is_worth_mapping([[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return bytes >= size_t{1} << 17;
#endif
}

void* map_zeroed(size_t asked) {
  if (asked > SIZE_MAX / 2) return nullptr;
  const size_t bytes = in_huge_pages(asked);
  const bool huge = bytes >= kHugePage;
  const size_t whole = huge ? bytes + kHugePage : bytes;
  void* const mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (!huge) return mapped;
  // The pages before and behind the first aligned block go back.
  auto* const begin = static_cast<std::byte*>(mapped);
  std::byte* const p = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), used = (bytes + page - 1) / page * page;
  if (p > begin) ::munmap(begin, static_cast<size_t>(p - begin));
  if (begin + whole > p + used) ::munmap(p + used, static_cast<size_t>(begin + whole - (p + used)));
  fill_pages(p, asked, bytes);
  return p;
}

void unmap_zeroed(void* memory, size_t bytes) { ::munmap(memory, in_huge_pages(bytes)); }

std::span<std::byte> map_before_huge_pages(size_t bytes, size_t small) {
  const size_t whole = bytes + kHugePage;
  void* const mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return {};
  // From `small` before the first or second aligned address on, wherever that many bytes lie before it.
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  const size_t aligned = before < small ? before + kHugePage : before;
  const size_t first = aligned - small;
  if (first > 0) ::munmap(begin, first);
  return {begin + first, whole - first};
}

bool is_worth_sharing_pages([[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return bytes >= 1024;
#endif
}

namespace {

/// A mapping that hands out its bytes once each, from the first on.
struct Chunk {
  std::byte* begin;
  size_t bytes;
  size_t small;                 ///< bytes of small pages at its begin; huge pages follow
  size_t filled = small;        ///< huge pages were asked for up to here
  size_t used = 0, blocks = 0;  ///< blocks: of those handed out, how many are not freed yet
  size_t trimmed = 0;           ///< `used` when trim_blocks() last looked
  bool ends_small = false;      ///< the last bytes before `filled` stay in small pages
};
struct Chunks {
  std::mutex mutex;
  std::vector<Chunk> list;     ///< blocks come from the last one
  size_t expected = 0;         ///< bytes, of expect_blocks(), less those handed out since
  size_t least = kSmallPages;  ///< of expect_blocks()
};
Chunks& chunks() {
  static Chunks& c = *new Chunks;  // outlives every model
  return c;
}
constexpr size_t kChunk = size_t{64} << 20;
constexpr size_t kWorthClearing = size_t{1} << 14;

/// A chunk for blocks of up to `bytes` bytes, its first `small` bytes in small pages; its bytes are 0 when there is no
/// memory.
Chunk map_chunk(size_t bytes, size_t small) {
  const auto mapped = map_before_huge_pages(round_up(std::max(bytes, kChunk), kHugePage), small);
  return {mapped.data(), mapped.size(), small};
}

/// Hands out the next bytes of the chunk.
std::byte* take(Chunk& chunk, size_t bytes) {
  std::byte* const p = chunk.begin + chunk.used;
  chunk.used += bytes;
  ++chunk.blocks;
  return p;
}

size_t block_bytes(size_t bytes) { return round_up(std::max<size_t>(bytes, 1), size_t{64}); }

}  // namespace

void expect_blocks(size_t bytes, size_t least) {
  const std::lock_guard lock(chunks().mutex);
  chunks().expected = bytes;
  chunks().least = least;
}

void* map_block(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  bytes = block_bytes(bytes);
  std::unique_lock lock(chunks().mutex);
  std::vector<Chunk>& list = chunks().list;
  if (list.empty() || list.back().bytes - list.back().used < bytes) {
    const Chunk made = map_chunk(bytes, chunks().expected >= kFillsHugePage ? 0 : kSmallPages);
    if (made.bytes == 0) return nullptr;
    list.push_back(made);
  }
  Chunk& chunk = list.back();
  std::byte* const p = take(chunk, bytes);
  // The huge pages that this block is the first to reach come now; meanwhile others may take blocks. The last one of
  // those expected stays in small pages if it would be filled in small part.
  std::byte* const fresh = chunk.begin + chunk.filled;
  size_t pages = 0;
  while (chunk.filled + pages < chunk.used && chunk.filled + pages + kHugePage <= chunk.bytes) pages += kHugePage;
  chunk.filled += pages;
  size_t& expected = chunks().expected;
  const bool was_expected = expected > 0;
  expected -= std::min(expected, bytes);
  if (pages > 0) {
    chunk.ends_small = was_expected && chunk.used + kHugePage - chunk.filled + expected < chunks().least;
    if (chunk.ends_small) pages -= kHugePage;
  }
  lock.unlock();
  fill_huge_pages(fresh, pages);
  return p;
}

void* map_begun_block(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  bytes = block_bytes(bytes);
  const std::lock_guard lock(chunks().mutex);
  std::vector<Chunk>& list = chunks().list;
  if (list.empty()) return nullptr;
  Chunk& chunk = list.back();
  const bool has_rest = chunk.filled > chunk.small && !chunk.ends_small && chunk.used + bytes <= chunk.filled &&
                        chunk.trimmed != chunk.used;
  return has_rest ? take(chunk, bytes) : nullptr;
}

void unmap_block(void* memory, size_t bytes) {
  auto* const p = static_cast<std::byte*>(memory);
  const std::lock_guard lock(chunks().mutex);
  std::vector<Chunk>& list = chunks().list;
  const auto chunk = std::ranges::find_if(list, [p](const Chunk& c) { return p >= c.begin && p < c.begin + c.bytes; });
  if (--chunk->blocks == 0) {
    // What was used for a while is cleared, for the next block, sooner than mapped again.
    if (chunk->used <= kWorthClearing && list.size() == 1) {
      std::memset(chunk->begin, 0, std::exchange(chunk->used, 0));
      return;
    }
    ::munmap(chunk->begin, chunk->bytes);
    list.erase(chunk);
    return;
  }
  discard_pages(p, p + bytes);
}

void trim_blocks() {
  const std::lock_guard lock(chunks().mutex);
  for (Chunk& chunk : chunks().list) {
    if (std::exchange(chunk.trimmed, chunk.used) == chunk.used) continue;
    const auto used = reinterpret_cast<uintptr_t>(chunk.begin + chunk.used);
    const size_t rest = round_up(used, kHugePage) - used;
    discard_pages(chunk.begin + chunk.used, chunk.begin + std::min(chunk.used + rest, chunk.bytes));
    if (chunk.used > chunk.small)
      join_pages_later(chunk.begin + chunk.small, (chunk.used - chunk.small) / kHugePage * kHugePage);
  }
}

}  // namespace smelt
