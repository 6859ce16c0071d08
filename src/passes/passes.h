#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace smelt {

/// Runs one node on known inputs (the runtime's way to do it).
using Evaluate = std::function<Status(const Graph&, const Node&, std::vector<Datum> in, std::vector<Datum>& out)>;

/// Runs all passes in their order. Values keep their ids; nodes are removed and rewritten.
Status optimise(Module& module, const Evaluate& evaluate);

// The passes, each a graph-to-graph rewrite that keeps the meaning.

/// Removes nodes whose outputs nobody uses and that have no effect, and optional outputs that nobody reads.
void remove_dead_nodes(Graph& graph);
/// Computes nodes whose inputs are all constants. Results that grow beyond their inputs by more than a fixed slack stay
/// lazy, so that a model that makes its weights at run time does not grow at load. A node that fails is left to the
/// run.
void fold_constants(Graph& graph, const Evaluate& evaluate);
/// Moves a clamp, ReLU, ReLU6 ... that is the only user of a Conv, MatMul or Binary into that node.
void fuse_activations(Graph& graph);
/// Multiplies a BatchNorm with constant statistics into the filter and bias of the convolution before it.
void fuse_batch_norm(Graph& graph);
/// A border of zeros around the input of a convolution becomes the convolution's padding.
void fuse_pads(Graph& graph);
/// Operators whose operands come from DequantizeLinear and whose result goes to QuantizeLinear, with known parameters
/// of 8-bit values, work on the quantized values instead. Where a sum of products is close to the middle between two
/// steps of its result, that may fall to the other one.
void fuse_quantization(Graph& graph);
/// Makes convolutions and what lies between them channels-last, with transpositions where they begin and end.
void channels_last(Graph& graph);

/// For back-ends whose values carry no grids of their own: products of rows that are quantized at run time
/// (kPerToken) take what DynamicQuantize and DequantizeLinear leave of the rows, or the integers with their scales
/// where those are int8 and meet a constant matrix of integers. Not one of optimise()'s.
std::shared_ptr<const Module> dynamic_quantize(std::shared_ptr<const Module> module);

/// Where a node is the only user of what the one before it makes (its first input) and `fused` gives a node that does
/// the work of both, that takes its place. Outputs and names are set here; `fused` may add values.
void fuse_into_producers(Graph& graph,
                         const std::function<std::optional<Node>(const Node& before, const Node& node)>& fused);

/// How often each value is used by nodes and as a graph output.
std::vector<int> count_uses(const Graph& graph);

}  // namespace smelt
