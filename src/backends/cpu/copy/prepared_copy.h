#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/core/isa.h"
#include "base/thread_pool.h"
#include "ops/core/strided_copy.h"

namespace smelt {

/// Bytes of an element; 0 for strings and sub-byte elements, which do not move as bytes.
int64_t whole_bytes(DType t);

/// The two innermost dimensions of a copy; strides in bytes.
struct CopyBlock {
  int64_t rows = 1, columns = 1;
  int64_t x_row = 0, y_row = 0, x_column = 0, y_column = 0;
  int64_t unit = 1;  ///< bytes that one step copies
};

/// Copies all rows of a block from x to y.
using CopyBlockFn = void (*)(const std::byte* x, std::byte* y, const CopyBlock& b);

/// A strided copy compiled for elements of a known size: contiguous runs become memcpy, transpositions go by tiles of
/// registers. Large copies are shared by the threads.
class PreparedCopy {
 public:
  /// unit: bytes of an element, a power of two. Precondition: every dimension is positive, what is read and what is
  /// written do not overlap.
  PreparedCopy(StridedCopy copy, int64_t unit, Isa isa);
  void run(ThreadPool& pool, const std::byte* x, std::byte* y) const;

 private:
  void range(const std::byte* x, std::byte* y, const CopyBlock& block, int64_t begin, int64_t end) const;
  /// Part i of parts_ of a transposition; adds the bytes before it to x and y.
  CopyBlock part(int64_t i, int64_t& x, int64_t& y) const;
  StridedCopy::Ints dims_, in_strides_, out_strides_;  ///< outer dimensions, strides in bytes
  int64_t outer_ = 1, in_offset_ = 0, out_offset_ = 0;
  CopyBlock block_;
  int64_t parts_ = 1;  ///< of the block that threads may take apart; more than 1 for large transpositions alone
  CopyBlockFn copy_block_ = nullptr;
};

}  // namespace smelt
