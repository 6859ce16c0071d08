#include "formats/executorch/plan.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "base/error.h"

namespace smelt::executorch {
namespace {

using fb::et::InstructionArguments;

Status check_index(int64_t at, size_t count, const char* what) {
  if (at < 0 || at >= static_cast<int64_t>(count))
    return InvalidModel(what, " ", at, " does not exist, there are ", count);
  return Ok();
}

template <class V>
Result<std::vector<int32_t>> indices(const V* list, size_t count, const char* what) {
  std::vector<int32_t> out;
  if (!list) return out;
  for (int32_t at : *list) {
    SMELT_TRY(check_index(at, count, what));
    out.push_back(at);
  }
  return out;
}

/// Operators that give a number or a view and have no out argument.
bool gives_directly(const std::string& name) {
  return name.starts_with("executorch_prim::") || name.starts_with("aten::sym_") || name == "aten::_local_scalar_dense";
}

bool in_place_name(const std::string& name) { return name.ends_with("_") && !name.ends_with("__"); }

/// Positions of arguments that a call changes in place.
std::vector<size_t> changed_arguments(const std::string& name, const std::string& overload, size_t inputs) {
  if (in_place_name(name) || name == "executorch_prim::et_copy_index") return {0};
  if (name == "llama::update_cache" || name == "llama::update_cache_with_indices") return {1};
  if (name == "llama::sdpa_with_kv_cache") return {3, 4};
  if (name == "llama::recurrent_gated_delta_rule") return {5};
  if (name == "aten::_native_batch_norm_legit" && !overload.starts_with("no_stats") && inputs > 5) return {3, 4};
  return {};
}

/// Tells inputs and outputs apart: the last argument is the result, the outputs are listed before it once more.
Status split_arguments(const std::vector<PlanValue>& values, std::vector<int32_t> args, Instruction& call) {
  using Kind = PlanValue::Kind;
  if (args.empty()) return InvalidModel("no arguments");
  if (call.name == "executorch_prim::et_copy_index") {
    call.inputs = std::move(args);
    return Ok();
  }
  const int32_t last = args.back();
  const PlanValue& result = values[static_cast<size_t>(last)];
  args.pop_back();
  const auto tensors_of = [&](int32_t at) {
    const auto& items = values[static_cast<size_t>(at)].items;
    return std::vector<int32_t>(items.begin(), items.end());
  };
  const auto too_few = [] { return InvalidModel("too few arguments: the outputs are not listed before the result"); };
  if (result.kind == Kind::kTensorList) {
    call.outputs = tensors_of(last);
    for (int32_t at : call.outputs)
      if (at < 0) return InvalidModel("an absent tensor among the outputs");
    if (!gives_directly(call.name)) {
      const bool list = !args.empty() && values[static_cast<size_t>(args.back())].kind == Kind::kTensorList &&
                        tensors_of(args.back()) == call.outputs;
      const size_t n = list ? 1 : call.outputs.size();
      if (args.size() < n) return too_few();
      if (!list && !std::equal(call.outputs.begin(), call.outputs.end(), args.end() - static_cast<ptrdiff_t>(n)))
        return too_few();
      args.resize(args.size() - n);
    }
  } else {
    call.outputs = {last};
    if (in_place_name(call.name)) {
      if (args.empty() || args.front() != last) return InvalidModel("the result is not the changed argument");
    } else if (!gives_directly(call.name)) {
      if (args.empty() || args.back() != last) return too_few();
      args.pop_back();
    }
  }
  call.inputs = std::move(args);
  return Ok();
}

Result<Instruction> read_call(const Plan& plan, const fb::et::KernelCall& k) {
  Instruction out;
  out.kind = Instruction::Kind::kCall;
  const auto* operators = plan.table->operators();
  SMELT_TRY(check_index(k.op_index(), operators ? operators->size() : 0, "operator"));
  const auto* op = operators->Get(static_cast<flatbuffers::uoffset_t>(k.op_index()));
  if (!op->name()) return InvalidModel("operator ", k.op_index(), " has no name");
  out.name = op->name()->str();
  if (op->overload()) out.overload = op->overload()->str();
  SMELT_ASSIGN(auto args, indices(k.args(), plan.values.size(), "value"));
  if (auto s = split_arguments(plan.values, std::move(args), out); !s.ok()) return s.error().within(out.label());
  for (size_t at : changed_arguments(out.name, out.overload, out.inputs.size()))
    if (at < out.inputs.size()) out.changed.push_back(out.inputs[at]);
  return out;
}

Result<Instruction> read_instruction(const Plan& plan, const fb::et::Instruction& in, size_t base, size_t count) {
  Instruction out;
  const size_t n = plan.values.size();
  if (in.instr_args_type() != InstructionArguments::NONE && !in.instr_args()) return InvalidModel("no arguments");
  switch (in.instr_args_type()) {
    case InstructionArguments::KernelCall:
      return read_call(plan, *in.instr_args_as_KernelCall());
    case InstructionArguments::DelegateCall: {
      const auto* d = in.instr_args_as_DelegateCall();
      out.kind = Instruction::Kind::kDelegate;
      SMELT_TRY(
          check_index(d->delegate_index(), plan.table->delegates() ? plan.table->delegates()->size() : 0, "delegate"));
      out.delegate = static_cast<uint32_t>(d->delegate_index());
      SMELT_ASSIGN(out.inputs, indices(d->args(), n, "value"));
      return out;
    }
    case InstructionArguments::MoveCall: {
      const auto* m = in.instr_args_as_MoveCall();
      out.kind = Instruction::Kind::kMove;
      SMELT_TRY(check_index(m->move_from(), n, "value"));
      SMELT_TRY(check_index(m->move_to(), n, "value"));
      out.from = m->move_from();
      out.to = m->move_to();
      return out;
    }
    case InstructionArguments::JumpFalseCall: {
      const auto* j = in.instr_args_as_JumpFalseCall();
      out.kind = Instruction::Kind::kJumpFalse;
      SMELT_TRY(check_index(j->cond_value_index(), n, "value"));
      const int64_t to = j->destination_instruction();
      if (to < 0 || to > static_cast<int64_t>(count))
        return InvalidModel("a jump to instruction ", to, ", the chain has ", count);
      out.from = j->cond_value_index();
      out.to = static_cast<int32_t>(static_cast<size_t>(to) + base);
      return out;
    }
    case InstructionArguments::FreeCall:
      SMELT_TRY(check_index(in.instr_args_as_FreeCall()->value_index(), n, "value"));
      return out;
    case InstructionArguments::NONE:
      break;
  }
  return InvalidModel("unknown instruction ", static_cast<int>(in.instr_args_type()));
}

/// Values listed in all instructions together, lists opened. Tables may be shared within a file, so that a small one
/// can name enormous numbers of arguments.
Status check_amount(const Plan& plan, size_t file_bytes) {
  const size_t most = 1'000'000 + file_bytes;
  size_t amount = 0;
  for (const Instruction& in : plan.code) {
    for (const auto* list : {&in.inputs, &in.outputs})
      for (int32_t at : *list) amount += 1 + plan.values[static_cast<size_t>(at)].items.size();
    if (amount > most) return LimitReached("method '", plan.name, "' lists more than ", most, " arguments");
  }
  return Ok();
}

void find_readers(Plan& plan) {
  plan.readers.assign(plan.values.size(), {SIZE_MAX, 0});
  const auto reads = [&](auto&& self, int32_t at, size_t i) -> void {
    const PlanValue& v = plan.values[static_cast<size_t>(at)];
    if (v.kind == PlanValue::Kind::kIntList || v.kind == PlanValue::Kind::kTensorList)
      for (int64_t item : v.items)
        if (item >= 0) self(self, static_cast<int32_t>(item), i);
    auto& [first, last] = plan.readers[static_cast<size_t>(at)];
    first = std::min(first, i);
    last = std::max(last, i);
  };
  for (size_t i = 0; i < plan.code.size(); ++i) {
    const Instruction& in = plan.code[i];
    for (int32_t at : in.inputs) reads(reads, at, i);
    using Kind = Instruction::Kind;
    if (in.kind == Kind::kMove || in.kind == Kind::kView || in.kind == Kind::kJumpFalse) reads(reads, in.from, i);
  }
}

}  // namespace

std::string Instruction::label() const {
  switch (kind) {
    case Kind::kCall:
      return Cat(name, overload.empty() ? "" : ".", overload);
    case Kind::kDelegate:
      return Cat("delegate ", delegate);
    case Kind::kMove:
      return "move";
    case Kind::kView:
      return "view";
    case Kind::kJumpFalse:
      return "jump_false";
    case Kind::kFree:
      break;
  }
  return "free";
}

Result<Plan> read_plan(const ProgramFile& file, const fb::et::ExecutionPlan& table, size_t& budget) {
  Plan plan;
  plan.table = &table;
  plan.name = table.name() ? table.name()->str() : "";
  const auto located = [&](const Error& e) { return e.within(Cat("method '", plan.name, "'")); };
  const auto charge = [&](size_t n) -> Status {
    if (n > budget) return LimitReached("method '", plan.name, "': the program is larger than its file");
    budget -= n;
    return Ok();
  };
  // A value or an instruction takes more than 16 bytes of a file, an argument 4.
  SMELT_TRY(charge(16 * (table.values() ? table.values()->size() : 0)));
  auto values = read_values(file, table);
  if (!values.ok()) return located(values.error());
  plan.values = std::move(values).value();
  auto inputs = indices(table.inputs(), plan.values.size(), "input value");
  auto outputs = indices(table.outputs(), plan.values.size(), "output value");
  if (!inputs.ok()) return located(inputs.error());
  if (!outputs.ok()) return located(outputs.error());
  plan.inputs = std::move(inputs).value();
  plan.outputs = std::move(outputs).value();
  if (!table.chains() || table.chains()->size() == 0) return located(InvalidModel("no chain of instructions"));
  for (const auto* chain : *table.chains()) {
    const auto* list = chain->instructions();
    if (!list) continue;
    const size_t base = plan.code.size();
    for (uint32_t i = 0; i < list->size(); ++i) {
      auto in = read_instruction(plan, *list->Get(i), base, list->size());
      if (!in.ok()) return located(in.error().within(Cat("instruction ", i)));
      SMELT_TRY(charge(16 + in->inputs.size() + in->outputs.size()));
      plan.code.push_back(std::move(in).value());
    }
  }
  SMELT_TRY(check_amount(plan, file.size()));
  add_views(plan);
  find_readers(plan);
  plan.written.assign(plan.values.size(), 0);
  for (int32_t at : Uses::of(plan, 0, plan.code.size()).writes) plan.written[static_cast<size_t>(at)] = 1;
  return plan;
}

Uses Uses::of(const Plan& plan, size_t begin, size_t end) {
  Uses u;
  std::set<int32_t> read, maybe, written;
  const auto add = [](std::set<int32_t>& seen, std::vector<int32_t>& list, int32_t at) {
    if (seen.insert(at).second) list.push_back(at);
  };
  const auto reads = [&](auto&& self, int32_t at) -> void {
    const PlanValue& v = plan.values[static_cast<size_t>(at)];
    if (v.kind == PlanValue::Kind::kIntList || v.kind == PlanValue::Kind::kTensorList) {
      for (int64_t item : v.items)
        if (item >= 0) self(self, static_cast<int32_t>(item));
      return;
    }
    if (!written.contains(at)) add(read, u.reads, at);
  };
  for (size_t i = begin; i < end; ++i) {
    const Instruction& in = plan.code[i];
    switch (in.kind) {
      case Instruction::Kind::kCall: {
        // copy_ takes only the shape of what it overwrites.
        const bool overwrites = in.name == "aten::copy_" || in.name == "executorch_prim::et_copy_index";
        for (size_t k = 0; k < in.inputs.size(); ++k) {
          if (k == 0 && overwrites && !written.contains(in.inputs[0]))
            add(maybe, u.maybe, in.inputs[0]);
          else
            reads(reads, in.inputs[k]);
        }
        for (const auto* list : {&in.changed, &in.outputs})
          for (int32_t at : *list) add(written, u.writes, at);
        break;
      }
      case Instruction::Kind::kDelegate:
        for (int32_t at : in.inputs) {
          const PlanValue& v = plan.values[static_cast<size_t>(at)];
          if (v.kind == PlanValue::Kind::kTensorList || v.kind == PlanValue::Kind::kIntList) {
            reads(reads, at);
            continue;
          }
          if (!written.contains(at)) add(maybe, u.maybe, at);
          if (!v.constant()) add(written, u.writes, at);
        }
        break;
      case Instruction::Kind::kMove:
      case Instruction::Kind::kView:
        reads(reads, in.from);
        add(written, u.writes, in.to);
        break;
      case Instruction::Kind::kJumpFalse:
        reads(reads, in.from);
        break;
      case Instruction::Kind::kFree:
        break;
    }
  }
  return u;
}

namespace {

/// What names a variable across methods.
std::string state_key(const PlanValue& v, size_t method, int32_t index) {
  if (!v.qualified_name.empty()) return Cat("name:", v.qualified_name);
  if (v.memory_id >= 2) return Cat("memory:", v.memory_id, ":", v.offset);
  return Cat("method:", method, ":", index);
}

}  // namespace

Status find_states(Module& module, std::vector<Plan>& plans) {
  std::set<std::string> keys;
  for (size_t m = 0; m < plans.size(); ++m) {
    const Plan& plan = plans[m];
    const std::set<int32_t> inputs(plan.inputs.begin(), plan.inputs.end());
    const Uses uses = Uses::of(plan, 0, plan.code.size());
    std::set<int32_t> early(uses.reads.begin(), uses.reads.end());
    // A delegate's argument that a later call changes in place is read by the delegate: nobody updates its outputs.
    std::set<int32_t> changed;
    for (const Instruction& in : plan.code) changed.insert(in.changed.begin(), in.changed.end());
    for (int32_t at : uses.maybe)
      if (changed.contains(at)) early.insert(at);
    for (int32_t at : plan.outputs)  // given out, never computed: a variable as well
      if (!plan.written[static_cast<size_t>(at)]) early.insert(at);
    for (size_t i = 0; i < plan.values.size(); ++i) {
      const PlanValue& v = plan.values[i];
      const auto at = static_cast<int32_t>(i);
      if (v.kind != PlanValue::Kind::kTensor || !v.planned || inputs.contains(at)) continue;
      if (v.data || early.contains(at)) keys.insert(state_key(v, m, at));
    }
  }
  std::map<std::string, int> known;
  for (size_t m = 0; m < plans.size(); ++m) {
    Plan& plan = plans[m];
    const std::set<int32_t> inputs(plan.inputs.begin(), plan.inputs.end());
    for (size_t i = 0; i < plan.values.size(); ++i) {
      const PlanValue& v = plan.values[i];
      const auto at = static_cast<int32_t>(i);
      if (v.kind != PlanValue::Kind::kTensor || !v.planned || inputs.contains(at)) continue;
      const std::string key = state_key(v, m, at);
      if (!keys.contains(key)) continue;
      auto [entry, fresh] = known.emplace(key, static_cast<int>(module.states.size()));
      if (fresh) {
        StateVar s;
        s.name = v.qualified_name.empty() ? Cat(plan.name, ".", at) : v.qualified_name;
        s.type = ValueType::tensor(v.dtype, v.shape);
        module.states.push_back(std::move(s));
      }
      StateVar& s = module.states[static_cast<size_t>(entry->second)];
      if (s.type.dtype != v.dtype || !(s.type.shape == v.shape)) {
        if (!v.qualified_name.empty())
          return InvalidModel("variable '", s.name, "' is ", s.type.str(), " and ", v.type().str());
        continue;  // the same address holds something else in this method
      }
      if (s.initial.none() && v.data) s.initial = *v.data;
      plan.states[at] = entry->second;
    }
  }
  return Ok();
}

}  // namespace smelt::executorch
