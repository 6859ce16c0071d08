#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "formats/common/lowering_context.h"
#include "formats/executorch/xnnpack/graph.h"
#include "ops/common/enums.h"

namespace smelt::executorch {

/// Converts between element types and quantizations; real numbers become integers to nearest even, saturating.
ValueId convert(LoweringContext& c, ValueId value, const ValueType& to);

/// Turns the nodes of one XNNPACK graph into nodes of the builder's graph.
///
/// How a node computes follows from its values: all quantized with static parameters, it works on their integers; with
/// a real output, in the output's element type; what does not fit is converted on the way in and out.
class XnnLowering : public LoweringContext {
 public:
  XnnLowering(Builder& builder, const XnnGraph& graph)
      : LoweringContext(builder), g_(graph), ids_(graph.values.size(), kNoValue) {}

  /// `inputs` are the values of XnnGraph::inputs, of their types. Returns those of XnnGraph::outputs.
  Result<std::vector<ValueId>> run(std::span<const ValueId> inputs);

 private:
  using Node = fb_xnnpack::XNode;
  const XnnValue& value(uint32_t id) const { return g_.values[g_.by_id.at(id)]; }
  /// The graph's value for an id; constants appear on first use.
  ValueId operand(uint32_t id);
  /// The value of an id as unquantized numbers of a real element type.
  ValueId real(uint32_t id, DType dtype) { return convert(*this, operand(id), ValueType::tensor(dtype)); }
  /// Fails when the result is larger than the graph declares the value.
  Status bind(uint32_t id, ValueId result);
  /// Computes `op` of the inputs, converted as the class says, and of `further` values; binds its result to value
  /// `out`.
  Status emit(Op op, AttrsPtr attrs, std::span<const uint32_t> inputs, uint32_t out, std::vector<ValueId> further = {});
  template <class A>
  Status emit(Op op, A attrs, std::initializer_list<uint32_t> inputs, uint32_t out, std::vector<ValueId> further = {}) {
    return emit(op, make_attrs<A>(std::move(attrs)), std::span(inputs.begin(), inputs.size()), out, std::move(further));
  }
  /// Adds a node with a result of type `compute` and binds it, converted, to value `out`.
  Status finish(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const ValueType& compute, uint32_t out);
  /// True if both hold one type of 8-bit integers, quantized per tensor with static parameters.
  static bool static_bytes(const XnnValue& a, const XnnValue& b);
  bool computes_in_integers(std::span<const uint32_t> inputs, uint32_t out) const;
  DType compute_type(uint32_t out) const;
  /// Fills merged_clamps_.
  Status find_merged_clamps();
  /// The clamp of a product and of those merged into it; `out` becomes the value that the last of them writes.
  Result<Activation> clamp_of_product(const Node& node, uint32_t& out) const;

  Status lower_node(const Node& node);
  // lower_elementwise.cc
  /// emit() of a function, which rounds quantized results as XNNPACK does.
  Status emit_unary(UnaryAttrs attrs, uint32_t input, uint32_t output);
  Status unary_node(const Node& node);
  Status binary_node(const Node& node);
  Status integer_division(const fb_xnnpack::_XNNNode2x1& node, const Activation& act);
  Status convert_node(const Node& node);
  // lower_weights.cc
  Status weighted(Op op, AttrsPtr attrs, uint32_t x, uint32_t filter, uint32_t bias, uint32_t out, bool flatten);
  Status fully_connected(const Node& node);
  Status convolution(const Node& node);
  Status batch_matmul(const Node& node);
  Status attention(const Node& node);
  // lower_spatial.cc
  Status pooling(const Node& node);
  Status argmax_pooling(const Node& node);
  Status global_average(const Node& node);
  Status resize_node(const Node& node);
  // lower_shape.cc
  Status transpose_node(const Node& node);
  Status reshape_node(const Node& node);
  Status slice_node(const Node& node);
  Status pad_node(const Node& node);
  Status concat_node(const Node& node);

  const XnnGraph& g_;
  std::vector<ValueId> ids_;
  /// Clamps of static 8-bit integers that the product before them computes, by the value that they read. XNNPACK merges
  /// them, too: the value between, whose quantization parameters may be others, is never rounded.
  std::unordered_map<uint32_t, const Node*> merged_clamps_;
};

/// The clamp of a node's output_min_max; kNoValue when it has none or it bounds nothing.
Result<Activation> xnn_clamp(const fb_xnnpack::XNode& node);

/// The clamp to a range as an activation.
Activation clamp_activation(const Bounds& range);

/// A size written as an unsigned number, within what a dimension can be.
Result<int64_t> xnn_size(uint32_t value, const char* what, uint32_t least = 0);

/// Reads the padding of a convolution or pooling table, four numbers or the flag that says SAME, into `attrs`.
template <class Table, class Attrs>
Status read_padding(const Table& n, Attrs& attrs) {
  constexpr uint32_t kSame = 4;
  SMELT_ASSIGN(const int64_t top, xnn_size(n.padding_top(), "top padding"));
  SMELT_ASSIGN(const int64_t left, xnn_size(n.padding_left(), "left padding"));
  SMELT_ASSIGN(const int64_t bottom, xnn_size(n.padding_bottom(), "bottom padding"));
  SMELT_ASSIGN(const int64_t right, xnn_size(n.padding_right(), "right padding"));
  attrs.pads = {top, left, bottom, right};
  if ((n.flags() & kSame) == 0) return Ok();
  if (top != 0 || left != 0 || bottom != 0 || right != 0)
    return InvalidModel("SAME padding and explicit padding exclude each other");
  attrs.auto_pad = AutoPad::kSameUpper;
  return Ok();
}

}  // namespace smelt::executorch
