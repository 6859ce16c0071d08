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
  /// Bytes that a run writes.
  int64_t bytes() const { return outer_ * block_.rows * block_.columns * block_.unit; }
  /// Copies part i of `parts`, about as large each, in the order of the dimensions.
  void run_part(const std::byte* x, std::byte* y, int64_t i, int64_t parts) const;
  /// Parts that threads share a copy of so many bytes in: one, or as many for each of them.
  static int64_t parts(int64_t bytes, int threads);

 private:
  void range(const std::byte* x, std::byte* y, int64_t begin, int64_t end) const;
  /// Rows, or columns, [begin, end) of the block number `outer`.
  void cut(const std::byte* x, std::byte* y, int64_t outer, int64_t begin, int64_t end) const;
  /// The block's longer side is its rows; threads take apart that side.
  bool by_rows() const { return block_.rows >= block_.columns; }
  StridedCopy::Ints dims_, in_strides_, out_strides_;  ///< outer dimensions, strides in bytes
  int64_t outer_ = 1, in_offset_ = 0, out_offset_ = 0;
  CopyBlock block_;
  int64_t shortest_ = 1;  ///< rows, or columns, that cuts of a block have at least
  CopyBlockFn copy_block_ = nullptr;
};

}  // namespace smelt
