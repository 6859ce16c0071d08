// Control flow, variables and hash tables.
#include "formats/tflite/lowering.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"

namespace smelt::tflite {
namespace {

/// Checks that subgraph `index` exists and takes and gives so many values.
Status check_callee(OperatorContext& c, int64_t index, const char* what, int inputs, int outputs) {
  if (index < 0 || index >= c.reader().subgraphs())
    return InvalidModel(what, " is subgraph ", index, ", the model has ", c.reader().subgraphs());
  const tfl::SubGraph* s = c.reader().model().subgraphs()->Get(static_cast<uint32_t>(index));
  const int takes = s->inputs() ? static_cast<int>(s->inputs()->size()) : 0;
  const int gives = s->outputs() ? static_cast<int>(s->outputs()->size()) : 0;
  if (takes != inputs) return InvalidModel(what, " takes ", takes, " inputs, ", inputs, " are given");
  if (gives != outputs) return InvalidModel(what, " gives ", gives, " outputs, ", outputs, " expected");
  return Ok();
}

/// What the handle at input i names.
Result<int> resource_of(OperatorContext& c, int i) {
  const int tensor = c.in_tensor(i);
  if (tensor >= 0) {
    const int r = c.reader().handle(c.subgraph().index(), tensor);
    if (r >= 0) return r;
  }
  return Unsupported("a resource handle (input ", i, ") that is not known before the run");
}

/// A graph that drops its first argument, an index, and runs `graph` on the others.
int wrap_branch(OperatorContext& c, int graph) {
  Module& module = c.reader().module();
  const int wrapper = static_cast<int>(module.graphs.size());
  module.graphs.push_back({.name = module.graphs[static_cast<size_t>(graph)].name});
  Builder b(module, wrapper);
  b.at("STABLEHLO_CASE", "", module.graphs[static_cast<size_t>(graph)].name);
  b.input("index", ValueType::tensor(DType::kI32, Shape{}));
  std::vector<ValueId> arguments;
  for (int i = 1; i < c.inputs(); ++i) arguments.push_back(b.input("", c.in_type(i)));
  CallAttrs a;
  a.graph = graph;
  auto results = b.node(Op::kCall, make_attrs<CallAttrs>(a), arguments, c.outputs());
  if (results.ok()) module.graphs[static_cast<size_t>(wrapper)].outputs = *results;
  return wrapper;
}

}  // namespace

Status lower_call(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::CallOptions>());
  SMELT_TRY(check_callee(c, o->subgraph(), "the callee", c.inputs(), c.outputs()));
  CallAttrs a;
  a.graph = static_cast<int>(o->subgraph());
  return c.emit_all(Op::kCall, a, c.ins());
}

Status lower_if(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::IfOptions>());
  SMELT_TRY(check_callee(c, o->then_subgraph_index(), "the then branch", c.inputs() - 1, c.outputs()));
  SMELT_TRY(check_callee(c, o->else_subgraph_index(), "the else branch", c.inputs() - 1, c.outputs()));
  IfAttrs a;
  a.then_graph = o->then_subgraph_index();
  a.else_graph = o->else_subgraph_index();
  return c.emit_all(Op::kIf, a, c.ins());
}

Status emit_while(OperatorContext& c, int cond, int body) {
  if (c.inputs() != c.outputs()) return InvalidModel(c.inputs(), " inputs and ", c.outputs(), " outputs");
  if (c.inputs() == 0) return InvalidModel("a loop without values");
  SMELT_TRY(check_callee(c, cond, "the condition", c.inputs(), 1));
  SMELT_TRY(check_callee(c, body, "the body", c.inputs(), c.outputs()));
  WhileAttrs a;
  a.cond_graph = cond;
  a.body_graph = body;
  return c.emit_all(Op::kWhile, a, c.ins());
}

Status lower_while(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::WhileOptions>());
  return emit_while(c, o->cond_subgraph_index(), o->body_subgraph_index());
}

