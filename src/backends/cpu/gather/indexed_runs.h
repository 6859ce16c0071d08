// What gathers and scatters of slices by dynamic indices share.
#pragma once

#include "backends/cpu/core/kernel.h"
#include "ops/shape/rules.h"

namespace smelt {

/// Writes n elements to y, or combines them with those of y.
using CombineRun = void (*)(void* y, const void* updates, int64_t n);

/// What copies elements of `unit` bytes; nullptr: there are none of that size.
CombineRun replacing_run(int64_t unit);

/// Elements of an int32 or int64 tensor.
class Indices {
 public:
  explicit Indices(const Tensor& t) : data_(t.raw()), wide_(t.dtype() == DType::kI64) {}
  int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

 private:
  const void* data_;
  bool wide_;
};

/// Where the slices of a value lie that tuples of indices name.
class TupleOffsets {
 public:
  /// Tuples of `tuple` indices into the dimensions of x from `first` on.
  TupleOffsets(const Shape& x, int first, int64_t tuple);
  int64_t run() const { return run_; }  ///< elements of a slice
  /// The first element of the slice that the tuple from indices[at] on names; `at` goes on to the next tuple.
  Result<int64_t> next(const Indices& indices, int64_t& at, bool negative) const {
    int64_t to = 0;
    for (int k = 0; k < extents_.rank(); ++k) {
      int64_t i = indices[at++];
      if (i < 0 || i >= extents_[k]) {
        SMELT_ASSIGN(i, index_of(i, extents_[k], negative));
      }
      to += i * strides_[k];
    }
    return to;
  }

 private:
  Shape extents_, strides_;  ///< of the indexed dimensions, strides in elements
  int64_t run_;
};

}  // namespace smelt
