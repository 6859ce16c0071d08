// The ExecuTorch program as a format: every method of a program becomes a graph. A method that needs an operator or a
// delegate that smelt lacks is listed and does not run; the others do.
#include "formats/format.h"

#include <algorithm>

#include "base/error.h"
#include "formats/executorch/block_lowering.h"
#include "formats/executorch/file.h"
#include "formats/executorch/parts.h"
#include "formats/executorch/plan.h"
#include "formats/rules.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {
namespace executorch {
namespace {

using Kind = PlanValue::Kind;

/// A number that the program was exported with may not differ: the graph holds it as a constant.
Status expect_number(BlockLowering& block, ValueId given, int32_t at, size_t position) {
  Builder& b = block.builder();
  SMELT_ASSIGN(const ValueId wanted, block.value(at));
  SMELT_ASSIGN(const ValueId same, b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kEqual), {given, wanted}));
  CustomAttrs a;
  a.name = Cat("input ", position, " must be the number that the program was exported with");
  return b.node_to(Op::kAssert, make_attrs<CustomAttrs>(a), {same}, {});
}

Status add_inputs(BlockLowering& block, const Plan& plan) {
  Builder& b = block.builder();
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const int32_t at = plan.inputs[i];
    const PlanValue& v = plan.values[static_cast<size_t>(at)];
    const std::string name = Cat("in", i);
    switch (v.kind) {
      case Kind::kTensor:
        block.bind(at, b.input(name, v.type()));
        if (v.bounded) b.graph().value(b.graph().inputs.back()).bound.assign(v.shape.begin(), v.shape.end());
        break;
      case Kind::kInt:
      case Kind::kBool:
      case Kind::kDouble:
        SMELT_TRY(expect_number(block, b.input(name, v.type()), at, i));
        break;
      case Kind::kNull:
      case Kind::kString:
        b.input(name, ValueType::optional(ValueType{}));
        break;
      default:
        return Unsupported("input ", i, " is a list");
    }
  }
  return Ok();
}

/// Variables are read at the start of a run and written at its end.
Result<std::map<int, std::pair<int32_t, ValueId>>> read_states(BlockLowering& block, const Plan& plan) {
  std::map<int, std::pair<int32_t, ValueId>> first;
  for (const auto& [at, state] : plan.states) {
    if (const auto known = first.find(state); known != first.end()) {
      block.bind_view(at, known->second.first, known->second.second);
      continue;
    }
    SMELT_ASSIGN(const ValueId id, block.builder().op(Op::kStateRead, make_attrs<StateAttrs>(state), {}));
    block.bind(at, id);
    first[state] = {at, id};
  }
  return first;
}

Status add_outputs(BlockLowering& block, const Plan& plan) {
  Builder& b = block.builder();
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const int32_t at = plan.outputs[i];
    const PlanValue& v = plan.values[static_cast<size_t>(at)];
    if (v.kind == Kind::kNull && !block.bound(at)) {
      b.graph().outputs.push_back(kNoValue);
      continue;
    }
    auto id = block.value(at);
    if (!id.ok()) return id.error().within(Cat("output ", i));
    if (b.graph().value(*id).name.empty()) b.graph().value(*id).name = Cat("out", i);
    b.graph().outputs.push_back(*id);
  }
  return Ok();
}

Status raise_method(MethodContext& context, int graph) {
  BlockLowering block(context, graph);
  Builder& b = block.builder();
  const size_t instructions = context.plan.code.size();
  b.expect(2 * instructions, instructions);
  b.at("input", "", "");
  SMELT_TRY(add_inputs(block, context.plan));
  SMELT_ASSIGN(const auto states, read_states(block, context.plan));
  SMELT_TRY(block.run(0, instructions, 0));
  b.at("state", "", "");
  for (const auto& [state, before] : states) {
    SMELT_ASSIGN(const ValueId now, block.value(before.first));
    if (now != before.second) SMELT_TRY(b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(state), {now}, {}));
  }
  return add_outputs(block, context.plan);
}

/// Leaves of a method that can't run its inputs, as far as they have a type, and its delegates.
void keep_signature(MethodContext& context, int graph) {
  Module& module = context.module;
  module.graphs.resize(static_cast<size_t>(graph));
  module.graphs.push_back({.name = context.plan.name});
  BlockLowering block(context, graph);
  (void)add_inputs(block, context.plan);
  module.graphs.back().nodes.clear();
  const auto* delegates = context.plan.table->delegates();
  for (uint32_t i = 0; delegates && i < delegates->size(); ++i) {
    const auto* table = delegates->Get(i);
    const auto blob = context.file.delegate_data(table->processed());
    block.partition(i, table->id() ? table->id()->str() : "", blob.ok() ? blob->size() : 0);
  }
}

Result<Module> load(const Source& source) {
  SMELT_ASSIGN(const auto file, ProgramFile::parse(source));
  Module module;
  module.exact_inputs = true;
  const auto* tables = file->program().execution_plan();
  if (!tables || tables->size() == 0) return InvalidModel("the program has no method");
  std::vector<Plan> plans;
  size_t budget = 1'000'000 + 2 * file->size();
  for (const auto* table : *tables) {
    SMELT_ASSIGN(plans.emplace_back(), read_plan(*file, *table, budget));
    for (size_t i = 0; i + 1 < plans.size(); ++i)
      if (plans[i].name == plans.back().name) return InvalidModel("two methods are named '", plans[i].name, "'");
  }
  SMELT_TRY(find_states(module, plans));
  const size_t most = source.options ? source.options->max_nodes : 2'000'000;
  Status first_refusal = Ok();
  size_t refused = 0;
  for (const Plan& plan : plans) {
    Method method{plan.name, static_cast<int>(module.graphs.size()), planned_memory(*plan.table)};
    module.graphs.push_back({.name = plan.name});
    // Loops may be raised several times until their shapes settle.
    MethodContext context{module, *file, plan, std::min(most, 10'000 + 32 * plan.code.size()), {}};
    context.keep_unknown = tolerates(source, Rule::kUnknownOperator);
    if (auto s = raise_method(context, method.graph); !s.ok()) {
      const Error error = s.error().within(Cat("method '", plan.name, "'"));
      if (error.code() != ErrorCode::kUnsupported) return error;
      if (refused++ == 0) first_refusal = error;
      method.refusal = error.message();
      keep_signature(context, method.graph);
    }
    module.methods.push_back(std::move(method));
  }
  if (refused == plans.size()) return first_refusal.error();
  module.parts = file_parts(*file);
  module.metadata.emplace_back("version", Cat(file->program().version()));
  return module;
}

}  // namespace
}  // namespace executorch

extern const Format executorch_format;
const Format executorch_format{"executorch", executorch::ProgramFile::recognise, executorch::load, true};

}  // namespace smelt
