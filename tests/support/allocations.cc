#include "support/allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

thread_local bool Allocations::counting = false;
thread_local int Allocations::counted = 0;
thread_local int Allocations::left = -1;

#if SMELT_COUNTS_ALLOCATIONS
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (Allocations::counting) ++Allocations::counted;
  if (Allocations::left == 0) throw std::bad_alloc();
  if (Allocations::left > 0) --Allocations::left;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif
