// Control flow, variables and hash tables.
#include "formats/tflite/lowering.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"

namespace smelt::tflite {
namespace {

/// Checks that subgraph `index` exists and takes and gives so many values.
Status check_callee(Lowering& l, int64_t index, const char* what, int inputs, int outputs) {
  if (index < 0 || index >= l.reader().subgraphs())
    return InvalidModel(what, " is subgraph ", index, ", the model has ", l.reader().subgraphs());
  const tfl::SubGraph* s = l.reader().model().subgraphs()->Get(static_cast<uint32_t>(index));
  const int takes = s->inputs() ? static_cast<int>(s->inputs()->size()) : 0;
  const int gives = s->outputs() ? static_cast<int>(s->outputs()->size()) : 0;
  if (takes != inputs) return InvalidModel(what, " takes ", takes, " inputs, ", inputs, " are given");
  if (gives != outputs) return InvalidModel(what, " gives ", gives, " outputs, ", outputs, " expected");
  return Ok();
}

/// What the handle at input i names.
Result<int> resource_of(Lowering& l, int i) {
  const int tensor = l.in_tensor(i);
  if (tensor >= 0) {
    const int r = l.reader().handle(l.subgraph().index(), tensor);
    if (r >= 0) return r;
  }
  return Unsupported("a resource handle (input ", i, ") that is not known before the run");
}

/// The state of a resource variable; it has no value until it is assigned.
int variable_state(Lowering& l, int resource, DType dtype) {
  Resource& r = l.reader().resource_at(resource);
  if (r.state < 0) r.state = l.reader().add_state({.name = r.key, .type = ValueType::tensor(dtype)});
  return r.state;
}

/// A graph that drops its first argument, an index, and runs `graph` on the others.
int wrap_branch(Lowering& l, int graph) {
  Module& module = l.reader().module();
  const int wrapper = static_cast<int>(module.graphs.size());
  module.graphs.push_back({.name = module.graphs[static_cast<size_t>(graph)].name});
  Builder b(module, wrapper);
  b.at("STABLEHLO_CASE", "", module.graphs[static_cast<size_t>(graph)].name);
  b.input("index", ValueType::tensor(DType::kI32, Shape{}));
  std::vector<ValueId> arguments;
  for (int i = 1; i < l.inputs(); ++i) arguments.push_back(b.input("", l.type(i)));
  CallAttrs a;
  a.graph = graph;
  auto results = b.node(Op::kCall, make_attrs<CallAttrs>(a), arguments, l.outputs());
  if (results.ok()) module.graphs[static_cast<size_t>(wrapper)].outputs = *results;
  return wrapper;
}

}  // namespace

Status lower_call(Lowering& l) {
  const auto* o = l.options<tfl::CallOptions>();
  if (!o) return InvalidModel("CallOptions are missing");
  SMELT_TRY(check_callee(l, o->subgraph(), "the callee", l.inputs(), l.outputs()));
  CallAttrs a;
  a.graph = static_cast<int>(o->subgraph());
  return l.emit_all(Op::kCall, make_attrs<CallAttrs>(a), l.ins());
}

Status lower_if(Lowering& l) {
  const auto* o = l.options<tfl::IfOptions>();
  if (!o) return InvalidModel("IfOptions are missing");
  SMELT_TRY(check_callee(l, o->then_subgraph_index(), "the then branch", l.inputs() - 1, l.outputs()));
  SMELT_TRY(check_callee(l, o->else_subgraph_index(), "the else branch", l.inputs() - 1, l.outputs()));
  IfAttrs a;
  a.then_graph = o->then_subgraph_index();
  a.else_graph = o->else_subgraph_index();
  return l.emit_all(Op::kIf, make_attrs<IfAttrs>(a), l.ins());
}

Status emit_while(Lowering& l, int cond, int body) {
  if (l.inputs() != l.outputs()) return InvalidModel(l.inputs(), " inputs and ", l.outputs(), " outputs");
  if (l.inputs() == 0) return InvalidModel("a loop without values");
  SMELT_TRY(check_callee(l, cond, "the condition", l.inputs(), 1));
  SMELT_TRY(check_callee(l, body, "the body", l.inputs(), l.outputs()));
  WhileAttrs a;
  a.cond_graph = cond;
  a.body_graph = body;
  return l.emit_all(Op::kWhile, make_attrs<WhileAttrs>(a), l.ins());
}

Status lower_while(Lowering& l) {
  const auto* o = l.options<tfl::WhileOptions>();
  if (!o) return InvalidModel("WhileOptions are missing");
  return emit_while(l, o->cond_subgraph_index(), o->body_subgraph_index());
}

/// A choice among subgraphs: a chain of two-way branches. An index out of range takes the last one.
Status lower_case(Lowering& l) {
  const auto* o = l.options<tfl::StablehloCaseOptions>();
  const int count = o && o->branch_subgraph_indices() ? static_cast<int>(o->branch_subgraph_indices()->size()) : 0;
  if (count < 1 || count > 1000) return InvalidModel(count, " branches");
  if (l.inputs() < 1 || l.type(0).dtype != DType::kI32) return InvalidModel("the index is no int32 scalar");
  std::vector<int> branches;
  const int outputs = l.outputs();
  for (const int32_t sub : *o->branch_subgraph_indices()) {
    SMELT_TRY(check_callee(l, sub, "a branch", l.inputs() - 1, outputs));
    branches.push_back(sub);
  }
  Module& module = l.reader().module();
  const auto compare = [&](Builder& b, ValueId index, int k) {
    return b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kEqual), {index, b.scalar(DType::kI32, k)});
  };
  // From the last branch to the first: graph k chooses between branch k and the rest.
  int rest = branches.back();
  bool takes_index = false;
  for (int k = count - 2; k >= 0; --k) {
    if (k == 0) {
      SMELT_ASSIGN(const ValueId take, compare(l.b(), l.in(0), 0));
      std::vector<ValueId> ins{take};
      // Both branches of an If take the same values: the plain branch is wrapped to drop the index.
      const int wrapped = takes_index ? wrap_branch(l, branches[0]) : branches[0];
      if (takes_index) ins.push_back(l.in(0));
      ins.insert(ins.end(), l.ins().begin() + 1, l.ins().end());
      IfAttrs a;
      a.then_graph = wrapped;
      a.else_graph = rest;
      return l.emit_all(Op::kIf, make_attrs<IfAttrs>(a), ins);
    }
    const int then_graph =
        takes_index ? wrap_branch(l, branches[static_cast<size_t>(k)]) : branches[static_cast<size_t>(k)];
    const int graph = static_cast<int>(module.graphs.size());
    module.graphs.push_back({.name = Cat("case ", k)});
    Builder b(module, graph);
    b.at("STABLEHLO_CASE", "", Cat("case ", k));
    const ValueId index = b.input("index", ValueType::tensor(DType::kI32, Shape{}));
    std::vector<ValueId> arguments;
    for (int i = 1; i < l.inputs(); ++i) arguments.push_back(b.input("", l.type(i)));
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
  return l.emit_all(Op::kCall, make_attrs<CallAttrs>(a), std::vector<ValueId>(l.ins().begin() + 1, l.ins().end()));
}

