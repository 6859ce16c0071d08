#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cat.h"
#include "base/list_view.h"
#include "formats/common/written_node.h"
#include "formats/executorch/writer/plan_writer.h"
#include "ops/common/enums.h"
#include "ops/core/op.h"

namespace smelt {
struct UnaryAttrs;
}

namespace smelt::executorch {

/// The name of an operator with its namespace: "aten::NAME".
inline std::string aten(std::string_view name) { return Cat("aten::", name); }

/// One node while it is written as calls. Quantized operands are dequantized in front and results quantized behind.
class CallWriter : public formats::WrittenNode {
 public:
  CallWriter(PlanWriter& plan, const Node& node) : WrittenNode(plan.graph(), node), p_(plan) {}

  PlanWriter& plan() { return p_; }
  int rank(int i) const { return in_type(i).shape.rank(); }
  /// Axes counted from the front.
  std::optional<std::vector<int64_t>> axes(int i, int rank) const;

  int in(int i) { return p_.tensor(id(i)); }
  /// The bias of a weighted node, input 2, as float32; null if there is none.
  int bias();
  int optional(int i) { return has(i) ? real(i) : p_.null(); }
  int real(int i);  ///< as float32 if it is quantized
  /// Input i as an image with channels first, quantized if the input is.
  int quantized_image(int i, Layout layout);
  /// Input i as an image with channels first; float32 if it is quantized.
  int image(int i, Layout layout);
  DType dtype(int value) const { return p_.at(value).dtype; }
  Shape shape(int value) const { return p_.at(value).shape; }

  // Results: quantized here if the value is.
  bool out(int i, int value);
  bool out_image(int i, int value, Layout layout);
  /// The type of output i as calls compute it: float32 in place of quantized integers.
  DType result_dtype(int i) const;
  /// One call of `name`.out that gives output 0.
  bool emit(std::string_view name, IntList args, std::string_view overload = "out");
  /// One call of an operator that moves elements: integers of quantized values stay what they are.
  bool move(std::string_view name, IntList args, std::string_view overload = "out");

  // Formulas.
  int call(std::string_view name, IntList args, std::string_view overload = "out");  ///< as argument 0
  int unary(std::string_view name, int x) { return call(aten(name), {x}); }
  int binary(std::string_view name, int a, int b, std::string_view overload = "out");  ///< broadcasts
  int add(int a, int b);
  int sub(int a, int b);
  int mul(int a, int b) { return binary("mul", a, b); }
  int div(int a, int b) { return binary("div", a, b); }
  int compare(std::string_view name, int a, int b);
  int select(int condition, int a, int b);
  int binary(std::string_view name, formats::Operands2 x, std::string_view overload = "out") {
    return binary(name, x.a, x.b, overload);
  }
  int add(formats::Operands2 x) { return add(x.a, x.b); }
  int sub(formats::Operands2 x) { return sub(x.a, x.b); }
  int mul(formats::Operands2 x) { return mul(x.a, x.b); }
  int div(formats::Operands2 x) { return div(x.a, x.b); }
  int compare(std::string_view name, formats::Operands2 x) { return compare(name, x.a, x.b); }
  int select(formats::Operands3 x) { return select(x.a, x.b, x.c); }
  int clamp(int x, double lo, double hi);
  int number_like(int value, double v);  ///< a scalar constant of the value's element type
  int cast(int x, DType to);
  int reduce(std::string_view name, int x, Int64List axes, bool keep_dims);
  std::optional<int> activated(int x, const Activation& act);
  /// Equal limits are those of the type.
  int quantized(int x, DType dtype, const QuantPtr& quant, int64_t min = 0, int64_t max = 0);
  int dequantized(int x, const QuantPtr& quant, DType held);

 private:
  PlanWriter& p_;
};

/// Steps of a recurrence that are written one behind the other.
inline constexpr int64_t kMostSteps = int64_t{1} << 14;

using WriteCallFn = bool (*)(CallWriter&);
WriteCallFn find_call_writer(Op op);

/// The shape of output 0 with channels first.
Shape image_shape(CallWriter& w, Layout layout);
/// True if input i and output 0 hold numbers of one type, so that integers of quantized values can be moved.
bool moves_integers(CallWriter& w, int i = 0);
/// x[begin:end:step] along one dimension; bounds lie inside it and step is positive.
int sliced(CallWriter& w, int x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
/// Entry `index` of dimension 0.
int entry(CallWriter& w, int x, int64_t index);
/// Tensors one behind the other along an axis.
int concatenated(CallWriter& w, const std::vector<int>& parts, int64_t axis);
/// Tensors of one shape along a new axis.
int stacked(CallWriter& w, const std::vector<int>& parts, int64_t axis);
int expanded(CallWriter& w, int x, const Shape& to);
/// x with this many entries of `value` in front of and behind dimension `axis`.
int bordered(CallWriter& w, int x, int64_t axis, int64_t before, int64_t after, double value);
int int64_constant(CallWriter& w, const std::vector<int64_t>& values, const Shape& shape);
/// x within [-limit, limit]; x itself if the limit is not positive.
int clamped(CallWriter& w, int x, double limit);
/// Entries of a table [rows, ...] by int64 indices of any shape.
int look_up(CallWriter& w, int table, int at);
/// x @ weights^T + bias over the last dimension; `bias` may be null().
int linear(CallWriter& w, int x, int weights, int bias);
/// a @ b with broadcast leading dimensions.
std::optional<int> product(CallWriter& w, int a, int b);
/// The convolution of image x with a filter by the attributes of the node, ConvAttrs with channels first. nullopt where
/// it has other than two spatial dimensions.
std::optional<int> convolved(CallWriter& w, int x, int filter);
int flipped(CallWriter& w, int x, const std::vector<int64_t>& axes);
/// x quantized to 8 bits with one scale and zero point that follow from its elements, and back.
int quantized_at_run_time(CallWriter& w, int x, DType to);
/// Halves are rounded away from 0.
int rounded_half_away(CallWriter& w, int x);
/// A function of a float value; nullopt where it has no form.
std::optional<int> unary_value(CallWriter& w, const UnaryAttrs& a, int x);
/// An axis counted from the front.
inline int64_t axis_of(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }
/// The shape of a and b broadcast with each other.
Shape broadcast_shape(const Shape& a, const Shape& b);

#define ATEN_WRITE(op, function) bool function(CallWriter& w);
#include "formats/executorch/writer/operators.inc"
#undef ATEN_WRITE

}  // namespace smelt::executorch
