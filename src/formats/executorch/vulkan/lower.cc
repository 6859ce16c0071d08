#include "formats/executorch/vulkan/lower.h"

#include "base/error.h"
#include "formats/executorch/argument_attributes.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt::executorch {

using vkgraph::GraphTypes;

namespace {

template <class Items>
std::vector<aten::Int> int_items(const Items* items) {
  std::vector<aten::Int> out;
  if (items)
    for (auto v : *items) out.push_back({.value = static_cast<int64_t>(v)});
  return out;
}

/// Operators that change an argument in declared, and which: their constants are variables.
std::span<const size_t> changed_arguments(std::string_view name) {
  static constexpr size_t kCaches[] = {3, 4}, kFirst[] = {1}, kOptimizer[] = {0, 1, 2};
  if (name.find("sdpa_with_kv_cache") != std::string_view::npos) return kCaches;
  if (name.find("update_cache") != std::string_view::npos) return kFirst;
  if (name == "et_vk::adamw_step") return kOptimizer;
  return {};
}

/// How many trailing arguments are outputs: one value or list, but a call may also name each output.
uint32_t output_arguments(std::string_view name, uint32_t arguments) {
  return name == "etvk::choose_qparams_per_row" && arguments == 5 ? 2 : 1;
}

}  // namespace

Result<ValueId> VkLowering::read(uint32_t v) {
  if (ids_[v] != kNoValue) return ids_[v];
  const Tensor& constant = g_.constants[v];
  if (!constant.defined()) return InvalidModel("value ", v, " is used before it is computed");
  ids_[v] = b_.constant(Cat("value ", v), constant);
  if (g_.widened && constant.dtype() == DType::kF16) {
    SMELT_ASSIGN(ids_[v], b_.op(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {ids_[v]}));
  }
  return ids_[v];
}

Result<aten::Arg> VkLowering::list_argument(const vkgraph::ValueList& list) {
  std::vector<ValueId> tensors;
  std::vector<aten::Int> ints;
  bool numbers = false;
  for (int32_t item : *list.items()) {
    const auto v = static_cast<uint32_t>(item);
    const auto* value = g_.table->values()->Get(v);
    switch (value->value_type()) {
      case GraphTypes::Null:
        tensors.push_back(kNoValue);
        break;
      case GraphTypes::VkTensor: {
        SMELT_ASSIGN(const ValueId id, read(v));
        tensors.push_back(id);
        break;
      }
      case GraphTypes::Int:
        numbers = true;
        ints.push_back({.value = value->value_as_Int()->int_val()});
        break;
      case GraphTypes::SymInt: {
        numbers = true;
        SMELT_ASSIGN(const ValueId id, read(v));
        ints.push_back({.value = 0, .id = id});
        break;
      }
      default:
        return InvalidModel("a list holds a ", vkgraph::EnumNameGraphTypes(value->value_type()));
    }
  }
  if (numbers && !tensors.empty()) return InvalidModel("a list holds tensors and numbers");
  return numbers ? aten::Arg::int_list(std::move(ints)) : aten::Arg::tensor_list(std::move(tensors));
}

Result<aten::Arg> VkLowering::argument(uint32_t v) {
  const auto* value = g_.table->values()->Get(v);
  switch (value->value_type()) {
    case GraphTypes::Int:
      return aten::Arg::integer(value->value_as_Int()->int_val());
    case GraphTypes::Double:
      return aten::Arg::real(value->value_as_Double()->double_val());
    case GraphTypes::Bool:
      return aten::Arg::boolean(value->value_as_Bool()->bool_val());
    case GraphTypes::VkTensor: {
      SMELT_ASSIGN(const ValueId id, read(v));
      return aten::Arg::tensor(id);
    }
    case GraphTypes::SymInt: {
      SMELT_ASSIGN(const ValueId id, read(v));
      return aten::Arg::symbol(id);
    }
    case GraphTypes::IntList:
      return aten::Arg::int_list(int_items(value->value_as_IntList()->items()));
    case GraphTypes::BoolList:
      return aten::Arg::bool_list(int_items(value->value_as_BoolList()->items()));
    case GraphTypes::DoubleList: {
      const auto* items = value->value_as_DoubleList()->items();
      return aten::Arg::double_list(items ? std::vector<double>(items->begin(), items->end()) : std::vector<double>());
    }
    case GraphTypes::ValueList:
      if (!value->value_as_ValueList()->items()) return aten::Arg::tensor_list({});
      return list_argument(*value->value_as_ValueList());
    case GraphTypes::String: {
      const auto* text = value->value_as_String()->string_val();
      return aten::Arg::string(text ? text->str() : "");
    }
    default:
      return aten::Arg::none();
  }
}

Status VkLowering::make_variable(uint32_t v, DType dtype) {
  if (states_[v] >= 0) return Ok();
  Tensor initial = g_.constants[v];
  if (initial.dtype() != dtype) {
    SMELT_ASSIGN(initial, Tensor::allocate(dtype, initial.shape()));
    for (int64_t i = 0; i < initial.elements(); ++i) set_double(initial, i, get_double(g_.constants[v], i));
  }
  states_[v] = static_cast<int>(b_.module().states.size());
  const ValueType type = ValueType::tensor(dtype, initial.shape());
  b_.module().states.push_back({Cat("value ", v), type, std::move(initial)});
  SMELT_ASSIGN(ids_[v], b_.op_as(Op::kStateRead, make_attrs<StateAttrs>(states_[v]), {}, type));
  return Ok();
}

