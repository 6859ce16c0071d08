#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/common/lowering_context.h"
#include "formats/tflite/reader.h"
#include "ops/common/enums.h"

namespace smelt::tflite {

/// One operator while it is lowered: its operands as values of the graph, its options, and where its results go.
class OperatorContext : public LoweringContext {
 public:
  OperatorContext(SubgraphReader& subgraph, const tfl::Operator& op, tfl::BuiltinOperator code)
      : LoweringContext(subgraph.builder()), subgraph_(subgraph), op_(op), code_(code) {}
  /// Resolves the operands; `optional` has bit i set where input i may be absent.
  Status bind(uint64_t optional);
  /// Writes to variables that the operator computed as ordinary outputs.
  Status finish();

  SubgraphReader& subgraph() { return subgraph_; }
  Reader& reader() { return subgraph_.reader(); }
  const tfl::Operator& op() const { return op_; }
  tfl::BuiltinOperator code() const { return code_; }

  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(outputs_.size()); }
  bool has(int i) const { return i < inputs() && inputs_[static_cast<size_t>(i)] != kNoValue; }
  ValueId in(int i) const { return i < inputs() ? inputs_[static_cast<size_t>(i)] : kNoValue; }
  const std::vector<ValueId>& ins() const { return inputs_; }
  ValueId out(int i) const { return outputs_[static_cast<size_t>(i)]; }
  const std::vector<ValueId>& outs() const { return outputs_; }
  const ValueType& in_type(int i) const { return type(in(i)); }
  const ValueType& out_type(int i) const { return type(out(i)); }
  const Tensor* const_tensor(int i) const { return constant_of(in(i)); }
  /// Contents of a constant integer input, or an error that names it.
  Result<std::vector<int64_t>> const_ints(int i, const char* what);
  /// The tensor index of an operand; -1 when absent.
  int in_tensor(int i) const { return op_.inputs()->Get(static_cast<uint32_t>(i)); }
  TensorSlot& in_slot(int i) { return subgraph_.slot(in_tensor(i)); }
  TensorSlot& out_slot(int i) { return subgraph_.slot(op_.outputs()->Get(static_cast<uint32_t>(i))); }
  int intermediates() const { return op_.intermediates() ? static_cast<int>(op_.intermediates()->size()) : 0; }
  /// Type and quantization of an intermediate tensor as the file states them.
  Result<ValueType> intermediate(int i);

  /// The options, or null when the operator carries none or others.
  template <class T>
  const T* options() const {
    if constexpr (requires { tfl::BuiltinOptionsTraits<T>::enum_value; }) {
      if (tfl::BuiltinOptionsTraits<T>::enum_value != tfl::BuiltinOptions::NONE)
        return op_.builtin_options_type() == tfl::BuiltinOptionsTraits<T>::enum_value
                   ? static_cast<const T*>(op_.builtin_options())
                   : nullptr;
    }
    return op_.builtin_options_2_type() == tfl::BuiltinOptions2Traits<T>::enum_value
               ? static_cast<const T*>(op_.builtin_options_2())
               : nullptr;
  }
  /// The options, or an error that names them.
  template <class T>
  Result<const T*> need_options() const {
    if (const T* o = options<T>()) return o;
    if constexpr (requires { tfl::BuiltinOptionsTraits<T>::enum_value; })
      if (tfl::BuiltinOptionsTraits<T>::enum_value != tfl::BuiltinOptions::NONE)
        return InvalidModel(tfl::EnumNameBuiltinOptions(tfl::BuiltinOptionsTraits<T>::enum_value), " are missing");
    return InvalidModel(tfl::EnumNameBuiltinOptions2(tfl::BuiltinOptions2Traits<T>::enum_value), " are missing");
  }

