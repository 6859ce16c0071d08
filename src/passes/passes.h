#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/core/decomposition.h"

namespace smelt {

/// Runs one node on the given inputs and sets its outputs. The runtime provides it.
using Evaluate = std::function<Status(const Graph&, const Node&, std::vector<Datum> in, std::vector<Datum>& out)>;

/// Runs the passes in their order on every graph of the module. Values keep their ids; nodes are removed and rewritten.
Status optimise(Module& module, const Evaluate& evaluate);

// The passes by folder; optimise() runs those of canonicalize, fuse and layout. Each rewrites a graph in place and
// keeps its results.

// canonicalize/

/// Drops trailing optional outputs that nobody reads, so that kernels without statistics or indices apply.
void drop_unread_outputs(Graph& graph);
enum class Matrices : uint8_t { kConstant, kDynamic };
/// Products with the Transpose of matrices read the matrices themselves: a constant one as it lies in the file, or
/// dynamic ones of float32, if patterns no longer need to be found.
void read_matrices_transposed(Graph& graph, Matrices matrices);
/// Makes products of single rows with matrices that are gathered from a constant, one for each row, an ExpertMatMul:
/// no matrix is copied, and rows with the same one are multiplied together.
void fuse_experts(Graph& graph);
/// Removes nodes without effects whose outputs nobody reads, and trailing optional outputs that nobody reads.
void remove_dead_nodes(Graph& graph);
/// Evaluates nodes whose inputs are all constants and makes their outputs constants. Nodes whose outputs are much
/// larger than their inputs stay, so that loading does not blow up the model. A node that fails stays and fails at run
/// time. Large constants that only evaluated nodes read are dropped, and their pages given back to their file. Returns
/// the values that became constants.
std::vector<ValueId> fold_constants(Graph& graph, const Evaluate& evaluate);
/// Makes the outputs of a node of the graph constants, on the terms of fold_constants(). True if it did; the node
/// itself stays.
bool fold_node(Graph& graph, const Node& node, const Evaluate& evaluate);
/// Makes constants of what follows from dimensions that are known and from `constants`, values whose contents the shape
/// rules of their readers did not know, and gives each Reshape whose target is put together from dimensions of values a
/// constant target where all but one are numbers or those of its input in the same places, for which 0 stands. Tells
/// the shapes of what follows.
void fold_shape_arithmetic(Module& module, Graph& graph, const Evaluate& evaluate,
                           const std::vector<ValueId>& constants = {});
/// Removes Casts to the type that a value has, Expands to its shape, Concats of it alone, its copies and what quantizes
/// or casts it back to the integers that it was; their readers read the value itself.
void remove_identities(Graph& graph);
/// Moves a Gather of dequantized constant integers, embeddings for example, before the DequantizeLinear of one scale:
/// only the integers that are read become real numbers. Tables of float16 values that are deferred as float32 are read
/// as they lie, too.
void gather_before_dequantize(Graph& graph);
/// Moves Dequantizes behind nodes that only move elements, where Quantizes alone read these: the integers are moved.
void sink_dequantize(Graph& graph);
/// Nodes without effects read the outputs of equal nodes before them in place of their own: equal operator, attributes
/// and inputs. A value that would live longer for that and so make the graph need more memory is computed again.
void merge_common_subexpressions(Graph& graph);
/// Makes one Transpose of a Transpose of unquantized values that another Transpose reads, and of that one.
void merge_transposes(Graph& graph);
/// Moves Transposes of what convolutions make behind elementwise nodes of constants: those of channels-last exporters
/// then stand behind the convolution itself, where fuse_batch_norm() and fuse_activations() find them.
void sink_transposes(Graph& graph);
/// Moves Reshapes behind the nodes of float32 values after which another one undoes them: products of [B * H, ...]
/// become products of [B, H, ...], with scales and masks behind them, and reductions keep the dimension that a Reshape
/// brings back. fuse_attention(), recompose() and writers want them so.
void sink_reshapes(Graph& graph);

// fuse/

/// Replaces what exporters decompose by one operator: on float32 values GELU, SiLU, layer, RMS and group normalization,
/// and the bias of a matrix product with a constant matrix; gathers and scatters by indices made positive before; any
/// or all of truth values; products with int8 weights of what TFLite's formula rounds at run time; norms of rows,
/// slopes of what is negative.
void recompose(Graph& graph);
/// Makes sums of x * cos + turned * sin a Rotary of x: `turned` is -x2 and x1 of the halves x1 and x2 of rows x, and
/// the rows of the tables hold the same entries twice, as transformers writes it.
void fuse_turned_rows(Graph& graph);
/// Of these, layer and RMS normalization alone: for what channels_last() made a normalization of the last dimension.
void recompose_normalizations(Graph& graph);
/// For a target whose delegate is XNNPACK: products with int8 or 4-bit weights quantize their rows themselves at run
/// time, where XNNPACK's formula for that stands before them; a Quantize by slices rounds images of convolutions.
void fuse_xnnpack_rows(Graph& graph);
/// Queries, keys and values [3, B, H, S, D] of one product [B, S, 3 * H * D] become three parts of its last dimension,
/// whose heads are made each for itself, where products read them.
void part_joint_heads(Graph& graph);
/// Replaces product, scale, mask, softmax, product by Attention on float32 values, with the transposes of heads where
/// it takes [B, S, H*D] itself. A row whose keys are all hidden gives zeros, not NaN, with torch's guard or without it.
void fuse_attention(Graph& graph);
/// Moves a Clamp or a clamping Unary (ReLU, ReLU6, ...) into the kActivation node before it, whose only user it is.
void fuse_activations(Graph& graph);
/// Folds a BatchNorm with constant statistics into the weights and bias of the convolution, transposed convolution or
/// product before it.
void fuse_batch_norm(Graph& graph);
/// Makes a DepthSpace in CRD order, alone behind a convolution with constant float filters, one in DCR order, which
/// moves whole pixels where channels are last: the filters are brought in that order.
void shuffle_pixels_in_blocks(Graph& graph);
/// Folds a Pad into the padding of the node behind it: one with zeros before a Conv, one with the least value before a
/// pool of maxima.
void fuse_pads(Graph& graph);
/// Operators that fuse_quantization() makes quantized only where that is asked for.
struct QuantizedOperators {
  bool softmax = false;     ///< where the result has the parameters of TFLite's kernel, 1/256 from 0 on
  bool functions = false;   ///< squared differences
  bool batch_norms = true;  ///< with constant statistics
  bool means = true;
};
/// Replaces DequantizeLinear, operator, QuantizeLinear by the operator on quantized values, for 8-bit values with
/// constant parameters. A result halfway between two quantized values may round to the other one.
void fuse_quantization(Graph& graph, const QuantizedOperators& operators = {});

// layout/

/// Makes convolutions and the nodes between them channels-last, with a Transpose before and behind each such region. So
/// it does nodes between a Transpose from channels-last images and one to them, or a convolution.
void channels_last(Graph& graph);

// Passes that optimise() does not run.

// canonicalize/, before the others

/// Puts the nodes of called graphs in the place of the Calls, where arguments and results have the declared types.
/// Graphs with large constants that several nodes call stay, and those that would more than double the module's nodes.
void inline_calls(Module& module);

// legalize/, where a back-end requires it

/// Makes float16 and bfloat16 values that lie between nodes that compute float32, before optimise(). Constants that
/// such nodes read become float32; a float32 constant that is cast for them stays as it is. A Cast stands where a value
/// enters from or leaves to a graph's inputs, outputs, variables, bodies and nodes that stay. Nodes between are
/// computed as if a Cast stood around each, but that nothing is rounded on the way. Gives the float32 values that stand
/// for float16 ones.
std::vector<ValueId> widen_float16(Graph& graph);
/// Adds a Cast of one value to the element type of another behind the graph's nodes. `origin` names the pass.
void append_cast(Graph& graph, ValueId from, ValueId to, const char* origin);

/// A module to change: `module` itself where nothing else holds it, else a copy.
inline std::shared_ptr<Module> own_module(std::shared_ptr<const Module> module) {
  if (module.use_count() == 1) return std::const_pointer_cast<Module>(std::move(module));  // none is made const
  return std::make_shared<Module>(*module);
}

/// For back-ends without kPerToken values: replaces each Quantize to kPerToken by DynamicQuantize and DequantizeLinear.
/// A MatMul of int8 rows with a constant matrix of integers reads the integers, with scales and zero points as inputs.
/// Returns the module itself if it has no such nodes.
std::shared_ptr<const Module> dynamic_quantize(std::shared_ptr<const Module> module);
/// For back-ends whose MatMul takes quantized rows with their scale and zero point, and whose ConvInteger takes
/// quantized filters: replaces MatMulInteger of rows quantized at run time, the Cast of its accumulators, the product
/// with scales and the sum with a bias by one MatMul; ConvInteger of channels-last images, the Cast and the product by
/// one ConvInteger. A Recurrent with dynamic quantization reads its quantized weights. Returns the module itself if it
/// has none of these.
std::shared_ptr<const Module> fuse_integer_products(std::shared_ptr<const Module> module);
/// For back-ends that look results up: replaces what computes 8-bit results of one 8-bit value by several nodes, real
/// ones between DequantizeLinear and QuantizeLinear included, or by a Binary, by a TableFind of its 256 results, which
/// the reference kernels give. Returns the module itself if it has no such functions.
std::shared_ptr<const Module> tabulate_byte_functions(std::shared_ptr<const Module> module);

/// For back-ends whose products take rows and images with a scale each: where several products quantize one float32
/// value at run time (TFLite hybrid), a Quantize by the same rule does so once. Returns the module itself if none do.
std::shared_ptr<const Module> share_dynamic_quantization(std::shared_ptr<const Module> module);

/// For back-ends whose convolutions, and products of quantized values or 2-bit weights, multiply by bytes: constant
/// weights of fewer than 8 bits become bytes. Returns the module itself if it has none.
std::shared_ptr<const Module> widen_weights(std::shared_ptr<const Module> module);

/// Makes constants of the real values of constant integers, of 8 bits at most, that are still asked for: they are
/// computed as they are packed. Returns the module itself if it asks for none.
std::shared_ptr<const Module> dequantize_weights(std::shared_ptr<const Module> module);

/// Gives the quantized nodes of a TFLite module the arithmetic of LiteRT with XNNPACK, where its delegate takes them:
/// rounding, and dynamic quantization by rows or images. Returns the module itself if it is of another format.
std::shared_ptr<const Module> litert_xnnpack(std::shared_ptr<const Module> module);

// decompose/, as a plan is made

/// The node in other operators; nullopt where no rule says how, or where the rule asks for other types. The planner,
/// which knows all shapes, decomposes what no back-end runs.
std::optional<DecomposedNode> decompose(const NodeSpec& node);
/// The parts of `node`, a node of `graph`, as nodes of that graph with the node's name and location. Their values are
/// added to the graph.
std::vector<Node> splice(Graph& graph, const Node& node, const DecomposedNode& parts);
/// False if decompose() has no rule for such a node, whatever its types.
bool may_decompose(const Node& node);

// What passes share.

/// Calls `fused` for each node and the producer of its input 0, if the node is that value's only user. A node that
/// `fused` returns replaces both; its outputs and origin are set here. `fused` may add values to the graph.
void fuse_into_producers(Graph& graph,
                         const std::function<std::optional<Node>(const Node& before, const Node& node)>& fused);

/// The permutation of a Transpose, of its attributes or a constant input; nullopt if it is computed.
std::optional<std::vector<int64_t>> permutation_of(const Graph& graph, const Node& transpose);

/// Number of uses of each value, by nodes and as graph output.
std::vector<int> count_uses(const Graph& graph);

}  // namespace smelt
