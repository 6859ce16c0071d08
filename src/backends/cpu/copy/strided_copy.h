#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/core/isa.h"
#include "base/thread_pool.h"
#include "ops/shape/element_copy.h"

namespace smelt {

/// Bytes of an element; 0: texts and packed elements, which do not move as bytes.
int64_t whole_bytes(DType t);

/// The two innermost dimensions of a loop nest; strides in bytes.
struct MoveBlock {
  int64_t rows = 1, columns = 1;
  int64_t x_row = 0, y_row = 0, x_column = 0, y_column = 0;
  int64_t unit = 1;  ///< bytes that every step copies
};

/// Moves the rows of a block; b.rows counts those that this call moves.
using MoveRows = void (*)(const std::byte* x, std::byte* y, const MoveBlock& b);

/// A loop nest prepared for units of a known size: runs are copied as such, transpositions go by tiles of registers.
class Mover {
 public:
  /// unit: bytes of an element, a power of two. Precondition: every dimension is positive, what is read and written
  /// does not overlap.
  Mover(CopyLoop loop, int64_t unit, Isa isa);
  void run(ThreadPool& pool, const std::byte* x, std::byte* y) const;

 private:
  void range(const std::byte* x, std::byte* y, int64_t begin, int64_t end) const;
  std::vector<int64_t> dims_, from_, to_;  ///< outer dimensions, strides in bytes
  int64_t outer_ = 1, x_offset_ = 0, y_offset_ = 0;
  MoveBlock block_;
  MoveRows rows_ = nullptr;
};

}  // namespace smelt
