#pragma once

namespace smelt::cli {

/// Lets the heap of the process, which the command has to itself, grow by some huge pages next: one costs a tenth of
/// the small pages in its place. Memory that is freed stays with the process. The first call counts, before other
/// threads start; none does anything where the C library is not glibc.
void grow_heap_by_huge_pages();

}  // namespace smelt::cli
