#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"

namespace smelt {

/// Lowers operators of a file format into nodes of one graph. Every format derives its own context, which adds how the
/// format names operands, attributes and results.
///
/// The first error sticks: from then on nothing is added and results are kNoValue, so that a lowering reads as a
/// straight formula. The caller asks status() at the end. A context refers to the builder, which sets origin and
/// location of the nodes.
class LoweringContext {
 public:
  explicit LoweringContext(Builder& builder) : builder_(builder) {}

  Builder& builder() { return builder_; }
  const Builder& builder() const { return builder_; }

  // Errors.
  bool ok() const { return !error_; }
  Status status() const { return error_ ? Status(*error_) : Ok(); }
  void fail(Error e) {
    if (!error_) error_ = std::move(e);
  }
  /// The model is invalid, for this reason.
  template <class... A>
  void fail(const A&... text) {
    if (!error_) error_ = InvalidModel(text...);
  }
  /// The model is valid, but needs something that smelt lacks.
  template <class... A>
  void unsupported(const A&... text) {
    if (!error_) error_ = Unsupported(text...);
  }

  // Values. kNoValue has an unknown type.
  const ValueType& type(ValueId id) const;
  DType dtype(ValueId id) const { return type(id).dtype; }
  int rank(ValueId id) const;                   ///< -1: not known
  int64_t dim(ValueId id, int64_t axis) const;  ///< -1: not known, or no such axis
  /// Contents of a constant; null for dynamic values.
  const Tensor* constant_of(ValueId id) const { return builder_.constant_of(id); }

  // Constants.
  ValueId constant(Tensor t) { return ok() ? builder_.constant("", std::move(t)) : kNoValue; }
  ValueId scalar(DType dtype, double v) { return ok() ? builder_.scalar(dtype, v) : kNoValue; }
  /// 1-D int64.
  ValueId i64(Int64List v) { return ok() ? builder_.i64(v) : kNoValue; }

  // Nodes. Attributes are passed by value, or shared; operators without attributes take none.
  ValueId add(Op op, AttrsPtr attrs, IntList inputs);
  ValueId add(Op op, IntList inputs) { return add(op, make_attrs<NoAttrs>(), inputs); }
  template <std::derived_from<Attrs> A>
  ValueId add(Op op, A attrs, IntList inputs) {
    return add(op, make_attrs<A>(std::move(attrs)), inputs);
  }
  /// One output of a given type: its quantization, or what shape inference can't know.
  ValueId add_as(Op op, AttrsPtr attrs, IntList inputs, const ValueType& type);
  template <std::derived_from<Attrs> A>
  ValueId add_as(Op op, A attrs, IntList inputs, const ValueType& type) {
    return add_as(op, make_attrs<A>(std::move(attrs)), inputs, type);
  }
  /// `count` outputs; all kNoValue after an error.
  std::vector<ValueId> add_n(Op op, AttrsPtr attrs, IntList inputs, int count);
  template <std::derived_from<Attrs> A>
  std::vector<ValueId> add_n(Op op, A attrs, IntList inputs, int count) {
    return add_n(op, make_attrs<A>(std::move(attrs)), inputs, count);
  }
  /// A node that writes existing values, or none.
  void add_to(Op op, AttrsPtr attrs, IntList inputs, IntList outputs);
  template <std::derived_from<Attrs> A>
  void add_to(Op op, A attrs, IntList inputs, IntList outputs) {
    add_to(op, make_attrs<A>(std::move(attrs)), inputs, outputs);
  }

  // Steps that many operators need.
  ValueId cast(ValueId x, DType to);  ///< x itself when it has the type
  ValueId unary(Unary fn, ValueId x, double a = 0, double b = 0, double c = 0);
  ValueId binary(Binary fn, ValueId a, ValueId b, double alpha = 1);
  ValueId where(ValueId condition, ValueId a, ValueId b) { return add(Op::kWhere, {condition, a, b}); }
  ValueId reshape(ValueId x, Int64List shape);  ///< -1: inferred; 0: an empty dimension
  ValueId reshape_to(ValueId x, ValueId shape) { return add(Op::kReshape, ReshapeAttrs(), {x, shape}); }
  ValueId transpose(ValueId x, Int64List perm);
  ValueId squeeze(ValueId x, Int64List axes);    ///< x itself without axes
  ValueId unsqueeze(ValueId x, Int64List axes);  ///< x itself without axes
  ValueId slice(ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step = 1);
  ValueId concat(IntList parts, int64_t axis) { return add(Op::kConcat, AxisAttrs(axis), parts); }
  std::vector<ValueId> split(ValueId x, int64_t axis, int count);  ///< into equal parts
  ValueId expand(ValueId x, ValueId shape) { return add(Op::kExpand, {x, shape}); }
  ValueId fill(ValueId shape, ValueId value) { return add(Op::kFill, {shape, value}); }
  ValueId range(ValueId start, ValueId end, ValueId step) { return add(Op::kRange, {start, end, step}); }
  /// Dimensions [start, end) of x as an int64 vector.
  ValueId dims_of(ValueId x, int64_t start = 0, int64_t end = INT64_MAX);
  /// The elements of x under another quantization, or without one (null). Constants share their bytes.
  ValueId with_quant(ValueId x, QuantPtr quant);

 private:
  template <class T>
  T keep(Result<T> result, T otherwise) {
    if (result.ok()) return std::move(result).value();
    fail(result.error());
    return otherwise;
  }

  Builder& builder_;
  std::optional<Error> error_;
};

}  // namespace smelt
