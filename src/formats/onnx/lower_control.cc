// Control flow, sequences and optionals of ai.onnx.
#include <algorithm>

#include "formats/onnx/ops.h"
#include "formats/rules.h"
#include "ops/container/container.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::onnx {

void attach_captures(NodeContext& n, const Body& body, std::vector<ValueId>& inputs) {
  Graph& g = n.builder().module().graphs[static_cast<size_t>(body.graph)];
  for (const auto& [outer, inner] : body.captures) {
    g.inputs.push_back(inner);
    inputs.push_back(outer);
  }
}

namespace {

const Graph& graph_of(NodeContext& n, const Body& body) {
  return n.builder().module().graphs[static_cast<size_t>(body.graph)];
}

/// A body's input whose shape may change from call to call: the element type is all that is known.
ValueType changing(const ValueType& t) { return t.kind == ValueType::Kind::kTensor ? ValueType::tensor(t.dtype) : t; }

/// True if a value can't be of both types. Unknown types fit every other one.
bool differ(const ValueType& a, const ValueType& b) {
  const auto unknown = [](const ValueType& t) {
    return t.kind == ValueType::Kind::kTensor && t.dtype == DType::kInvalid;
  };
  if (unknown(a) || unknown(b)) return false;
  if (a.kind != b.kind || a.dtype != b.dtype) return true;
  return a.element && b.element && differ(*a.element, *b.element);
}

/// The branches of If give the same types, shapes aside.
Status check_branches(NodeContext& n, const Graph& yes, const Graph& no) {
  const auto type_of = [](const Graph& g, size_t i) {
    return g.outputs[i] == kNoValue ? ValueType{} : g.value(g.outputs[i]).type;
  };
  for (size_t i = 0; i < yes.outputs.size() && i < no.outputs.size(); ++i)
    if (const ValueType a = type_of(yes, i), b = type_of(no, i); differ(a, b))
      SMELT_TRY(breach(n.lowering().source(), Rule::kBranchTypes,
                       InvalidModel("output ", i, " is ", a.str(), " in then_branch, ", b.str(), " in else_branch")));
  return Ok();
}

void lower_if(NodeContext& n) {
  const ValueId condition = n.in(0);
  auto then_body = n.body("then_branch", {});
  auto else_body = n.body("else_branch", {});
  if (!then_body || !else_body) return;
  std::vector<ValueId> outer;
  for (const Body* b : {&*then_body, &*else_body})
    for (const auto& [value, inner] : b->captures)
      if (std::ranges::find(outer, value) == outer.end()) outer.push_back(value);
  for (const Body* b : {&*then_body, &*else_body}) {
    Graph& g = n.builder().module().graphs[static_cast<size_t>(b->graph)];
    if (static_cast<int>(g.outputs.size()) != n.outputs())
      return n.fail("a branch gives ", g.outputs.size(), " results, the node has ", n.outputs(), " outputs");
    for (const ValueId value : outer) {
      const auto it = std::ranges::find_if(b->captures, [&](const auto& c) { return c.first == value; });
      g.inputs.push_back(it != b->captures.end() ? it->second : g.add_value({.type = n.type(value)}));
    }
  }
  if (auto s = check_branches(n, graph_of(n, *then_body), graph_of(n, *else_body)); !s.ok()) return n.fail(s.error());
  IfAttrs a;
  a.then_graph = then_body->graph;
  a.else_graph = else_body->graph;
  std::vector<ValueId> in{condition};
  in.insert(in.end(), outer.begin(), outer.end());
  n.emit(Op::kIf, a, in, n.outputs());
}

void lower_loop(NodeContext& n) {
  std::vector<ValueId> in = n.all_inputs();
  while (in.size() < 2) in.push_back(kNoValue);
  std::vector<ValueType> types{ValueType::tensor(DType::kI64, Shape{}), ValueType::tensor(DType::kBool, Shape{})};
  for (size_t k = 2; k < in.size(); ++k) types.push_back(changing(n.type(in[k])));
  auto body = n.body("body", types);
  if (!body) return;
  LoopAttrs a;
  a.body_graph = body->graph;
  a.carried = static_cast<int64_t>(in.size()) - 2;
  const auto results = static_cast<int64_t>(graph_of(n, *body).outputs.size());
  if (results < 1 + a.carried) return n.fail("the body gives ", results, " results for ", a.carried, " carried values");
  if (n.outputs() > results - 1) return n.fail("has ", n.outputs(), " outputs, the body gives ", results - 1);
  const ValueId again = graph_of(n, *body).outputs[0];
  const DType condition = again == kNoValue ? DType::kInvalid : graph_of(n, *body).value(again).type.dtype;
  if (condition != DType::kInvalid && condition != DType::kBool)
    return n.fail("the body's condition is ", to_string(condition), ", bool expected");
  attach_captures(n, *body, in);
  n.emit(Op::kLoop, a, in, static_cast<int>(results) - 1);
}

void lower_scan(NodeContext& n) {
  ScanAttrs a;
  std::vector<ValueId> in = n.all_inputs();
  a.batched = n.version() < 9;
  if (a.batched && in.empty()) return n.fail("has no inputs");
  const size_t first = a.batched ? 1 : 0;
  a.scans = n.i("num_scan_inputs", 0);
  a.states = static_cast<int64_t>(in.size() - first) - a.scans;
  if (a.scans < 1 || a.states < 0) return n.fail("num_scan_inputs is ", a.scans, " of ", in.size() - first, " inputs");
  a.input_axes = n.ints("scan_input_axes");
  a.output_axes = n.ints("scan_output_axes");
  a.input_directions = n.ints(a.batched ? "directions" : "scan_input_directions");
  a.output_directions = n.ints("scan_output_directions");
  std::vector<ValueType> types;
  for (size_t k = first; k < in.size(); ++k) {
    if (in[k] == kNoValue) return n.fail("input ", k, " is missing");
    types.push_back(ValueType::tensor(n.dtype(in[k])));
  }
  auto body = n.body("body", types);
  if (!body) return;
  a.body_graph = body->graph;
  const auto results = static_cast<int64_t>(graph_of(n, *body).outputs.size());
  if (results < a.states || n.outputs() > results)
    return n.fail("the body gives ", results, " results for ", a.states, " states and ", n.outputs(), " outputs");
  const auto fits = [&](std::vector<int64_t>& v, int64_t count, const char* name) {
    if (v.empty()) v.assign(static_cast<size_t>(count), 0);
    if (static_cast<int64_t>(v.size()) != count) n.fail(name, " has ", v.size(), " entries, ", count, " expected");
  };
  fits(a.input_axes, a.scans, "scan_input_axes");
  fits(a.input_directions, a.scans, "scan_input_directions");
  fits(a.output_axes, results - a.states, "scan_output_axes");
  fits(a.output_directions, results - a.states, "scan_output_directions");
  for (const auto* directions : {&a.input_directions, &a.output_directions})
    for (const int64_t d : *directions)
      if (d != 0 && d != 1) return n.fail("a scan direction is ", d, ", 0 or 1 expected");
  attach_captures(n, *body, in);
  n.emit(Op::kScan, a, in, static_cast<int>(results));
}

void lower_sequence_map(NodeContext& n) {
  std::vector<ValueId> in = n.all_inputs();
  std::vector<ValueType> types;
  for (const ValueId id : in) {
    if (id == kNoValue) return n.fail("an input is missing");
    const ValueType t = n.type(id);
    types.push_back(changing(t.kind == ValueType::Kind::kSequence && t.element ? *t.element : t));
  }
  auto body = n.body("body", types);
  if (!body) return;
  SequenceAttrs a;
  a.graph = body->graph;
  const auto results = static_cast<int>(graph_of(n, *body).outputs.size());
  if (n.outputs() > results) return n.fail("has ", n.outputs(), " outputs, the body gives ", results);
  attach_captures(n, *body, in);
  n.emit(Op::kSequenceMap, a, in, results);
}

void lower_sequence_construct(NodeContext& n) {
  const auto in = n.all_inputs();
  for (const ValueId id : in)
    if (id == kNoValue) return n.fail("an input is missing");
  n.emit(Op::kSequenceConstruct, SequenceAttrs(), in);
}
void lower_sequence_empty(NodeContext& n) {
  SequenceAttrs a;
  a.to = dtype_of(n.i("dtype", 1));
  if (a.to == DType::kInvalid) return n.fail("dtype names no element type");
  n.emit(Op::kSequenceConstruct, a, {});
}
void lower_sequence_at(NodeContext& n) { n.emit(Op::kSequenceAt, SequenceAttrs(), {n.in(0), n.in(1)}); }
void lower_sequence_insert(NodeContext& n) { n.emit(Op::kSequenceInsert, SequenceAttrs(), n.operands(2, 3)); }
void lower_sequence_erase(NodeContext& n) { n.emit(Op::kSequenceErase, SequenceAttrs(), n.operands(1, 2)); }
void lower_sequence_length(NodeContext& n) { n.emit(Op::kSequenceLength, SequenceAttrs(), {n.in(0)}); }

void lower_split_to_sequence(NodeContext& n) {
  SequenceAttrs a;
  a.axis = n.i("axis", 0);
  a.keep_dims = n.has(1) || n.flag("keepdims", true);
  n.emit(Op::kSequenceSplit, a, n.operands(1, 2));
}
void lower_concat_from_sequence(NodeContext& n) {
  SequenceAttrs a;
  if (!n.has_attr("axis")) return n.fail("attribute 'axis' is missing");
  a.axis = n.i("axis", 0);
  a.new_axis = n.flag("new_axis");
  n.emit(Op::kSequenceConcat, a, {n.in(0)});
}

void lower_optional(NodeContext& n) {
  if (n.has(0)) return n.emit(Op::kOptionalMake, SequenceAttrs(), {n.in(0)});
  const TypeProto* type = n.type_proto("type");
  ValueType element;
  if (type) {
    auto t = value_type(*type);
    if (!t.ok()) return n.fail(t.error());
    element = *t;
  }
  n.bind(0, n.add_as(Op::kOptionalMake, SequenceAttrs(), {}, ValueType::optional(element)));
}
void lower_optional_get(NodeContext& n) {
  const ValueId x = n.in(0);
  const ValueType t = n.type(x);
  if (t.kind == ValueType::Kind::kOptional && t.element)
    return n.bind(0, n.add_as(Op::kOptionalGet, SequenceAttrs(), {x}, changing(*t.element)));
  n.emit(Op::kOptionalGet, SequenceAttrs(), {x});
}
void lower_optional_has(NodeContext& n) {
  n.emit(Op::kOptionalHas, SequenceAttrs(), n.has(0) ? std::vector<ValueId>{n.in(0)} : std::vector<ValueId>{});
}

constexpr OpEntry kOps[] = {
    {"If", 1, lower_if},
    {"Loop", 1, lower_loop},
    {"Scan", 8, lower_scan},
    {"SequenceMap", 17, lower_sequence_map},
    {"SequenceConstruct", 11, lower_sequence_construct},
    {"SequenceEmpty", 11, lower_sequence_empty},
    {"SequenceAt", 11, lower_sequence_at},
    {"SequenceInsert", 11, lower_sequence_insert},
    {"SequenceErase", 11, lower_sequence_erase},
    {"SequenceLength", 11, lower_sequence_length},
    {"SplitToSequence", 11, lower_split_to_sequence},
    {"ConcatFromSequence", 11, lower_concat_from_sequence},
    {"Optional", 15, lower_optional},
    {"OptionalGetElement", 15, lower_optional_get},
    {"OptionalHasElement", 15, lower_optional_has},
};

}  // namespace

std::span<const OpEntry> control_ops() { return kOps; }

}  // namespace smelt::onnx
