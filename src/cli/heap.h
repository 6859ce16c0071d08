#pragma once

#include <cstddef>

namespace smelt::cli {

/// Lets the heap of the process, which the command has to itself, grow by `small` bytes of small pages and then by
/// `huge` bytes, a multiple of kHugePage, of huge ones: one costs a tenth of the small pages in its place. Without
/// small pages only the first is huge. Memory that is freed stays with the process. The first call counts, before other
/// threads start; none does anything where the C library is not glibc.
void grow_heap_by_huge_pages(size_t small, size_t huge);

/// Gives back what is left of the first huge page beyond three times what the model just read takes: its plan takes no
/// more, and a model of few nodes needs a small part of the page.
void trim_heap();

}  // namespace smelt::cli