/// Runs a subgraph in the first run only: a flag that lives across runs guards the call.
Status lower_call_once(Lowering& l) {
  const auto* o = l.options<tfl::CallOnceOptions>();
  if (!o) return InvalidModel("CallOnceOptions are missing");
  SMELT_TRY(check_callee(l, o->init_subgraph_index(), "the initialiser", 0, 0));
  const std::string key = Cat("call once ", o->init_subgraph_index());
  Resource& done = l.reader().resource_at(l.reader().resource(key));
  if (done.state < 0)
    done.state = l.reader().add_state({.name = key, .type = ValueType::tensor(DType::kBool, Shape{})});
  const int flag = done.state;
  Module& module = l.reader().module();
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
  SMELT_ASSIGN(const ValueId read, l.b().op(Op::kStateRead, make_attrs<StateAttrs>(flag), {}));
  IfAttrs a;
  a.then_graph = skip;
  a.else_graph = skip + 1;
  return l.b().node_to(Op::kIf, make_attrs<IfAttrs>(a), {read}, {});
}

/// Handles are known at load; at run time they are numbers that nobody looks at.
Status lower_var_handle(Lowering& l) {
  l.out_slot(0).value = l.b().scalar(DType::kI32, 0);
  return Ok();
}

Status lower_read_variable(Lowering& l) {
  SMELT_ASSIGN(const int r, resource_of(l, 0));
  return l.emit(Op::kStateRead, make_attrs<StateAttrs>(variable_state(l, r, l.out_type(0).dtype)), {});
}