Status VkLowering::write_variable(uint32_t v, ValueId contents) {
  b_.at("state", "", Cat("value ", v));
  return b_.node_to(Op::kStateWrite, make_attrs<StateAttrs>(states_[v]), {contents}, {});
}

Status VkLowering::mutate(uint32_t v, ValueId contents) {
  if (states_[v] >= 0) SMELT_TRY(write_variable(v, contents));
  ids_[v] = contents;
  return Ok();
}

Status VkLowering::bind_outputs(uint32_t v, std::span<const ValueId> results) {
  const auto* value = g_.table->values()->Get(v);
  const auto bind = [&](uint32_t at, ValueId id) -> Status {
    const GraphTypes kind = g_.table->values()->Get(at)->value_type();
    if (kind != GraphTypes::VkTensor && kind != GraphTypes::SymInt)
      return InvalidModel("its result would become value ", at, ", a ", vkgraph::EnumNameGraphTypes(kind));
    if (g_.constants[at].defined() && states_[at] < 0) return InvalidModel("it writes the constant value ", at);
    const ValueType& declared = g_.types[at];
    const ValueType& result = b_.type(id);
    if (kind == GraphTypes::VkTensor && declared.shape.rank() > 0 && result.ranked && result.shape.is_static() &&
        result.shape.elements() > declared.shape.elements())
      return InvalidModel("value ", at, " becomes ", result.shape.str(), ", the graph declares ", declared.shape.str());
    ids_[at] = id;
    hint(at);
    return Ok();
  };
  if (value->value_type() != GraphTypes::ValueList) {
    if (results.empty()) return InvalidModel("it has no result");
    return bind(v, results[0]);
  }
  const auto* items = value->value_as_ValueList()->items();
  const size_t wanted = items ? items->size() : 0;
  if (wanted > results.size()) return InvalidModel("it has ", results.size(), " results, ", wanted, " are expected");
  for (uint32_t i = 0; i < wanted; ++i) SMELT_TRY(bind(static_cast<uint32_t>(items->Get(i)), results[i]));
  return Ok();
}

void VkLowering::hint(uint32_t v) {
  if (const auto* tensor = g_.table->values()->Get(v)->value_as_VkTensor())
    b_.graph().value(ids_[v]).storage = vk_storage(*g_.table, *tensor);
}

Status VkLowering::lower_call(const vkgraph::OperatorCall& call, uint32_t index) {
  const auto [name, overload] = aten::split_name(call.name()->string_view());
  const uint32_t arguments = call.args()->size(), outs = output_arguments(name, arguments), count = arguments - outs;
  const auto at = [&](uint32_t i) { return static_cast<uint32_t>(call.args()->Get(i)); };
  for (size_t i : changed_arguments(name)) {
    if (i >= count || !g_.constants[at(static_cast<uint32_t>(i))].defined()) continue;
    const uint32_t v = at(static_cast<uint32_t>(i));
    SMELT_TRY(make_variable(v, g_.types[v].dtype));
  }
  std::vector<aten::Arg> args;
  for (uint32_t i = 0; i < count; ++i) {
    auto arg = argument(at(i));
    if (!arg.ok()) return arg.error().within(Cat("argument ", i));
    args.push_back(std::move(arg).value());
  }
  if (auto* wanted = FileAttributes::wanted()) wanted->record(b_, Cat("call ", index), argument_attributes(args));
  std::vector<ValueType> outputs;
  for (uint32_t i = count; i < arguments; ++i) {
    const uint32_t out = at(i);
    if (const auto* list = g_.table->values()->Get(out)->value_as_ValueList()) {
      if (list->items())
        for (int32_t item : *list->items()) outputs.push_back(g_.types[static_cast<size_t>(item)]);
    } else {
      outputs.push_back(g_.types[out]);
    }
  }
  // Operators on numbers come by name alone ("mul").
  if (!overload.empty()) SMELT_TRY(aten::check_overload(name, overload));
  aten::Call request{.name = name, .overload = overload, .args = args, .outputs = outputs, .out_variant = false};
  SMELT_ASSIGN(const aten::Lowered lowered, aten::lower(b_, request));
  for (const auto& [index, contents] : lowered.mutated)
    if (index < count) SMELT_TRY(mutate(at(static_cast<uint32_t>(index)), contents));
  if (lowered.outputs.size() < outs) return InvalidModel("it has no result");
  for (uint32_t i = 1; i < outs; ++i) SMELT_TRY(bind_outputs(at(count + i), std::span(lowered.outputs).subspan(i, 1)));
  return bind_outputs(at(count), lowered.outputs);
}

Result<std::vector<ValueId>> VkLowering::run(std::span<const ValueId> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint32_t v = g_.table->input_ids()->Get(static_cast<uint32_t>(i));
    ids_[v] = inputs[i];
    hint(v);
  }
  const uint32_t calls = g_.table->chain() ? g_.table->chain()->size() : 0;
  for (uint32_t i = 0; i < calls; ++i) {
    const auto& call = *g_.table->chain()->Get(i);
    b_.at(call.name()->str(), Cat(call.name()->str(), "_", call.node_id()), Cat("call ", i));
    if (auto s = lower_call(call, i); !s.ok()) return s.error().within(vk_call_label(g_, i));
  }
  std::vector<ValueId> outputs;
  for (uint32_t v : *g_.table->output_ids()) {
    auto id = read(v);
    if (!id.ok()) return id.error().within("output");
    outputs.push_back(*id);
  }
  return outputs;
}

}  // namespace smelt::executorch
