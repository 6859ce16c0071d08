#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ops/core/op.h"

namespace smelt {

// Helpers of the shape rules of operators that move elements.

/// The first `count` inputs are there and are tensors.
Status need_tensors(const InferContext& ctx, int count);
/// axis in [-rank, rank) as [0, rank).
Result<int> axis_of(int64_t axis, int rank);
/// A list of axes in [-rank, rank) as ones in [0, rank); an error where one is given twice.
Result<std::vector<int>> axes_of(const std::vector<int64_t>& axes, int rank);
/// A type with x's element type and quantization. Per-axis parameters follow to dimension `axis` of the result (-1:
/// where they are).
ValueType like(const ValueType& x, const Shape& shape, int axis = -1);
/// A type with x's element type and quantization, nothing known of the shape.
ValueType like_unranked(const ValueType& x);
/// Extent of the result of broadcasting a with b, -1 unknown; an error when they contradict.
Result<int64_t> broadcast_dim(int64_t a, int64_t b);
/// Both shapes broadcast with each other, aligned to the right.
Result<Shape> broadcast_both(const Shape& a, const Shape& b);
/// Contents of a list of dimensions as a shape; an error on too many or negative ones.
Result<Shape> shape_from(const std::vector<int64_t>& dims);
/// Number of entries of a 1-D (or scalar) integer input as its type gives it; nullopt when unknown.
std::optional<int64_t> entries_of(const InferContext& ctx, int i);
/// Contents of an integer input at run time.
std::vector<int64_t> ints_of(const Tensor& t);
/// A value that a scalar integer input holds; nullopt when unknown or absent.
std::optional<int64_t> int_of(const InferContext& ctx, int i);
/// Inputs a and b have one element type, as far as known.
Status same_dtype(const InferContext& ctx, int a, int b);
/// Products of the dimensions before and behind an axis.
struct Around {
  int64_t outer = 1, inner = 1;
  Around(const Shape& s, int axis) : Around(s, axis, axis + 1) {}
  Around(const Shape& s, int from, int to) {
    for (int i = 0; i < from; ++i) outer *= s[i];
    for (int i = to; i < s.rank(); ++i) inner *= s[i];
  }
};
/// index in [0, extent), or with `negative` in [-extent, extent) counted from the end.
Result<int64_t> index_of(int64_t index, int64_t extent, bool negative = true);
/// Fails unless the output was allocated with the shape that the inputs ask for.
Status expect_shape(const Tensor& output, const Shape& shape);

}  // namespace smelt
