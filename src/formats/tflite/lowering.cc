#include "formats/tflite/lowering.h"

#include <algorithm>

#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt::tflite {

const BuiltinRow* builtin_row(int code) {
  static const BuiltinRow rows[] = {
#define TFL_ROW(code, lower, min_in, max_in, min_out, max_out, optional, hybrid) \
  {tfl::BuiltinOperator::code, #code, lower, min_in, max_in, min_out, max_out, optional, hybrid},
#define TFL_OP(...) TFL_ROW(__VA_ARGS__, false)
#define TFL_HYBRID_OP(...) TFL_ROW(__VA_ARGS__, true)
#include "formats/tflite/operators.inc"
#undef TFL_ROW
  };
  static const std::vector<const BuiltinRow*> by_code = [] {
    std::vector<const BuiltinRow*> index(static_cast<size_t>(tfl::BuiltinOperator::MAX) + 1, nullptr);
    for (const BuiltinRow& row : rows) index[static_cast<size_t>(row.code)] = &row;
    return index;
  }();
  return code >= 0 && static_cast<size_t>(code) < by_code.size() ? by_code[static_cast<size_t>(code)] : nullptr;
}

Status Lowering::bind(uint64_t optional) {
  const int tensors = subgraph_.tensors();
  const uint32_t ins = op_.inputs() ? op_.inputs()->size() : 0, outs = op_.outputs() ? op_.outputs()->size() : 0;
  for (uint32_t i = 0; i < ins; ++i) {
    const int t = op_.inputs()->Get(i);
    if (t == -1) {
      if (i >= 64 || !(optional >> i & 1)) return InvalidModel("input ", i, " is absent, but required");
      inputs_.push_back(kNoValue);
      continue;
    }
    if (t < 0 || t >= tensors) return InvalidModel("input ", i, " is tensor ", t, ", the subgraph has ", tensors);
    if (subgraph_.slot(t).dtype == DType::kInvalid) {
      inputs_.push_back(subgraph_.slot(t).value);  // a handle: what it names is known to its operators
      continue;
    }
    SMELT_ASSIGN(const ValueId id, subgraph_.use(t));
    inputs_.push_back(id);
  }
  for (uint32_t i = 0; i < outs; ++i) {
    const int t = op_.outputs()->Get(i);
    if (t < 0 || t >= tensors) return InvalidModel("output ", i, " is tensor ", t, ", the subgraph has ", tensors);
    TensorSlot& slot = subgraph_.slot(t);
    if (slot.value != kNoValue) return InvalidModel("output ", i, " writes tensor ", t, ", which already has a value");
    const ValueId id = b().value(slot.table->name() ? slot.table->name()->str() : "", subgraph_.result_type(slot));
    outputs_.push_back(id);
    if (slot.state < 0) slot.value = id;
  }
  return Ok();
}

void Lowering::read_uint8_as_int8() {
  if (out_type(0).dtype != DType::kF32) return;
  for (ValueId& id : inputs_) {
    const Tensor* t = id == kNoValue ? nullptr : b().constant_of(id);
    if (!t || t->dtype() != DType::kU8 || !t->quant()) continue;
    Tensor same = Tensor::view(DType::kI8, t->shape(), t->raw(), t->owner());
    same.set_quant(t->quant());
    id = b().constant(b().graph().value(id).name, same);
  }
}

Status Lowering::finish() {
  for (int i = 0; i < outputs(); ++i) {
    const TensorSlot& slot = out_slot(i);
    if (slot.state >= 0 && out(i) != kNoValue)
      SMELT_TRY(b().node_to(Op::kStateWrite, make_attrs<StateAttrs>(slot.state), {out(i)}, {}));
  }
  return Ok();
}

Result<std::vector<int64_t>> Lowering::const_ints(int i, const char* what) {
  const Tensor* t = has(i) ? constant(i) : nullptr;
  if (!t) return Unsupported(what, " (input ", i, ") that is computed at run time");
  if (!is_integer(t->dtype())) return InvalidModel(what, " (input ", i, ") is ", to_string(t->dtype()));
  if (t->elements() > 1'000'000) return LimitReached(what, " has ", t->elements(), " entries");
  std::vector<int64_t> out(static_cast<size_t>(t->elements()));
  to_ints(*t, out.data());
  return out;
}

Result<ValueType> Lowering::intermediate(int i) {
  const int t = op_.intermediates()->Get(static_cast<uint32_t>(i));
  if (t < 0) return ValueType{};
  if (t >= subgraph_.tensors()) return InvalidModel("intermediate ", i, " is tensor ", t);
  const TensorSlot& slot = subgraph_.slot(t);
  return ValueType::tensor(slot.dtype, slot.shape, slot.quant);
}

Status Lowering::emit(Op op, AttrsPtr attrs, std::vector<ValueId> ins) {
  return b().node_to(op, std::move(attrs), std::move(ins), {out(0)});
}

Status Lowering::emit_all(Op op, AttrsPtr attrs, std::vector<ValueId> ins) {
  return b().node_to(op, std::move(attrs), std::move(ins), outputs_);
}

Result<ValueId> Lowering::plain(ValueId id) {
  return id == kNoValue || !b().type(id).quant ? id : with_quant(id, nullptr);
}

Result<ValueId> Lowering::with_quant(ValueId id, QuantPtr quant) {
  if (const Tensor* c = b().constant_of(id)) {
    Tensor copy = *c;
    copy.set_quant(std::move(quant));
    return b().constant(b().graph().value(id).name, std::move(copy));
  }
  const ValueType type = b().type(id);
  const ValueId out = b().value("", ValueType::tensor(type.dtype));
  SMELT_TRY(b().node_to(Op::kBitCast, make_attrs<CastAttrs>(type.dtype), {id}, {out}));
  b().graph().value(out).type.quant = std::move(quant);
  return out;
}

Status Lowering::emit_plain(Op op, AttrsPtr attrs, std::vector<ValueId> ins) {
  for (ValueId& id : ins) {
    SMELT_ASSIGN(id, plain(id));
  }
  if (!out_type(0).quant) return emit(op, std::move(attrs), std::move(ins));
  SMELT_ASSIGN(const ValueId y, b().op_as(op, std::move(attrs), std::move(ins), ValueType::tensor(out_type(0).dtype)));
  return emit(Op::kBitCast, make_attrs<CastAttrs>(out_type(0).dtype), {y});
}

Status Lowering::alias(int output, ValueId value) {
  TensorSlot& slot = out_slot(output);
  if (slot.state >= 0)
    SMELT_TRY(b().node_to(Op::kStateWrite, make_attrs<StateAttrs>(slot.state), {value}, {}));
  else
    slot.value = value;
  outputs_[static_cast<size_t>(output)] = kNoValue;
  return Ok();
}

Status Lowering::emit_activation(ValueId value, tfl::ActivationFunctionType act) {
  SMELT_ASSIGN(const Activation a, clamp_of(act));
  Unary fn = Unary::kIdentity;
  switch (a.kind) {
    case ActKind::kNone:
      return alias(0, value);
    case ActKind::kRelu:
      fn = Unary::kRelu;
      break;
    case ActKind::kReluN1:
      fn = Unary::kReluN1;
      break;
    case ActKind::kRelu6:
      fn = Unary::kRelu6;
      break;
    default:
      return Unsupported("fused activation ", to_string(a));
  }
  return emit(Op::kUnary, make_attrs<UnaryAttrs>(fn), {value});
}

int Lowering::state_of(int i) { return has(i) ? in_slot(i).state : -1; }

Result<Activation> activation_of(tfl::ActivationFunctionType act) {
  switch (act) {
    case tfl::ActivationFunctionType::NONE:
      return Activation{};
    case tfl::ActivationFunctionType::RELU:
      return Activation{ActKind::kRelu};
    case tfl::ActivationFunctionType::RELU_N1_TO_1:
      return Activation{ActKind::kReluN1};
    case tfl::ActivationFunctionType::RELU6:
      return Activation{ActKind::kRelu6};
    case tfl::ActivationFunctionType::TANH:
      return Activation{ActKind::kTanh};
    case tfl::ActivationFunctionType::SIGN_BIT:
      return Activation{ActKind::kSignBit};
  }
  return InvalidModel("fused activation ", static_cast<int>(act), " is not in the schema");
}

Result<Activation> clamp_of(tfl::ActivationFunctionType act) {
  SMELT_ASSIGN(const Activation a, activation_of(act));
  return a.kind == ActKind::kTanh || a.kind == ActKind::kSignBit ? Activation{} : a;
}

Result<AutoPad> padding_of(tfl::Padding padding) {
  switch (padding) {
    case tfl::Padding::SAME:
      return AutoPad::kSameUpper;
    case tfl::Padding::VALID:
      return AutoPad::kValid;
  }
  return InvalidModel("padding ", static_cast<int>(padding), " is not in the schema");
}

int operator_number(const tfl::Model& model, const tfl::Operator& op) {
  if (!model.operator_codes() || op.opcode_index() >= model.operator_codes()->size()) return -1;
  const tfl::OperatorCode& code = *model.operator_codes()->Get(op.opcode_index());
  return std::max(static_cast<int>(code.builtin_code()), static_cast<int>(code.deprecated_builtin_code()));
}

Status lower_operator(SubgraphReader& subgraph, const tfl::Operator& op, int index) {
  const auto* codes = subgraph.reader().model().operator_codes();
  const uint32_t code_count = codes ? codes->size() : 0;
  const std::string where = Cat("subgraph ", subgraph.index(), ", operator ", index);
  if (op.opcode_index() >= code_count)
    return InvalidModel(where, ": operator code ", op.opcode_index(), ", the model has ", code_count);
  const tfl::OperatorCode& code = *codes->Get(op.opcode_index());
  const int number = operator_number(subgraph.reader().model(), op);
  const bool custom = number == static_cast<int>(tfl::BuiltinOperator::CUSTOM);
  const BuiltinRow* row = builtin_row(number);
  const std::string custom_code = code.custom_code() ? code.custom_code()->str() : "";
  std::string name = custom ? Cat("CUSTOM ", custom_code) : row ? row->name : "";
  if (name.empty()) {
    const char* known = number >= 0 && number <= static_cast<int>(tfl::BuiltinOperator::MAX)
                            ? tfl::EnumNameBuiltinOperator(static_cast<tfl::BuiltinOperator>(number))
                            : "";
    if (!*known) return InvalidModel(where, ": operator code ", number, " is not in the schema");
    return Unsupported(where, " ", known, ": this operator is in the format's schema, but not supported");
  }
  const auto located = [&](const Status& s) { return s.error().within(Cat(where, " ", name)); };
  subgraph.builder().at(name, "", where);
  Lowering l(subgraph, op, static_cast<tfl::BuiltinOperator>(number));
  if (!custom) {
    const int ins = op.inputs() ? static_cast<int>(op.inputs()->size()) : 0;
    const int outs = op.outputs() ? static_cast<int>(op.outputs()->size()) : 0;
    if (ins < row->min_inputs || ins > row->max_inputs)
      return located(InvalidModel(ins, " inputs, ", row->min_inputs, " to ", row->max_inputs, " expected"));
    if (outs < row->min_outputs || outs > row->max_outputs)
      return located(InvalidModel(outs, " outputs, ", row->min_outputs, " to ", row->max_outputs, " expected"));
  }
  if (auto s = l.bind(custom ? ~uint64_t{0} : row->optional); !s.ok()) return located(s);
  if (!custom && row->hybrid) l.read_uint8_as_int8();
  if (auto s = custom ? lower_custom(l, custom_code) : row->lower(l); !s.ok()) return located(s);
  if (auto s = l.finish(); !s.ok()) return located(s);
  return Ok();
}

}  // namespace smelt::tflite
