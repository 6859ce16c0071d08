#include "formats/tflite/lowering.h"

#include <algorithm>

#include "base/selection.h"
#include "binary/tflite_enums.h"
#include "formats/common/flatbuffer_enums.h"
#include "formats/tflite/custom.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt::tflite {

namespace {

Status lower_left_out(OperatorContext&) { return Unsupported("left out of this build (SMELT_FOR)"); }

}  // namespace

const OpEntry* find_op(int code) {
  static const OpEntry entries[] = {
#define TFL_ENTRY(code, lower, min_in, max_in, min_out, max_out, optional, hybrid)                \
  {tfl::BuiltinOperator::code,                                                                    \
   #code,                                                                                         \
   builds_tflite_operator(static_cast<int>(tfl::BuiltinOperator::code)) ? lower : lower_left_out, \
   min_in,                                                                                        \
   max_in,                                                                                        \
   min_out,                                                                                       \
   max_out,                                                                                       \
   optional,                                                                                      \
   hybrid},
#define TFL_OP(...) TFL_ENTRY(__VA_ARGS__, false)
#define TFL_HYBRID_OP(...) TFL_ENTRY(__VA_ARGS__, true)
#include "formats/tflite/operators.inc"
#undef TFL_ENTRY
  };
  static const std::vector<const OpEntry*> by_code = [] {
    std::vector<const OpEntry*> index(static_cast<size_t>(tfl::BuiltinOperator::MAX) + 1, nullptr);
    for (const OpEntry& entry : entries) index[static_cast<size_t>(entry.code)] = &entry;
    return index;
  }();
  return code >= 0 && static_cast<size_t>(code) < by_code.size() ? by_code[static_cast<size_t>(code)] : nullptr;
}

Status OperatorContext::bind(uint64_t optional) {
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
    const ValueId id =
        builder().value(slot.table->name() ? slot.table->name()->str() : "", subgraph_.result_type(slot));
    outputs_.push_back(id);
    if (slot.state < 0) slot.value = id;
  }
  return Ok();
}

void OperatorContext::read_uint8_as_int8() {
  if (out_type(0).dtype != DType::kF32) return;
  for (ValueId& id : inputs_) {
    const Tensor* t = id == kNoValue ? nullptr : constant_of(id);
    if (!t || t->dtype() != DType::kU8 || !t->quant()) continue;
    Tensor same = Tensor::view(DType::kI8, t->shape(), t->raw(), t->owner());
    same.set_quant(t->quant());
    id = builder().constant(builder().graph().value(id).name, same);
  }
}

Status OperatorContext::finish() {
  for (int i = 0; i < outputs(); ++i) {
    const TensorSlot& slot = out_slot(i);
    if (slot.state >= 0 && out(i) != kNoValue) add_to(Op::kStateWrite, StateAttrs(slot.state), {out(i)}, {});
  }
  return status();
}

Result<std::vector<int64_t>> OperatorContext::const_ints(int i, const char* what) {
  const Tensor* t = has(i) ? const_tensor(i) : nullptr;
  if (!t) return Unsupported(what, " (input ", i, ") that is computed at run time");
  if (!is_integer(t->dtype())) return InvalidModel(what, " (input ", i, ") is ", to_string(t->dtype()));
  if (t->elements() > 1'000'000) return LimitReached(what, " has ", t->elements(), " entries");
  std::vector<int64_t> out(static_cast<size_t>(t->elements()));
  to_ints(*t, out.data());
  return out;
}

Result<ValueType> OperatorContext::intermediate(int i) {
  const int t = op_.intermediates()->Get(static_cast<uint32_t>(i));
  if (t < 0) return ValueType{};
  if (t >= subgraph_.tensors()) return InvalidModel("intermediate ", i, " is tensor ", t);
  const TensorSlot& slot = subgraph_.slot(t);
  return ValueType::tensor(slot.dtype, slot.shape, slot.quant);
}

Status OperatorContext::emit_unquantized(Op op, AttrsPtr attrs, IntList operands) {
  std::vector<ValueId> ins = operands.copy();
  for (ValueId& id : ins) id = unquantized(id);
  if (!out_type(0).quant) return emit(op, std::move(attrs), ins);
  const DType dtype = out_type(0).dtype;
  const ValueId y = add_as(op, std::move(attrs), ins, ValueType::tensor(dtype));
  return emit(Op::kBitCast, CastAttrs(dtype), {y});
}

