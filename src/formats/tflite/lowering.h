#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tflite/reader.h"
#include "ops/common/enums.h"

namespace smelt::tflite {

/// One operator while it is lowered: its operands as values of the graph, its options, and where its results go.
class Lowering {
 public:
  Lowering(SubgraphReader& subgraph, const tfl::Operator& op, tfl::BuiltinOperator code)
      : subgraph_(subgraph), op_(op), code_(code) {}
  /// Resolves the operands; `optional` has bit i set where input i may be absent.
  Status bind(uint64_t optional);
  /// Writes to variables that the operator computed as plain outputs.
  Status finish();

  SubgraphReader& subgraph() { return subgraph_; }
  Reader& reader() { return subgraph_.reader(); }
  Builder& b() { return subgraph_.builder(); }
  const tfl::Operator& op() const { return op_; }
  tfl::BuiltinOperator code() const { return code_; }

  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(outputs_.size()); }
  bool has(int i) const { return i < inputs() && inputs_[static_cast<size_t>(i)] != kNoValue; }
  ValueId in(int i) const { return i < inputs() ? inputs_[static_cast<size_t>(i)] : kNoValue; }
  const std::vector<ValueId>& ins() const { return inputs_; }
  ValueId out(int i) const { return outputs_[static_cast<size_t>(i)]; }
  const std::vector<ValueId>& outs() const { return outputs_; }
  const ValueType& type(int i) { return b().type(in(i)); }
  const ValueType& out_type(int i) { return b().type(out(i)); }
  const Tensor* constant(int i) { return b().constant_of(in(i)); }
  /// Contents of a constant integer input, or an error that names it.
  Result<std::vector<int64_t>> const_ints(int i, const char* what);
  /// The tensor index of an operand; -1 when absent.
  int in_tensor(int i) const { return op_.inputs()->Get(static_cast<uint32_t>(i)); }
  TensorSlot& in_slot(int i) { return subgraph_.slot(in_tensor(i)); }
  TensorSlot& out_slot(int i) { return subgraph_.slot(op_.outputs()->Get(static_cast<uint32_t>(i))); }
  int intermediates() const { return op_.intermediates() ? static_cast<int>(op_.intermediates()->size()) : 0; }
  /// Type and stored quantization of an intermediate tensor.
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

  /// One node from these inputs to output 0 (or to all outputs).
  Status emit(Op op, AttrsPtr attrs, std::vector<ValueId> ins);
  Status emit_all(Op op, AttrsPtr attrs, std::vector<ValueId> ins);
  /// Of a hybrid operator: makes constant uint8 inputs int8 where the result is float32.
  void read_uint8_as_int8();
  /// The same value without its quantization: the stored integers as plain numbers.
  Result<ValueId> plain(ValueId id);
  /// The stored integers of a value under other parameters.
  Result<ValueId> with_quant(ValueId id, QuantPtr quant);
  /// As emit, for operators that look at stored integers whatever their quantization: operands plain, result
  /// relabelled.
  Status emit_plain(Op op, AttrsPtr attrs, std::vector<ValueId> ins);
  /// Follows output 0 of `value` with an activation that the operator itself can't take.
  Status emit_activation(ValueId value, tfl::ActivationFunctionType act);
  /// A further name for an existing value.
  Status alias(int output, ValueId value);
  /// The variable behind input i, or -1 when it is an ordinary value.
  int state_of(int i);

 private:
  SubgraphReader& subgraph_;
  const tfl::Operator& op_;
  tfl::BuiltinOperator code_;
  std::vector<ValueId> inputs_, outputs_;
};

using LowerFn = Status (*)(Lowering&);

/// A row of the table of builtin operators (operators.inc).
struct BuiltinRow {
  tfl::BuiltinOperator code;
  const char* name;
  LowerFn lower;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  uint64_t optional;
  bool hybrid;
};
/// Null for a code that the table does not know.
const BuiltinRow* builtin_row(int code);

/// Lowers operator `index` of the subgraph; errors are located.
Status lower_operator(SubgraphReader& subgraph, const tfl::Operator& op, int index);

#define TFL_OP(code, lower, ...) Status lower(Lowering& l);
#include "formats/tflite/operators.inc"
Status lower_custom(Lowering& l, const std::string& code);
/// A loop over two subgraphs on all inputs.
Status emit_while(Lowering& l, int cond, int body);

/// Activation of a recurrent cell; an error for a number beyond the schema.
Result<Activation> activation_of(tfl::ActivationFunctionType act);
/// Activation fused behind an operator: the format's kernels only clamp there, TANH and SIGN_BIT change nothing.
Result<Activation> clamp_of(tfl::ActivationFunctionType act);
/// Same, Valid, or an error.
Result<AutoPad> padding_of(tfl::Padding padding);

}  // namespace smelt::tflite
