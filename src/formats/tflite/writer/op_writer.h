#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/common/written_node.h"
#include "formats/tflite/writer/subgraph_writer.h"
#include "ops/common/enums.h"
#include "ops/core/op.h"

namespace smelt::tflite {

/// One node while it is written: its operands as tensors, and where its results go.
class OpWriter : public formats::WrittenNode {
 public:
  using Code = tfl::BuiltinOperator;
  OpWriter(SubgraphWriter& subgraph, const Node& node) : WrittenNode(subgraph.graph(), node), s_(subgraph) {}

  SubgraphWriter& subgraph() { return s_; }
  const ValueType& in_type(int i) const { return s_.type(id(i)); }
  const ValueType& out_type(int i) const { return s_.type(out_id(i)); }
  int rank(int i) const { return in_type(i).ranked ? in_type(i).shape.rank() : -1; }
  /// True if no operand is quantized.
  bool unquantized() const;
  /// True if all operands are tensors of real numbers that the file holds as float32.
  bool real_result() const;

  // Operands.
  int in(int i) { return s_.tensor(id(i)); }
  int in_last(int i) { return s_.channels_last(id(i)); }
  int optional(int i) { return has(i) ? in(i) : -1; }
  int real(int i) { return s_.dequantize(in(i)); }  ///< as float32 if it is quantized
  /// Input i as int32, as TFLite wants shapes, axes and sizes; larger numbers become the largest.
  int in_i32(int i);
  std::vector<int> all();
  DType file_dtype(int tensor) { return s_.at(tensor).dtype; }

  // Results. A real result becomes quantized here if the value is.
  void out(int i, int tensor);
  void out_last(int i, int tensor);
  /// One operator that writes output i, or all of them.
  bool emit(Code code, IntList in, OperatorOptions options = {});
  bool emit_last(Code code, IntList in, OperatorOptions options = {});
  bool emit_all(Code code, IntList in, OperatorOptions options = {});

  // Formulas on float32 or integer tensors.
  int call(Code code, IntList in, OperatorOptions options = {});  ///< result of the type of input 0
  int add(int a, int b);
  int sub(int a, int b);
  int mul(int a, int b);
  int div(int a, int b);
  int binary(Code code, int a, int b) { return call(code, {a, b}); }
  int compare(Code code, int a, int b) { return s_.add(code, {a, b}, DType::kBool); }
  int select(int condition, int a, int b) { return s_.add(Code::SELECT_V2, {condition, a, b}, file_dtype(a)); }
  int add(formats::Operands2 x) { return add(x.a, x.b); }
  int sub(formats::Operands2 x) { return sub(x.a, x.b); }
  int mul(formats::Operands2 x) { return mul(x.a, x.b); }
  int div(formats::Operands2 x) { return div(x.a, x.b); }
  int binary(Code code, formats::Operands2 x) { return binary(code, x.a, x.b); }
  int compare(Code code, formats::Operands2 x) { return compare(code, x.a, x.b); }
  int select(formats::Operands3 x) { return select(x.a, x.b, x.c); }
  int number_like(int tensor, double v);  ///< a scalar of the tensor's element type
  int reduce(Code code, int x, Int64List axes, bool keep_dims);
  /// The activation applied to x, which may be quantized: `code` of no fused activation. Nothing if TFLite lacks it.
  std::optional<int> activated(int x, const Activation& act);

 private:
  SubgraphWriter& s_;
};

/// Writes a node; false if TFLite can't say it.
using WriteFn = bool (*)(OpWriter&);
WriteFn find_writer(Op op);

/// The activation that Conv, Add and others fuse; nothing if it has to be an operator of its own.
std::optional<tfl::ActivationFunctionType> fused_activation(const Activation& act);
/// Options of ADD, SUB, MUL and DIV with a fused activation.
OperatorOptions arithmetic_options(tfl::BuiltinOperator code, tfl::ActivationFunctionType act, bool pot_scale);
OperatorOptions concat_options(int64_t axis);
inline int64_t wrapped_axis(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }
/// True if the node may compute on channels last.
inline bool keeps_last(OpWriter& w) { return w.subgraph().is_channels_last(w.id(0)) && w.rank(0) >= 3; }
tfl::TensorType tensor_type(DType dtype);
/// An integer bias with the scales of the product of x and a filter, whose zero points are 0, as runtimes ask for them.
int scaled_bias(SubgraphWriter& s, int bias, int x, int filter);
/// True if two values have equal element types and quantization parameters.
bool same_type(const ValueType& a, const ValueType& b);
/// Dimensions as the format's lists hold them.
std::vector<int32_t> as_i32(const std::vector<int64_t>& values);

/// An int32 vector [rank] with `values` [k] at the places `axes` [k], int32 and not negative or from the end, and
/// `fill` elsewhere.
int spread(OpWriter& w, int values, int axes, int rank, int64_t fill);
/// The dimensions of a tensor as an int32 vector.
int dims_of(SubgraphWriter& s, int x);

/// How scale and zero point follow from the values that share them, at run time.
struct DynamicRule {
  std::vector<int64_t> axes = {};  ///< dimensions of the values that share parameters
  bool keep_dims = true;           ///< of the parameters
  bool symmetric = false;
  bool xnnpack = false;              ///< asymmetric by XNNPACK's rule; else by that of DynamicQuantizeLinear
  double lo = 0, hi = 255, eps = 0;  ///< least and largest integer, least scale
  /// uint8 with one scale and zero point for a tensor of this rank.
  static DynamicRule whole(int rank);
};

/// Float32 x in integer steps, all as float32.
struct DynamicLevels {
  int levels = -1, scale = -1, point = -1;  ///< x is close to (levels - point) * scale
};
DynamicLevels dynamic_levels(OpWriter& w, int x, const DynamicRule& rule);
/// What the integers of a Quantize to Quantization::Kind::kPerToken mean, as float32.
int rounded_by_slice(OpWriter& w);
/// The start of a slice that begins at `place`, int32 [1], of `axis` and at 0 of all other dimensions: int32 [rank].
int slice_start(SubgraphWriter& s, int place, int64_t axis, int rank);

/// Coordinates [n, rank] of the elements of an index tensor: its own places but for `axis`, where its values stand,
/// which count from the end of `extent` if they are negative; -1: the size of the run.
int element_coordinates(OpWriter& w, int input, int64_t axis, int64_t extent);
/// Output 0 is input 0 with updates at coordinates [..., k], joined as the node's ScatterAttrs say. False if the format
/// has no form for it.
bool scatter_updates(OpWriter& w, int coordinates, int updates);

#define TFL_WRITE(op, function) bool function(OpWriter& w);
#include "formats/tflite/writer/operators.inc"
#undef TFL_WRITE

}  // namespace smelt::tflite
