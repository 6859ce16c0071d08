#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/small_vector.h"
#include "ops/core/node_spec.h"
#include "smelt/tensor.h"

namespace smelt {

/// A loop nest that copies one element an iteration from an input of a node to an output. Strides and offsets count
/// elements; dimensions stand outermost first.
struct StridedCopy {
  size_t input = 0, output = 0;
  using Ints = SmallVector<int64_t, 6>;
  Ints dims;
  Ints in_strides;   ///< 0 repeats an element, negative ones walk backwards
  Ints out_strides;  ///< positive
  int64_t in_offset = 0, out_offset = 0;

  void dim(int64_t n, int64_t in_stride, int64_t out_stride) {
    dims.push_back(n);
    in_strides.push_back(in_stride);
    out_strides.push_back(out_stride);
  }
  void erase_dim(size_t d);
  int64_t elements() const;
  /// Drops dimensions of 1 and joins neighbours that continue without a gap on both sides.
  void simplify();
};

/// Calls f(in, out) with the offsets of every element that a copy reads and writes. Precondition: no dimension is
/// empty.
template <class F>
void for_each_element(const StridedCopy& c, F&& f) {
  StridedCopy::Ints index;
  index.resize(c.dims.size());
  int64_t in = c.in_offset, out = c.out_offset;
  while (true) {
    f(in, out);
    size_t d = c.dims.size();
    while (d-- > 0) {
      in += c.in_strides[d];
      out += c.out_strides[d];
      if (++index[d] < c.dims[d]) break;
      in -= c.in_strides[d] * c.dims[d];
      out -= c.out_strides[d] * c.dims[d];
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

/// What a node does whose operator only moves elements: every wanted output is the sum of its copies.
struct StridedCopies {
  std::vector<StridedCopy> copies;  ///< run in order: a later one overwrites what an earlier one wrote
  Tensor fill;                      ///< one element that fills output 0 before the copies; undefined: no copy needs it
};

/// The copies of a node, simplified, without empty ones and without those of outputs that nobody wants. An error where
/// the operator has no such form, where the copies depend on an input that is not constant, or where the node is
/// invalid. Copies stay inside their inputs and outputs and join values of one element type.
Result<StridedCopies> strided_copies(const NodeSpec& spec);

}  // namespace smelt