Status lower_assign_variable(Lowering& l) {
  SMELT_ASSIGN(const int r, resource_of(l, 0));
  return l.b().node_to(Op::kStateWrite, make_attrs<StateAttrs>(variable_state(l, r, l.type(1).dtype)), {l.in(1)}, {});
}

namespace {

/// The states that hold a table's keys and values: empty until the import.
Result<Resource> table_of(Lowering& l) {
  SMELT_ASSIGN(const int index, resource_of(l, 0));
  Resource& r = l.reader().resource_at(index);
  if (r.key_dtype == DType::kInvalid) return InvalidModel("the handle names no hash table");
  if (r.state < 0) {
    r.state = l.reader().add_state({.name = Cat(r.key, " keys"), .type = ValueType::tensor(r.key_dtype, Shape{0})});
    r.values =
        l.reader().add_state({.name = Cat(r.key, " values"), .type = ValueType::tensor(r.value_dtype, Shape{0})});
  }
  return r;
}

}  // namespace

Status lower_hashtable(Lowering& l) { return lower_var_handle(l); }

Status lower_hashtable_import(Lowering& l) {
  SMELT_ASSIGN(const Resource table, table_of(l));
  if (l.type(1).dtype != table.key_dtype || l.type(2).dtype != table.value_dtype)
    return InvalidModel("keys ", to_string(l.type(1).dtype), " and values ", to_string(l.type(2).dtype),
                        ", the table has ", to_string(table.key_dtype), " and ", to_string(table.value_dtype));
  SMELT_TRY(l.b().node_to(Op::kStateWrite, make_attrs<StateAttrs>(table.state), {l.in(1)}, {}));
  return l.b().node_to(Op::kStateWrite, make_attrs<StateAttrs>(table.values), {l.in(2)}, {});
}

Status lower_hashtable_find(Lowering& l) {
  SMELT_ASSIGN(const Resource table, table_of(l));
  SMELT_ASSIGN(const ValueId keys, l.b().op(Op::kStateRead, make_attrs<StateAttrs>(table.state), {}));
  SMELT_ASSIGN(const ValueId values, l.b().op(Op::kStateRead, make_attrs<StateAttrs>(table.values), {}));
  return l.emit(Op::kTableFind, make_attrs<NoAttrs>(), {l.in(1), keys, values, l.in(2)});
}

Status lower_hashtable_size(Lowering& l) {
  SMELT_ASSIGN(const Resource table, table_of(l));
  SMELT_ASSIGN(const ValueId keys, l.b().op(Op::kStateRead, make_attrs<StateAttrs>(table.state), {}));
  SMELT_ASSIGN(const ValueId size, l.b().op(Op::kSizeOf, make_attrs<ShapeOfAttrs>(), {keys}));
  return l.emit(Op::kReshape, make_attrs<ReshapeAttrs>(), {size, l.b().i64({1})});
}

Status lower_unavailable(Lowering& l) {
  if (l.code() == tfl::BuiltinOperator::DELEGATE)
    return Unsupported("DELEGATE marks what a delegate took over in memory; it can't be stored in a file");
  return Unsupported("CONCAT_EMBEDDINGS has no defined semantics: no engine implements it");
}

/// A composite operator is its decomposition.
Status lower_composite(Lowering& l) {
  const auto* o = l.options<tfl::StableHLOCompositeOptions>();
  if (!o) return InvalidModel("StableHLOCompositeOptions are missing");
  SMELT_TRY(check_callee(l, o->decomposition_subgraph_index(), "the decomposition", l.inputs(), l.outputs()));
  CallAttrs a;
  a.graph = o->decomposition_subgraph_index();
  return l.emit_all(Op::kCall, make_attrs<CallAttrs>(a), l.ins());
}

}  // namespace smelt::tflite
