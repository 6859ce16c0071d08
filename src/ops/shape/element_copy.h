#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ops/core/strided_copy.h"
#include "smelt/tensor.h"

namespace smelt {

// Scalar copies of elements of any type: plain bytes, std::string, and sub-byte elements, which are unpacked to one
// byte each while a kernel works.

/// Read access to the elements of a tensor as units of unit() bytes (0: std::string). Keeps the tensor alive.
class CopySource {
 public:
  explicit CopySource(const Tensor& t);
  const std::byte* data() const { return data_; }
  size_t unit() const { return unit_; }

 private:
  Tensor tensor_;
  const std::byte* data_;
  size_t unit_;
  std::vector<uint8_t> unpacked_;
};

/// Write access to the elements of a tensor as units of unit() bytes (0: std::string). Sub-byte elements start as zeros
/// and are packed into the tensor when the CopyTarget goes out of scope.
class CopyTarget {
 public:
  explicit CopyTarget(Tensor& t);
  ~CopyTarget();
  CopyTarget(const CopyTarget&) = delete;
  CopyTarget& operator=(const CopyTarget&) = delete;
  std::byte* data() { return data_; }
  size_t unit() const { return unit_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor& tensor_;
  std::byte* data_;
  size_t unit_;
  std::vector<uint8_t> unpacked_;
};

/// Runs the loop nest of a copy. Precondition: equal units, no dimension is empty, every element addressed lies inside.
void copy(const CopySource& x, CopyTarget& y, StridedCopy loop);
/// Copies n elements in a row.
void copy_run(const CopySource& x, int64_t from, CopyTarget& y, int64_t to, int64_t n);
/// Sets n elements from `to` on to element `from` of x.
void fill_run(const CopySource& x, int64_t from, CopyTarget& y, int64_t to, int64_t n);

/// One element that stands for real zero in x's type: the zero point of quantized integers, else 0.
Tensor zero_like(const Tensor& x);
/// One element whose bits are zero.
Tensor zero_element(DType dtype);

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

/// Calls f(index) for every index of dims in row-major order until f returns false.
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
