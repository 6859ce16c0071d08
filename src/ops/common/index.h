#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// Axis in [0, rank) from one in [-rank, rank); an error outside.
Result<int> normalize_axis(int64_t axis, int rank);
/// Axes in [0, rank), ascending and without duplicates, from ones in [-rank, rank).
Result<std::vector<int>> normalize_axes(std::span<const int64_t> axes, int rank);

/// A shape seen around one axis: element (o, a, i) lies at (o * extent + a) * inner + i.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};
inline AxisView axis_view(const Shape& shape, int axis) {
  AxisView v;
  for (int d = 0; d < axis; ++d) v.outer *= shape[d];
  v.extent = shape[axis];
  for (int d = axis + 1; d < shape.rank(); ++d) v.inner *= shape[d];
  return v;
}

/// Dimension i of a shape; 1 where the shape has no such dimension.
inline int64_t dim_or_one(const Shape& shape, int i) { return i >= 0 && i < shape.rank() ? shape[i] : 1; }

/// Product of the dimensions [from, to).
inline int64_t product(const Shape& shape, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; ++d) n *= shape[d];
  return n;
}

/// Counts through a shape in row-major order.
///   for (Odometer o(shape); !o.done(); o.next()) use(o.index());
class Odometer {
 public:
  explicit Odometer(const Shape& shape)
      : shape_(shape), index_(Shape::of_rank(shape.rank(), 0)), done_(shape.elements() == 0) {}
  bool done() const { return done_; }
  const Shape& index() const { return index_; }
  int64_t operator[](int d) const { return index_[d]; }
  void next() {
    for (int d = shape_.rank() - 1; d >= 0; --d) {
      if (++index_[d] < shape_[d]) return;
      index_[d] = 0;
    }
    done_ = true;
  }
  /// Sum of index times stride.
  int64_t offset(const Shape& strides) const {
    int64_t at = 0;
    for (int d = 0; d < index_.rank(); ++d) at += index_[d] * strides[d];
    return at;
  }

 private:
  Shape shape_, index_;
  bool done_;
};

}  // namespace smelt