Status OperatorContext::alias(int output, ValueId value) {
  TensorSlot& slot = out_slot(output);
  if (slot.state >= 0)
    add_to(Op::kStateWrite, StateAttrs(slot.state), {value}, {});
  else
    slot.value = value;
  outputs_[static_cast<size_t>(output)] = kNoValue;
  return status();
}

Status OperatorContext::emit_activation(ValueId value, tfl::ActivationFunctionType act) {
  SMELT_ASSIGN(const Activation a, clamp_of(act));
  if (a.kind == ActKind::kNone) return alias(0, value);
  const bool known = a.kind == ActKind::kRelu || a.kind == ActKind::kReluN1 || a.kind == ActKind::kRelu6;
  if (!known) return Unsupported("fused activation ", to_string(a));
  const Unary fn = a.kind == ActKind::kRelu ? Unary::kRelu : a.kind == ActKind::kRelu6 ? Unary::kRelu6 : Unary::kReluN1;
  return emit(Op::kUnary, UnaryAttrs(fn), {value});
}

Result<Activation> activation_of(tfl::ActivationFunctionType act) {
  static constexpr ActKind kKinds[] = {ActKind::kNone,  ActKind::kRelu, ActKind::kReluN1,
                                       ActKind::kRelu6, ActKind::kTanh, ActKind::kSignBit};
  const auto i = static_cast<size_t>(act);
  if (i >= std::size(kKinds)) return InvalidModel("fused activation ", static_cast<int>(act), " is not in the schema");
  return Activation{kKinds[i]};
}

Result<Activation> clamp_of(tfl::ActivationFunctionType act) {
  SMELT_ASSIGN(const Activation a, activation_of(act));
  return a.kind == ActKind::kTanh || a.kind == ActKind::kSignBit ? Activation{} : a;
}

Result<AutoPad> padding_of(tfl::Padding padding) {
  if (padding == tfl::Padding::SAME) return AutoPad::kSameUpper;
  if (padding == tfl::Padding::VALID) return AutoPad::kValid;
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
  const OpEntry* entry = find_op(number);
  const std::string custom_code = code.custom_code() ? code.custom_code()->str() : "";
  std::string name = custom ? Cat("CUSTOM ", custom_code) : entry ? entry->name : "";
  if (name.empty()) {
    const char* known = number >= 0 && number <= static_cast<int>(tfl::BuiltinOperator::MAX)
                            ? tfl::EnumNameBuiltinOperator(static_cast<tfl::BuiltinOperator>(number))
                            : "";
    if (!*known) return InvalidModel(where, ": operator code ", number, " is not in the schema");
    return Unsupported(where, " ", known, ": this operator is in the format's schema, but not supported");
  }
  const auto located = [&](const Status& s) { return s.error().within(Cat(where, " ", name)); };
  subgraph.builder().at(name, "", where);
  OperatorContext c(subgraph, op, static_cast<tfl::BuiltinOperator>(number));
  if (auto* wanted = kBuildsEverything ? FileAttributes::wanted() : nullptr)
    wanted->record(subgraph.builder(), where, stated_attributes(c));
  if (!custom) {
    const int ins = op.inputs() ? static_cast<int>(op.inputs()->size()) : 0;
    const int outs = op.outputs() ? static_cast<int>(op.outputs()->size()) : 0;
    if (ins < entry->min_inputs || ins > entry->max_inputs)
      return located(InvalidModel(ins, " inputs, ", entry->min_inputs, " to ", entry->max_inputs, " expected"));
    if (outs < entry->min_outputs || outs > entry->max_outputs)
      return located(InvalidModel(outs, " outputs, ", entry->min_outputs, " to ", entry->max_outputs, " expected"));
  }
  if (auto s = c.bind(custom ? ~uint64_t{0} : entry->optional); !s.ok()) return located(s);
  if (!custom && entry->hybrid) c.read_uint8_as_int8();
  constexpr bool kCustom = builds_tflite_operator(static_cast<int>(tfl::BuiltinOperator::CUSTOM));
  const auto lower = [&] {
    if (!custom) return entry->lower(c);
    return kCustom ? lower_custom(c, custom_code) : lower_left_out(c);
  };
  if (auto s = lower(); !s.ok()) return located(s);
  if (auto s = c.finish(); !s.ok()) return located(s);
  if (!kBuildsEverything) return Ok();  // without the schema's names
  // Enumerators of options that no lowering reads.
  if (auto s = tflite_operator_enums().check(reinterpret_cast<const flatbuffers::Table&>(op)); !s.ok())
    return located(s);
  return Ok();
}

}  // namespace smelt::tflite
