#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "smelt/tensor.h"

namespace smelt {

/// NumPy broadcasting of two shapes. An unknown dimension against 1 or another unknown stays unknown, against n > 1 it
/// becomes n.
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b);
Result<Shape> broadcast_shapes(std::span<const Shape> shapes);

/// Walks an output shape together with N inputs that broadcast to it, one innermost row at a time.
/// Dimensions that all inputs step through alike are merged, so that equal shapes make a single row.
template <int N>
class BroadcastWalk {
 public:
  /// Precondition: every input broadcasts to `out`.
  BroadcastWalk(const Shape& out, const std::array<Shape, N>& inputs) {
    std::array<Shape, N> strides;
    for (int k = 0; k < N; ++k) strides[k] = spread(inputs[k], out);
    for (int d = 0; d < out.rank(); ++d) {
      if (out[d] == 1) continue;
      if (dims_.rank() > 0 && mergeable(strides, d, out[d])) {
        dims_[dims_.rank() - 1] *= out[d];
        for (int k = 0; k < N; ++k) strides_[k][dims_.rank() - 1] = strides[k][d];
      } else {
        dims_.push_back(out[d]);
        for (int k = 0; k < N; ++k) strides_[k].push_back(strides[k][d]);
      }
    }
    if (dims_.rank() == 0) {
      dims_.push_back(1);
      for (int k = 0; k < N; ++k) strides_[k].push_back(0);
    }
  }

  /// Calls row(out_offset, in_offsets, count, in_steps): `count` consecutive output elements; input k is read at
  /// in_offsets[k] + i * in_steps[k], where a step is 0 or 1.
  template <class F>
  void each_row(F&& row) const {
    const int last = dims_.rank() - 1;
    std::array<int64_t, N> steps{};
    for (int k = 0; k < N; ++k) steps[k] = strides_[k][last];
    each_outer(last - 1, dims_[last],
               [&](int64_t out, const std::array<int64_t, N>& offsets) { row(out, offsets, dims_[last], steps); });
  }

  /// Rows of `count` consecutive output elements, one behind the other. From an element of input k to the next one in a
  /// row are steps[k], 0 or 1; from a row to the next one row_steps[k].
  struct Rows {
    int64_t rows, count;
    std::array<int64_t, N> row_steps, steps;
  };
  /// Calls rows(out_offset, in_offsets, Rows) for the output's last two dimensions at each place of the others.
  template <class F>
  void each_rows(F&& rows) const {
    const int last = dims_.rank() - 1;
    Rows all{last > 0 ? dims_[last - 1] : 1, dims_[last], {}, {}};
    for (int k = 0; k < N; ++k) all.steps[k] = strides_[k][last];
    for (int k = 0; k < N && last > 0; ++k) all.row_steps[k] = strides_[k][last - 1];
    each_outer(last - 2, all.rows * all.count,
               [&](int64_t out, const std::array<int64_t, N>& offsets) { rows(out, offsets, all); });
  }

  /// Calls each(out_index, in_indices) for every output element in order.
  template <class F>
  void each(F&& f) const {
    each_row([&](int64_t out, std::array<int64_t, N> at, int64_t count, const std::array<int64_t, N>& steps) {
      for (int64_t i = 0; i < count; ++i) {
        f(out + i, at);
        for (int k = 0; k < N; ++k) at[k] += steps[k];
      }
    });
  }

 private:
  /// Calls f(out_offset, in_offsets) at each place of dimensions 0 to `innermost`, which are `step` output elements
  /// apart.
  template <class F>
  void each_outer(int innermost, int64_t step, F&& f) const {
    std::array<int64_t, N> offsets{};
    if (dims_.elements() == 0) return;
    Shape index = Shape::of_rank(dims_.rank(), 0);
    for (int64_t out = 0;; out += step) {
      f(out, offsets);
      int d = innermost;
      for (; d >= 0; --d) {
        for (int k = 0; k < N; ++k) offsets[k] += strides_[k][d];
        if (++index[d] < dims_[d]) break;
        for (int k = 0; k < N; ++k) offsets[k] -= strides_[k][d] * dims_[d];
        index[d] = 0;
      }
      if (d < 0) return;
    }
  }
  /// Strides of `in` seen in the dimensions of `out`; 0 where it broadcasts.
  static Shape spread(const Shape& in, const Shape& out) {
    Shape s = Shape::of_rank(out.rank(), 0);
    int64_t stride = 1;
    for (int d = out.rank() - 1, e = in.rank() - 1; e >= 0 && d >= 0; --d, --e) {
      if (in[e] != 1) s[d] = stride;
      stride *= in[e];
    }
    return s;
  }
  bool mergeable(const std::array<Shape, N>& strides, int d, int64_t extent) const {
    for (int k = 0; k < N; ++k)
      if (strides_[k].back() != strides[k][d] * extent) return false;
    return true;
  }

  Shape dims_;
  std::array<Shape, N> strides_;
};

}  // namespace smelt
