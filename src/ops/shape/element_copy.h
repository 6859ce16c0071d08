#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

// Moving elements of any type: bytes of the element's size, std::string elements, and packed sub-byte elements, which
// are unpacked to one byte each while a kernel works.

/// The elements of a tensor as addressable units of `unit` bytes (0: std::string).
class MoveSource {
 public:
  explicit MoveSource(const Tensor& t);
  const std::byte* data() const { return data_; }
  size_t unit() const { return unit_; }

 private:
  Tensor kept_;  // of a temporary
  const std::byte* data_;
  size_t unit_;
  std::vector<uint8_t> unpacked_;
};

/// The same for an output. Packed elements are written back when the MoveTarget goes out of scope.
class MoveTarget {
 public:
  explicit MoveTarget(Tensor& t);
  ~MoveTarget();
  MoveTarget(const MoveTarget&) = delete;
  MoveTarget& operator=(const MoveTarget&) = delete;
  std::byte* data() { return data_; }
  size_t unit() const { return unit_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor& tensor_;
  std::byte* data_;
  size_t unit_;
  std::vector<uint8_t> unpacked_;
};

/// A loop nest that copies one element an iteration; strides and offsets in elements.
struct CopyLoop {
  std::vector<int64_t> dims, from, to;
  int64_t from_offset = 0, to_offset = 0;
  void reserve(size_t rank) {
    dims.reserve(rank);
    from.reserve(rank);
    to.reserve(rank);
  }
  void dim(int64_t n, int64_t from_stride, int64_t to_stride) {
    dims.push_back(n);
    from.push_back(from_stride);
    to.push_back(to_stride);
  }
};

/// Drops dimensions of 1 and joins neighbours that run on without a gap on both sides.
void simplify(CopyLoop& loop);
/// Runs a loop nest. Precondition: equal units, every element addressed lies inside.
void copy(const MoveSource& x, MoveTarget& y, CopyLoop loop);
/// Copies n elements in a row.
void copy_run(const MoveSource& x, int64_t from, MoveTarget& y, int64_t to, int64_t n);
/// Sets n elements from `to` on to element `from` of x.
void fill_run(const MoveSource& x, int64_t from, MoveTarget& y, int64_t to, int64_t n);

/// One element that stands for real zero in x's type: the zero point of quantized integers, else stored zero.
Tensor zero_like(const Tensor& x);
/// One element of stored zero.
Tensor stored_zero(DType dtype);

/// Copies all of x's elements to y, which has as many.
void copy_all(const Tensor& x, Tensor& y);

struct Unit16 {
  uint64_t a, b;
};

/// Calls f with a value of the type that stands for units of that size: uint8_t ... uint64_t, Unit16, std::string.
template <class F>
void by_unit(size_t unit, F&& f) {
  switch (unit) {
    case 0:
      return f(std::string());
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Unit16{});
  }
}

/// Odometer over dims: calls f() with `index` advancing in row-major order; f returns false to stop.
template <class F>
void for_each_index(const Shape& dims, F&& f) {
  for (int64_t d : dims)
    if (d <= 0) return;
  int64_t index[Shape::kMaxRank] = {};
  while (true) {
    if (!f(static_cast<const int64_t*>(index))) return;
    int i = dims.rank() - 1;
    for (; i >= 0; --i) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace smelt
