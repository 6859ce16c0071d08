#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/selection.h"
#include "graph/graph.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt {

// What planning asks of one node whose types are known.

using TypeOf = std::function<const ValueType&(ValueId)>;

/// Elements of a type as a number that may be large; 0 when unknown.
double elements_of(const ValueType& t);

/// Element operations of a node with outputs of these types, roughly.
double work(const Node& node, const TypeOf& type, std::span<const ValueType> outputs);

/// True if all shapes are known before the node runs, so that its outputs can be allocated beforehand.
bool is_static(const Node& node, const TypeOf& type, std::span<const ValueType> outputs);

/// Makes `types`, those of the outputs of a node whose shapes depend on data within limits that are known, their
/// largest: kernels set the shapes that a run gives, in memory for these. False: there are no such limits.
bool take_largest(const NodeSpec& node, std::vector<ValueType>& types);

/// True if every element stays in its place: bytes seen as another type, a transposition that moves dimensions of 1,
/// an expansion to the same shape.
bool moves_nothing(const Node& node, const ValueType& from, const ValueType& to);

/// True if the output is the input's storage under another type.
bool is_view(const Node& node, const TypeOf& type);

/// Operators whose outputs may be parts of their input, of those that the build has.
inline constexpr std::pair<Op, bool> kPartOps[] = {{Op::kSplit, builds_op("Split")},
                                                   {Op::kUnstack, builds_op("Unstack")},
                                                   {Op::kSlice, builds_op("Slice")},
                                                   {Op::kSliceSize, builds_op("SliceSize")},
                                                   {Op::kStridedSlice, builds_op("StridedSlice")}};
/// Where the outputs begin in the first input, in bytes, if each is a stretch of it as it lies there: a part, or a
/// slice, along the outermost dimension that has several elements. -1: nobody wants the output. Empty: the node is none
/// of these.
std::vector<int64_t> offsets_of_parts(const NodeSpec& node);

/// True if the reference kernel works on real numbers where the node has quantized operands.
bool needs_float(const Node& node, const TypeOf& type, std::span<const ValueType> outputs);

}  // namespace smelt
