#pragma once

#include <cstddef>
#include <span>

#include "base/huge_pages.h"

namespace smelt {

/// Uninitialised memory aligned to 64 bytes, to be freed with std::free; nullptr when there is none. Large blocks use
/// the system's huge pages, if it has them, which take fewer page faults.
void* allocate_large(size_t bytes);

/// The whole pages of private memory between two addresses go back to the system; they read as zeros then.
void discard_pages(std::byte* begin, std::byte* end);

/// Gives the whole pages of private memory between two addresses, all of which is about to be written, their memory at
/// once, which takes less time than a page fault each. Does nothing where the system can't.
void populate_pages(std::byte* begin, std::byte* end);

/// True for blocks that are large enough for map_zeroed(). False for all where reads past the end are watched.
bool is_worth_mapping(size_t bytes);

/// Zero-filled memory of whole pages, aligned to 64 bytes, that stays apart from the heap: long-lived blocks between
/// short-lived ones would leave gaps there. To be freed with unmap_zeroed(); nullptr when there is none. Huge pages as
/// above.
void* map_zeroed(size_t bytes);
/// `bytes`: what map_zeroed() was asked for.
void unmap_zeroed(void* memory, size_t bytes);

/// At least `bytes` bytes of zeros that are taken from the system as they are written: the first `small` in small
/// pages, with a huge page's begin behind them. Empty when there is none. To be freed with munmap(). `bytes`: a
/// multiple of kHugePage; `small`: whole pages, less than kHugePage.
std::span<std::byte> map_before_huge_pages(size_t bytes, size_t small);

/// True for blocks that are large enough for map_block(). False for all where reads past the end are watched.
bool is_worth_sharing_pages(size_t bytes);

/// Zero-filled memory, aligned to 64 bytes, for blocks that live as long as a model. Blocks lie one behind the other in
/// pages that they share, huge ones from the second half MiB on: few page faults, and no page that is filled in part.
/// Thread-safe. To be freed with unmap_block(); nullptr when there is none.
void* map_block(size_t bytes);
/// About how many bytes map_block() will be asked for. Where they fill much of a huge page, the first block has one
/// too. `least`: bytes from which on the last one is not left in small pages.
void expect_blocks(size_t bytes, size_t least = kSmallPages);
/// As map_block(), from what is left of a huge page that blocks have begun: it takes no further page. nullptr where
/// less is left, or trim_blocks() gave it back.
void* map_begun_block(size_t bytes);
/// `bytes`: what map_block() was asked for. The pages that hold nothing else go back to the system.
void unmap_block(void* memory, size_t bytes);
/// What no block takes of the huge pages begun goes back to the system: for when the weights of a model are packed.
void trim_blocks();

}  // namespace smelt
