#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/core/strided_copy.h"

namespace smelt {

// Helpers of the functions copies_NAME() that give the strided copies of a node.

using Ints = std::vector<int64_t>;

/// Contents of a constant integer input; an error when the input is computed.
Result<Ints> constant_ints(const NodeSpec& spec, size_t i);
/// Contents of a constant integer input, empty when the input is absent; an error when it is computed.
Result<Ints> optional_ints(const NodeSpec& spec, size_t i);
/// The element of a constant integer input of one element, or `absent`; an error when it is computed.
Result<int64_t> constant_int(const NodeSpec& spec, size_t i, int64_t absent);
/// Fails unless an output was planned with the shape that the inputs ask for.
Status expect_shape(const ValueType& output, const Shape& shape);

/// A StridedCopies of one copy, from input 0 to output 0.
StridedCopies one_copy(StridedCopy copy);
/// All of input `input` to the output of the same shape.
StridedCopy whole_copy(const NodeSpec& spec, size_t input);
/// The one element of input `input` to all of output 0.
StridedCopy broadcast_copy(const NodeSpec& spec, size_t input);

/// Entries of one dimension that follow a regular pattern: entry out + i * out_steps[0] + j * out_steps[1] of y is
/// entry in + i * in_steps[0] + j * in_steps[1] of x, for i < counts[0], j < counts[1].
struct DimRun {
  int64_t in = 0, out = 0;
  int64_t counts[2] = {1, 1}, in_steps[2] = {0, 0}, out_steps[2] = {0, 1};
};
/// `count` neighbours.
DimRun neighbours(int64_t in, int64_t out, int64_t count);
/// The runs of a dimension whose entry i shows entry table[i] of x.
std::vector<DimRun> dim_runs(const Ints& table);
/// Appends y[i, j, ...] = x[i', j', ...] to `all`, where each dimension has its runs: one copy for every combination.
void add_separable(StridedCopies& all, const Shape& x, const Shape& y, const std::vector<std::vector<DimRun>>& dims);

/// The stored 8-bit value of an output for each of the 256 of an input, by their bits.
using RescaleTable = std::array<uint8_t, 256>;
/// How a Concat rescales an input to the quantization parameters of the output; nullopt unless both are of one 8-bit
/// type and quantized per tensor.
std::optional<RescaleTable> rescale_table(const ValueType& x, const ValueType& y);

/// The reference kernel of every operator with strided copies: scalar loops. Operators that are kQuantized have inputs
/// in other quantization parameters than the output's rescaled first.
Status run_copies(KernelContext& ctx);

}  // namespace smelt
