// LSTM, RNN and SVDF: the state tensors become variables that are read before the operator and written after it.
#include "formats/tflite/lowering.h"
#include "ops/control/control.h"
#include "ops/recurrent/recurrent.h"

namespace smelt::tflite {
namespace {

/// The value that receives the new contents of state input `input`; kNoValue when the input is no variable.
ValueId new_state(OperatorContext& c, int input) {
  if (c.state_of(input) < 0) return kNoValue;
  return c.builder().value("", c.subgraph().result_type(c.in_slot(input)));
}

/// Emits the node and writes the states back.
Status emit_with_states(OperatorContext& c, Op op, AttrsPtr attrs, std::vector<ValueId> outs,
                        std::initializer_list<int> states) {
  std::vector<std::pair<int, ValueId>> writes;
  for (const int input : states) {
    if (!c.has(input)) return InvalidModel("state input ", input, " is absent");
    const ValueId id = new_state(c, input);
    outs.push_back(id);
    if (id != kNoValue) writes.emplace_back(c.state_of(input), id);
  }
  c.add_to(op, std::move(attrs), c.ins(), outs);
  for (const auto& [state, id] : writes) c.add_to(Op::kStateWrite, StateAttrs(state), {id}, {});
  return Ok();
}

Status add_intermediates(OperatorContext& c, std::vector<ValueType>& out) {
  for (int i = 0; i < c.intermediates() && i < 16; ++i) {
    SMELT_ASSIGN(ValueType t, c.intermediate(i));
    out.push_back(std::move(t));
  }
  return Ok();
}

/// The basic kernel keeps its results as the next step's inputs: outputs 0 and 1 are the new states.
Status lower_basic_lstm(OperatorContext& c, TfLstmAttrs a) {
  if (c.inputs() != 5) return InvalidModel(c.inputs(), " inputs, the basic kernel takes 5");
  if (c.outputs() != 4) return InvalidModel(c.outputs(), " outputs, the basic kernel gives 4");
  for (int i = 0; i < 5; ++i)
    if (!c.has(i)) return InvalidModel("input ", i, " is absent");
  a.basic = true;
  std::vector<ValueId> ins = c.ins();
  // The integer kernel's accumulator has the scale of the bias.
  if (c.in_type(3).dtype == DType::kI32 && c.in_slot(3).quant) {
    ins[3] = c.with_quant(ins[3], c.in_slot(3).quant);
  }
  c.add_to(Op::kTfLstm, std::move(a), ins, c.outs());
  if (c.state_of(1) >= 0) c.add_to(Op::kStateWrite, StateAttrs(c.state_of(1)), {c.out(0)}, {});
  if (c.state_of(4) >= 0) c.add_to(Op::kStateWrite, StateAttrs(c.state_of(4)), {c.out(1)}, {});
  return Ok();
}

/// Bounds of cells and projections; 0: none.
template <class Options>
Status read_clips(const Options& o, TfLstmAttrs& a) {
  if (!(o.cell_clip() >= 0) || !(o.proj_clip() >= 0))
    return InvalidModel("clips of ", o.cell_clip(), " and ", o.proj_clip(), ", none below 0 expected");
  a.cell_clip = o.cell_clip();
  a.proj_clip = o.proj_clip();
  return Ok();
}

}  // namespace

Status lower_lstm(OperatorContext& c) {
  TfLstmAttrs a;
  tfl::ActivationFunctionType act = tfl::ActivationFunctionType::TANH;
  bool basic = false;
  if (const auto* o = c.options<tfl::LSTMOptions>()) {
    act = o->fused_activation_function();
    SMELT_TRY(read_clips(*o, a));
    a.asymmetric_inputs = o->asymmetric_quantize_inputs();
    SMELT_TRY(check_enumerator(o->kernel_type(), "kernel type"));
    basic = o->kernel_type() == tfl::LSTMKernelType::BASIC;
  } else if (const auto* s = c.options<tfl::UnidirectionalSequenceLSTMOptions>()) {
    act = s->fused_activation_function();
    SMELT_TRY(read_clips(*s, a));
    a.asymmetric_inputs = s->asymmetric_quantize_inputs();
    a.time_major = s->time_major();
    a.diagonal_recurrent = s->diagonal_recurrent_tensors();
  } else {
    return InvalidModel("the options are missing");
  }
  a.sequence = c.code() == tfl::BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM;
  SMELT_ASSIGN(a.act, activation_of(act));
  if (basic) return lower_basic_lstm(c, std::move(a));
  if (c.inputs() < 20) return InvalidModel(c.inputs(), " inputs, the full kernel takes 20 or 24");
  for (const int required : {0, 2, 3, 4, 6, 7, 8, 13, 14, 15, 18, 19})
    if (!c.has(required)) return InvalidModel("input ", required, " is absent, but required");
  SMELT_TRY(add_intermediates(c, a.intermediates));
  return emit_with_states(c, Op::kTfLstm, make_attrs<TfLstmAttrs>(std::move(a)), {c.out(0)}, {18, 19});
}

Status lower_bidirectional_lstm(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::BidirectionalSequenceLSTMOptions>());
  TfLstmAttrs a;
  a.sequence = a.bidirectional = true;
  SMELT_TRY(read_clips(*o, a));
  a.merge_outputs = o->merge_outputs();
  a.time_major = o->time_major();
  a.asymmetric_inputs = o->asymmetric_quantize_inputs();
  SMELT_ASSIGN(a.act, activation_of(o->fused_activation_function()));
  for (const int required : {2, 3, 4, 6, 7, 8, 13, 14, 15, 19, 20, 21, 23, 24, 25, 30, 31, 32, 35, 36, 37, 38})
    if (!c.has(required)) return InvalidModel("input ", required, " is absent, but required");
  if (!a.merge_outputs && c.outputs() < 2) return InvalidModel("1 output, separate directions give 2");
  return emit_with_states(c, Op::kTfLstm, make_attrs<TfLstmAttrs>(std::move(a)),
                          {c.out(0), o->merge_outputs() ? kNoValue : c.out(1)}, {35, 36, 37, 38});
}

