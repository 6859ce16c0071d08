#pragma once

#include <optional>
#include <vector>

#include "formats/common/written_node.h"
#include "formats/executorch/xnnpack/writer/graph_writer.h"
#include "ops/core/op.h"

namespace smelt::executorch {

/// One node while it is written into an XNNPACK graph.
class XnnNodeWriter : public formats::WrittenNode {
 public:
  using Id = XnnGraphWriter::Id;
  using Type = XnnGraphWriter::Type;
  using Builder = XnnGraphWriter::Builder;

  XnnNodeWriter(XnnGraphWriter& graph, const Node& node) : WrittenNode(graph.graph(), node), g_(graph) {}
  XnnGraphWriter& g() { return g_; }
  std::optional<double> number(int i) const;  ///< of a constant that is a float and not quantized
  /// Quantization of input i, of its type or of its constant; of a bias as bias_quant gives it.
  QuantPtr quant(int i) const;

  /// The type that the node computes real values in: float16 if its first input or its output has that, else float32.
  DType real_dtype() const;

  /// True if input i, or the output, is int8 or uint8 with one scale and zero point.
  bool is_8bit(int i) const { return eight_bits(in_type(i)); }
  bool makes_8bit() const { return eight_bits(out_type()); }
  /// True if the output and the first `n` inputs are int8, or uint8 all of them.
  bool all_8bit(int n) const;

  /// Input i in the graph's order; with `real` of real_dtype().
  Id in(int i, bool real);
  Id image(int i, Layout layout, bool real);
  /// A constant of real_dtype(): dequantized, and with its dimensions in another order and grouping.
  Id real_constant(int i, const std::vector<int64_t>& perm, const Shape& shape);
  /// Binds the output: quantized here if it is 8-bit and `y` is not.
  bool out(Id y) { return bound(y, false); }
  bool out_image(Id y, Layout layout) { return bound(y, layout == Layout::kChannelsFirst); }
  /// A new value for the node's result.
  Id result(const Shape& shape, bool real);
  /// The activation behind `y`, for those that are no clamp.
  std::optional<Id> activated(Id y, const Activation& act);

 private:
  static bool eight_bits(const ValueType& t);
  Id as_real(Id x, bool real);
  bool bound(Id y, bool channels_last);
  XnnGraphWriter& g_;
};

// weighted.cc
/// True for 4-bit weights [out, in] that XNNPACK multiplies rows with which it quantizes at run time: their zero point
/// is the middle; one scale, one for each row or one for each block of 32 n weights, which bfloat16 holds.
bool is_four_bit_matrix(const Tensor& weights, const QuantPtr& quant);
bool xnn_conv(XnnNodeWriter& w);
bool xnn_conv_transpose(XnnNodeWriter& w);
bool xnn_matmul(XnnNodeWriter& w);

// normalization.cc
bool xnn_softmax(XnnNodeWriter& w);
/// Each group of channels less its mean, over its deviation. The mean goes before squares are summed: the mean of the
/// squares less the square of the mean, as ExecuTorch's own kernel has it, may round to less than 0.
bool xnn_group_norm(XnnNodeWriter& w);

// resize.cc
/// Bilinear resizing of rows and columns.
bool xnn_resize(XnnNodeWriter& w);

}  // namespace smelt::executorch
