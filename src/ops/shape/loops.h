#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/shape.h"

namespace smelt {

// What operators of this family copy, as loop nests over elements from an input to an output, for shapes that are
// known.

using Ints = std::vector<int64_t>;

/// perm empty: reversed.
Result<CopyLoop> transpose_loop(const Shape& x, const Ints& perm);
/// x broadcast to `y`. Precondition: that is its shape; x has no higher rank.
CopyLoop expand_loop(const Shape& x, const Shape& y);
/// Precondition: x has a rank of 3 at least and dimensions that the block divides.
CopyLoop depth_space_loop(const BlockAttrs& a, const Shape& x);
/// SpaceToBatch and BatchToSpace: calls `each` for every place in a block, of which something is moved. `y`: the
/// result's shape, set before; what a SpaceToBatch leaves of it is padding.
Status batch_block_loops(const Shape& x, const Ints& block, const Ints& edge, bool to_batch, Shape& y,
                         const std::function<Status(CopyLoop)>& each);
/// ONNX's Slice; axes and steps may be empty. `extent`: the result's shape.
Result<CopyLoop> slice_loop(const Shape& x, const Ints& starts, const Ints& ends, const Ints& axes, const Ints& steps,
                            Shape& extent);
/// TFLite's SLICE.
Result<CopyLoop> slice_size_loop(const Shape& x, const Ints& begin, const Ints& size, Shape& extent);
/// TFLite's STRIDED_SLICE.
Result<CopyLoop> strided_slice_loop(const Shape& x, const StridedSliceAttrs& a, const Ints& begin, const Ints& end,
                                    const Ints& strides, Shape& extent);
/// Extents of a Split's pieces of a dimension of n; empty when they are not known yet.
Result<Ints> split_extents(int64_t n, std::optional<Ints> sizes, bool has_sizes, int64_t count, int outputs);
/// What stays of x, from its place in x to its place in the padded value y; nullopt: nothing.
Result<std::optional<CopyLoop>> pad_loop(const Shape& x, const Ints& pads, const std::optional<Ints>& axes, bool pairs,
                                         Shape& y);
/// For each dimension, the entry of x behind every entry of the padded value, in a mode that has one.
Result<std::vector<Ints>> pad_tables(const Shape& x, const Ints& pads, const std::optional<Ints>& axes,
                                     const PadAttrs& a);

}  // namespace smelt