Status lower_rnn(OperatorContext& c) {
  TfRnnAttrs a;
  tfl::ActivationFunctionType act = tfl::ActivationFunctionType::NONE;
  if (const auto* o = c.options<tfl::RNNOptions>()) {
    act = o->fused_activation_function();
    a.asymmetric_inputs = o->asymmetric_quantize_inputs();
  } else if (const auto* s = c.options<tfl::SequenceRNNOptions>()) {
    act = s->fused_activation_function();
    a.asymmetric_inputs = s->asymmetric_quantize_inputs();
    a.time_major = s->time_major();
  } else {
    return InvalidModel("the options are missing");
  }
  a.sequence = c.code() == tfl::BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN;
  SMELT_ASSIGN(a.act, activation_of(act));
  return emit_with_states(c, Op::kTfRnn, make_attrs<TfRnnAttrs>(std::move(a)), {c.out(0)}, {4});
}

Status lower_bidirectional_rnn(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::BidirectionalSequenceRNNOptions>());
  TfRnnAttrs a;
  a.sequence = a.bidirectional = true;
  a.time_major = o->time_major();
  a.merge_outputs = o->merge_outputs();
  a.asymmetric_inputs = o->asymmetric_quantize_inputs();
  SMELT_ASSIGN(a.act, activation_of(o->fused_activation_function()));
  if (!a.merge_outputs && c.outputs() < 2) return InvalidModel("1 output, separate directions give 2");
  return emit_with_states(c, Op::kTfRnn, make_attrs<TfRnnAttrs>(std::move(a)),
                          {c.out(0), o->merge_outputs() ? kNoValue : c.out(1)}, {4, 8});
}

Status lower_svdf(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::SVDFOptions>());
  if (o->rank() < 1) return InvalidModel("rank ", o->rank());
  TfSvdfAttrs a;
  a.rank = o->rank();
  a.asymmetric_inputs = o->asymmetric_quantize_inputs();
  SMELT_ASSIGN(a.act, activation_of(o->fused_activation_function()));
  SMELT_TRY(add_intermediates(c, a.intermediates));
  return emit_with_states(c, Op::kTfSvdf, make_attrs<TfSvdfAttrs>(std::move(a)), {c.out(0)}, {4});
}

}  // namespace smelt::tflite
