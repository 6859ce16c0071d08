// How queries, keys and values are made of values whose heads lie side by side.
#pragma once

#include "passes/canonicalize/extents.h"
#include "passes/fuse/pattern.h"

namespace smelt {

/// The Reshape to [B0, B1, S, H, D] whose result a value is as [B0, B1, H, S, D], or turned, as [B0, B1, H, D, S],
/// times a scale, which `scale` is multiplied by; or one to [S, H, D] likewise. -1: another value, or one that is read
/// elsewhere.
int split_of(const Pattern& in, ValueId id, bool turned, double& scale);
/// The shape that the Reshape at an index gives.
const Shape& split_shape(const Pattern& in, int split);
/// Makes a Reshape of split_of() give the same as [B0 * B1, S, H * D] or [1, S, H * D], a new value.
ValueId flatten_split(Pattern& in, int split);
/// [B, H, T, D] of [B, H * n, T, D] that has n copies of each head beside each other, as torch's repeat_kv makes them
/// by way of [B, H, 1, T, D]; another value as it is. `flow`: of the graph.
ValueId unrepeated_heads(const Pattern& in, const ExtentFlow& flow, ValueId id);
/// True for [B, H, D, T] of [B, H * D, T], as 1x1 convolutions make queries, keys and values.
bool is_channels(const Pattern& in, ValueId id);
/// Makes the node at an index give [B, T, H * D] of what is_channels() says of `split`, a new value.
ValueId rows_of_channels(Pattern& in, size_t index, ValueId split);
/// x [1, S, H * D], a new value, of a value that is x as [S, H, D], transposed to [H, S, D], as [1, H, S, D]: torch's
/// MultiheadAttention puts the batch behind the sequence. kNoValue if the value is none, or its Reshape has other
/// readers.
ValueId flat_of_one(Pattern& in, ValueId id);
/// x [B, S, H * D], a new value, of a value that is x [B, S, H, D] transposed to [B, H, S, D]. kNoValue if the value is
/// none, or if anything but `read` follows from it: a product's operand, made of it by scales and moved elements.
ValueId flat_of_heads(Pattern& in, ValueId id, ValueId read);
/// Makes the Reshape at an index give x as `shape`, a new value.
ValueId reshape_by(Pattern& in, size_t index, ValueId x, const Shape& shape);
/// A constant: the dimensions of `shape`.
ValueId dims_of(Pattern& in, const Shape& shape);

}  // namespace smelt
