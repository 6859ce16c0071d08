#pragma once

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SMELT_COUNTS_ALLOCATIONS 1
#else
#define SMELT_COUNTS_ALLOCATIONS 0  // a sanitizer has its own operator new
#endif

/// What operator new of the test programs does on this thread.
struct Allocations {
  static thread_local bool counting;
  static thread_local int counted;
  static thread_local int left;  ///< allocations that succeed yet, before std::bad_alloc; negative: all
};