/// A choice among subgraphs: a chain of two-way branches. An index out of range takes the last one.
Status lower_case(OperatorContext& c) {
  const auto* o = c.options<tfl::StablehloCaseOptions>();
  const int count = o && o->branch_subgraph_indices() ? static_cast<int>(o->branch_subgraph_indices()->size()) : 0;
  if (count < 1 || count > 1000) return InvalidModel(count, " branches");
  if (c.inputs() < 1 || c.in_type(0).dtype != DType::kI32) return InvalidModel("the index is no int32 scalar");
  std::vector<int> branches;
  const int outputs = c.outputs();
  for (const int32_t sub : *o->branch_subgraph_indices()) {
    SMELT_TRY(check_callee(c, sub, "a branch", c.inputs() - 1, outputs));
    branches.push_back(sub);
  }
  Module& module = c.reader().module();
  const auto compare = [&](Builder& b, ValueId index, int k) {
    return b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kEqual), {index, b.scalar(DType::kI32, k)});
  };
  // From the last branch to the first: graph k chooses between branch k and the rest.
  int rest = branches.back();
  bool takes_index = false;
  for (int k = count - 2; k >= 0; --k) {
    if (k == 0) {
      SMELT_ASSIGN(const ValueId take, compare(c.builder(), c.in(0), 0));
      std::vector<ValueId> ins{take};
      // Both branches of an If take the same values: a branch without the index is wrapped to drop it.
      const int wrapped = takes_index ? wrap_branch(c, branches[0]) : branches[0];
      if (takes_index) ins.push_back(c.in(0));
      ins.insert(ins.end(), c.ins().begin() + 1, c.ins().end());
      IfAttrs a;
      a.then_graph = wrapped;
      a.else_graph = rest;
      return c.emit_all(Op::kIf, a, ins);
    }
    const int then_graph =
        takes_index ? wrap_branch(c, branches[static_cast<size_t>(k)]) : branches[static_cast<size_t>(k)];
    const int graph = static_cast<int>(module.graphs.size());
    module.graphs.push_back({.name = Cat("case ", k)});
    Builder b(module, graph);
    b.at("STABLEHLO_CASE", "", Cat("case ", k));
    const ValueId index = b.input("index", ValueType::tensor(DType::kI32, Shape{}));
    std::vector<ValueId> arguments;
    for (int i = 1; i < c.inputs(); ++i) arguments.push_back(b.input("", c.in_type(i)));
    SMELT_ASSIGN(const ValueId take, compare(b, index, k));
    std::vector<ValueId> ins{take};
    if (takes_index) ins.push_back(index);
    ins.insert(ins.end(), arguments.begin(), arguments.end());
    IfAttrs a;
    a.then_graph = then_graph;
    a.else_graph = rest;
    SMELT_ASSIGN(auto results, b.node(Op::kIf, make_attrs<IfAttrs>(a), ins, outputs));
    module.graphs[static_cast<size_t>(graph)].outputs = results;
    rest = graph;
    takes_index = true;
  }
  CallAttrs a;
  a.graph = rest;
  return c.emit_all(Op::kCall, a, std::vector<ValueId>(c.ins().begin() + 1, c.ins().end()));
}

/// Runs a subgraph in the first run only: a flag that lives across runs guards the call.
Status lower_call_once(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::CallOnceOptions>());
  SMELT_TRY(check_callee(c, o->init_subgraph_index(), "the initialiser", 0, 0));
  const std::string key = Cat("call once ", o->init_subgraph_index());
  Resource& done = c.reader().resource_at(c.reader().resource(key));
  if (done.state < 0)
    done.state = c.reader().add_state({.name = key, .type = ValueType::tensor(DType::kBool, Shape{})});
  const int flag = done.state;
  Module& module = c.reader().module();
  const int skip = static_cast<int>(module.graphs.size());
  module.graphs.push_back({.name = "nothing"});
  module.graphs.push_back({.name = key});
  Builder init(module, skip + 1);
  init.at("CALL_ONCE", "", key);
  CallAttrs call;
  call.graph = o->init_subgraph_index();
  SMELT_TRY(init.node_to(Op::kCall, make_attrs<CallAttrs>(call), {}, {}));
  Tensor yes(DType::kBool, Shape{});
  yes.data<uint8_t>()[0] = 1;
  SMELT_TRY(init.node_to(Op::kStateWrite, make_attrs<StateAttrs>(flag), {init.constant("", std::move(yes))}, {}));
  const ValueId read = c.add(Op::kStateRead, StateAttrs(flag), {});
  IfAttrs a;
  a.then_graph = skip;
  a.else_graph = skip + 1;
  return c.emit_to(Op::kIf, a, {read}, {});
}