  // Results. Every method returns status(), so that an error of an earlier step ends the lowering here.
  /// One node from these inputs to output 0.
  Status emit(Op op, AttrsPtr attrs, IntList ins) { return emit_to(op, std::move(attrs), ins, {out(0)}); }
  Status emit(Op op, IntList ins) { return emit(op, make_attrs<NoAttrs>(), ins); }
  template <std::derived_from<Attrs> A>
  Status emit(Op op, A attrs, IntList ins) {
    return emit(op, make_attrs<A>(std::move(attrs)), ins);
  }
  /// One node from these inputs to all outputs.
  Status emit_all(Op op, AttrsPtr attrs, IntList ins) { return emit_to(op, std::move(attrs), ins, outputs_); }
  Status emit_all(Op op, IntList ins) { return emit_all(op, make_attrs<NoAttrs>(), ins); }
  template <std::derived_from<Attrs> A>
  Status emit_all(Op op, A attrs, IntList ins) {
    return emit_all(op, make_attrs<A>(std::move(attrs)), ins);
  }
  /// add_to() and status().
  template <class A>
  Status emit_to(Op op, A attrs, IntList ins, IntList outs) {
    add_to(op, std::move(attrs), ins, outs);
    return status();
  }
  /// As emit(), for operators that look at the integers of a value whatever its quantization: operands lose their
  /// quantization, the result gets its own.
  Status emit_unquantized(Op op, AttrsPtr attrs, IntList operands);
  template <std::derived_from<Attrs> A>
  Status emit_unquantized(Op op, A attrs, IntList ins) {
    return emit_unquantized(op, make_attrs<A>(std::move(attrs)), ins);
  }
  /// Follows `value` with an activation that the operator itself can't take; the result is output 0.
  Status emit_activation(ValueId value, tfl::ActivationFunctionType act);
  /// A further name for an existing value.
  Status alias(int output, ValueId value);
  /// The variable behind input i, or -1 when it is an ordinary value.
  int state_of(int i) { return has(i) ? in_slot(i).state : -1; }

  /// The integers of a value without their quantization.
  ValueId unquantized(ValueId id) { return type(id).quant ? with_quant(id, nullptr) : id; }
  /// Makes constant uint8 inputs int8 where the result is float32: old files store the weights of hybrid operators so.
  void read_uint8_as_int8();

 private:
  SubgraphReader& subgraph_;
  const tfl::Operator& op_;
  tfl::BuiltinOperator code_;
  std::vector<ValueId> inputs_, outputs_;
};

using LowerFn = Status (*)(OperatorContext&);

/// An entry of the table of builtin operators (operators.inc).
struct OpEntry {
  tfl::BuiltinOperator code;
  const char* name;
  LowerFn lower;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  uint64_t optional;
  bool hybrid;
};
/// Null for a code that the table does not know.
const OpEntry* find_op(int code);

/// Lowers operator `index` of the subgraph; errors are located.
Status lower_operator(SubgraphReader& subgraph, const tfl::Operator& op, int index);

#define TFL_OP(code, lower, ...) Status lower(OperatorContext& c);
#include "formats/tflite/operators.inc"
Status lower_custom(OperatorContext& c, const std::string& code);
/// x with `gap` copies of the scalar `value` between its elements along a dimension.
ValueId insert_gaps(OperatorContext& c, ValueId x, ValueId value, int axis, int64_t gap);
/// A loop over two subgraphs on all inputs.
Status emit_while(OperatorContext& c, int cond, int body);

/// An error unless `value` is an enumerator of the schema; E has MIN and MAX and no holes.
template <class E>
Status check_enumerator(E value, const char* what) {
  if (value >= E::MIN && value <= E::MAX) return Ok();
  return InvalidModel(what, " ", static_cast<int64_t>(value), " is not in the schema");
}
/// Activation of a recurrent cell; an error for a number beyond the schema.
Result<Activation> activation_of(tfl::ActivationFunctionType act);
/// Activation fused behind an operator: the format's kernels only clamp there, TANH and SIGN_BIT change nothing.
Result<Activation> clamp_of(tfl::ActivationFunctionType act);
/// Same, Valid, or an error.
Result<AutoPad> padding_of(tfl::Padding padding);

}  // namespace smelt::tflite