/// Handles are known at load; at run time they are numbers that nobody looks at.
Status lower_var_handle(OperatorContext& c) {
  c.out_slot(0).value = c.scalar(DType::kI32, 0);
  return Ok();
}

Status lower_read_variable(OperatorContext& c) {
  SMELT_ASSIGN(const int r, resource_of(c, 0));
  const int state = c.reader().variable_state(r, c.out_type(0).dtype);
  if (const Shape* shape = c.reader().variable_shape(r)) {
    ValueType& type = c.builder().graph().value(c.out(0)).type;
    type.ranked = true;
    type.shape = *shape;
  }
  return c.emit(Op::kStateRead, StateAttrs(state), {});
}

Status lower_assign_variable(OperatorContext& c) {
  SMELT_ASSIGN(const int r, resource_of(c, 0));
  const int state = c.reader().variable_state(r, c.in_type(1).dtype);
  c.reader().variable_assigned(r, c.in_type(1));
  return c.emit_to(Op::kStateWrite, StateAttrs(state), {c.in(1)}, {});
}

namespace {

/// The states that hold a table's keys and values: empty until the import.
Result<Resource> table_of(OperatorContext& c) {
  SMELT_ASSIGN(const int index, resource_of(c, 0));
  Resource& r = c.reader().resource_at(index);
  if (r.key_dtype == DType::kInvalid) return InvalidModel("the handle names no hash table");
  if (r.state < 0) {
    r.state = c.reader().add_state({.name = Cat(r.key, " keys"), .type = ValueType::tensor(r.key_dtype, Shape{0})});
    r.values =
        c.reader().add_state({.name = Cat(r.key, " values"), .type = ValueType::tensor(r.value_dtype, Shape{0})});
  }
  return r;
}

}  // namespace

Status lower_hashtable(OperatorContext& c) { return lower_var_handle(c); }

Status lower_hashtable_import(OperatorContext& c) {
  SMELT_ASSIGN(const Resource table, table_of(c));
  if (c.in_type(1).dtype != table.key_dtype || c.in_type(2).dtype != table.value_dtype)
    return InvalidModel("keys ", to_string(c.in_type(1).dtype), " and values ", to_string(c.in_type(2).dtype),
                        ", the table has ", to_string(table.key_dtype), " and ", to_string(table.value_dtype));
  c.add_to(Op::kStateWrite, StateAttrs(table.state), {c.in(1)}, {});
  return c.emit_to(Op::kStateWrite, StateAttrs(table.values), {c.in(2)}, {});
}

Status lower_hashtable_find(OperatorContext& c) {
  SMELT_ASSIGN(const Resource table, table_of(c));
  const ValueId keys = c.add(Op::kStateRead, StateAttrs(table.state), {});
  const ValueId values = c.add(Op::kStateRead, StateAttrs(table.values), {});
  return c.emit(Op::kTableFind, {c.in(1), keys, values, c.in(2)});
}

Status lower_hashtable_size(OperatorContext& c) {
  SMELT_ASSIGN(const Resource table, table_of(c));
  const ValueId keys = c.add(Op::kStateRead, StateAttrs(table.state), {});
  const ValueId size = c.add(Op::kSizeOf, ShapeOfAttrs(), {keys});
  return c.emit(Op::kReshape, ReshapeAttrs(), {size, c.i64({1})});
}

Status lower_unavailable(OperatorContext& c) {
  if (c.code() == tfl::BuiltinOperator::DELEGATE)
    return Unsupported("DELEGATE marks what a delegate took over in memory; it can't be stored in a file");
  return Unsupported("CONCAT_EMBEDDINGS has no defined semantics: no engine implements it");
}

/// A composite operator is its decomposition.
Status lower_composite(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StableHLOCompositeOptions>());
  SMELT_TRY(check_callee(c, o->decomposition_subgraph_index(), "the decomposition", c.inputs(), c.outputs()));
  CallAttrs a;
  a.graph = o->decomposition_subgraph_index();
  return c.emit_all(Op::kCall, a, c.ins());
}

}  // namespace smelt::tflite
