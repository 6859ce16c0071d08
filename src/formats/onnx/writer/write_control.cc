// Control flow, variables and sequences.
#include "formats/onnx/writer/op_writers.h"
#include "ops/container/container.h"
#include "ops/control/control.h"

namespace smelt::onnx {
namespace {

ValueForms raw_form(Name name) {
  ValueForms f;
  f.raw.as_is = name;
  return f;
}

/// The stored forms of inputs [first, first + count).
std::vector<ValueForms> arguments(NodeWriter& n, int first, int count) {
  std::vector<ValueForms> out;
  for (int i = first; i < first + count; ++i) out.push_back(n.has(i) ? raw_form(n.raw(i)) : ValueForms{});
  return out;
}

/// A body of control flow while it is written.
class BodyWriter {
 public:
  BodyWriter(NodeWriter& n, int index)
      : n_(n),
        graph_(n.model().module().graphs[static_cast<size_t>(index)]),
        index_(index),
        scope_(n.model(), graph_, body_->nodes) {
    body_->name = graph_.name.empty() ? Cat("body_", index) : graph_.name;
  }

  GraphScope& scope() { return scope_; }
  /// An input of the body with the type of its value `at`.
  ValueForms input(size_t at) {
    const Value& v = graph_.value(graph_.inputs[at]);
    const Name name = n_.model().fresh(v.name);
    body_->inputs.push_back({name, v.type, {}, ""});
    if (v.type.kind == ValueType::Kind::kTensor && v.type.dtype == DType::kInvalid)
      n_.fail("the element type of '", v.name, "' must be known");
    return raw_form(name);
  }
  Name scalar_input(const char* base, const ValueType& type) {
    const Name name = n_.model().fresh(base);
    body_->inputs.push_back({name, type, {}, ""});
    return name;
  }
  /// Writes the body's graph and returns the forms of its outputs.
  std::vector<ValueForms> inlined(int index, const std::vector<ValueForms>& in) {
    return n_.model().inline_graph(scope_, index, in);
  }
  std::vector<ValueForms> inlined(const std::vector<ValueForms>& in) { return inlined(index_, in); }
  /// An output: a value that the body itself makes, an identity of one that it does not.
  void output(const ValueForms& form, const ValueType& type) {
    const Name name = n_.model().fresh("result");
    body_->nodes.push_back({"Identity", "", "", {form.raw.as_is}, {name}, {}});
    body_->outputs.push_back({name, type, {}, ""});
    if (form.raw.as_is == kNoName) n_.fail("a body gives no value");
  }
  const ValueType& output_type(size_t i) const {
    static const ValueType none;
    return graph_.outputs[i] == kNoValue ? none : graph_.value(graph_.outputs[i]).type;
  }
  size_t outputs() const { return graph_.outputs.size(); }
  std::shared_ptr<const OutGraph> graph() const { return body_; }

 private:
  NodeWriter& n_;
  const Graph& graph_;
  int index_;
  std::shared_ptr<OutGraph> body_ = std::make_shared<OutGraph>();
  GraphScope scope_;
};

void bind_results(NodeWriter& n, const std::vector<Name>& names) {
  for (int i = 0; i < n.outputs() && static_cast<size_t>(i) < names.size(); ++i)
    n.bind_raw(i, names[static_cast<size_t>(i)]);
}

void write_if(NodeWriter& n) {
  const auto& a = n.attrs<IfAttrs>();
  const auto branch = [&](int index) {
    BodyWriter body(n, index);
    const auto results = body.inlined(arguments(n, 1, n.inputs() - 1));
    for (size_t i = 0; i < results.size(); ++i) body.output(results[i], body.output_type(i));
    return body.graph();
  };
  const Name condition = n.type(0).ranked && n.type(0).shape.rank() == 0 ? n.in(0) : n.reshape(n.in(0), {});
  bind_results(n, n.ops("If", {condition}, static_cast<size_t>(n.outputs()),
                        {{"then_branch", branch(a.then_graph)}, {"else_branch", branch(a.else_graph)}}));
}

ValueType trip_type() { return ValueType::tensor(DType::kI64, Shape{}); }
ValueType truth_type() { return ValueType::tensor(DType::kBool, Shape{}); }

void write_loop(NodeWriter& n) {
  const auto& a = n.attrs<LoopAttrs>();
  BodyWriter body(n, a.body_graph);
  const auto carried = static_cast<size_t>(a.carried);
  std::vector<ValueForms> in;
  for (size_t i = 0; i < 2 + carried; ++i) in.push_back(body.input(i));
  const int captures = n.inputs() - 2 - static_cast<int>(carried);
  for (const ValueForms& f : arguments(n, 2 + static_cast<int>(carried), captures)) in.push_back(f);
  const auto results = body.inlined(in);
  for (size_t i = 0; i < results.size(); ++i) body.output(results[i], body.output_type(i));
  std::vector<Name> operands{n.has(0) ? n.in_i64(0) : kNoName, n.has(1) ? n.in(1) : n.scalar(DType::kBool, 1)};
  for (size_t i = 0; i < carried; ++i) operands.push_back(n.raw(static_cast<int>(2 + i)));
  bind_results(n, n.ops("Loop", operands, results.size() - 1, {{"body", body.graph()}}));
}

/// A loop whose condition is a graph: it is evaluated before the loop and at the end of each pass.
void write_while(NodeWriter& n) {
  const auto& a = n.attrs<WhileAttrs>();
  const auto truth = [](NodeWriter& at, const std::vector<ValueForms>& results) {
    return at.reshape(results.at(0).raw.as_is, {});
  };
  const auto first = n.model().inline_graph(n.scope(), a.cond_graph, arguments(n, 0, n.inputs()));
  if (first.empty()) return n.fail("the condition gives nothing");
  const Name before = truth(n, first);
  BodyWriter body(n, a.body_graph);
  body.scalar_input("iteration", trip_type());
  body.scalar_input("condition", truth_type());
  std::vector<ValueForms> in;
  for (int i = 0; i < n.inputs(); ++i) in.push_back(body.input(static_cast<size_t>(i)));
  const auto results = body.inlined(in);
  const auto again = body.inlined(a.cond_graph, results);
  const Node nowhere;
  NodeWriter inner(body.scope(), nowhere);
  body.output(raw_form(truth(inner, again)), truth_type());
  for (size_t i = 0; i < results.size(); ++i) body.output(results[i], body.output_type(i));
  std::vector<Name> operands{kNoName, before};
  for (int i = 0; i < n.inputs(); ++i) operands.push_back(n.raw(i));
  bind_results(n, n.ops("Loop", operands, results.size(), {{"body", body.graph()}}));
}

void write_scan(NodeWriter& n) {
  const auto& a = n.attrs<ScanAttrs>();
  if (a.batched) return n.fail("the batched form of opset 8");
  BodyWriter body(n, a.body_graph);
  const auto count = static_cast<size_t>(a.states + a.scans);
  std::vector<ValueForms> in;
  for (size_t i = 0; i < count; ++i) in.push_back(body.input(i));
  for (const ValueForms& f : arguments(n, static_cast<int>(count), n.inputs() - static_cast<int>(count)))
    in.push_back(f);
  const auto results = body.inlined(in);
  for (size_t i = 0; i < results.size(); ++i) body.output(results[i], body.output_type(i));
  std::vector<Name> operands;
  for (size_t i = 0; i < count; ++i) operands.push_back(n.raw(static_cast<int>(i)));
  std::vector<Attribute> attributes{{"body", body.graph()},
                                    {"num_scan_inputs", a.scans},
                                    {"scan_input_axes", a.input_axes},
                                    {"scan_input_directions", a.input_directions},
                                    {"scan_output_axes", a.output_axes},
                                    {"scan_output_directions", a.output_directions}};
  std::erase_if(attributes, [](const Attribute& x) {
    const auto* list = std::get_if<std::vector<int64_t>>(&x.value);
    return list && list->empty();
  });
  bind_results(n, n.ops("Scan", operands, results.size(), attributes));
}

void write_call(NodeWriter& n) {
  const auto results = n.model().inline_graph(n.scope(), n.attrs<CallAttrs>().graph, arguments(n, 0, n.inputs()));
  for (int i = 0; i < n.outputs() && static_cast<size_t>(i) < results.size(); ++i)
    n.bind_forms(i, results[static_cast<size_t>(i)]);
}

void write_state_read(NodeWriter& n) {
  const int state = n.attrs<StateAttrs>().state;
  const Name now = n.model().state(state, n);
  if (now != kNoName) n.bind_raw(0, now);
}

void write_state_write(NodeWriter& n) { n.model().set_state(n.attrs<StateAttrs>().state, n); }

/// ONNX has no assertions.
void write_assert(NodeWriter&) {}

std::vector<Name> raw_in(NodeWriter& n) {
  std::vector<Name> in;
  for (int i = 0; i < n.inputs(); ++i) in.push_back(n.raw(i));
  return in;
}

void write_sequence_construct(NodeWriter& n) {
  if (n.inputs() > 0) return n.bind_raw(0, n.op("SequenceConstruct", raw_in(n)));
  n.bind_raw(0, n.op("SequenceEmpty", {}, {{"dtype", type_code(n.attrs<SequenceAttrs>().to)}}));
}
void write_sequence_at(NodeWriter& n) { n.bind_raw(0, n.op("SequenceAt", raw_in(n))); }
void write_sequence_insert(NodeWriter& n) { n.bind_raw(0, n.op("SequenceInsert", raw_in(n))); }
void write_sequence_erase(NodeWriter& n) { n.bind_raw(0, n.op("SequenceErase", raw_in(n))); }
void write_sequence_length(NodeWriter& n) { n.bind_raw(0, n.op("SequenceLength", raw_in(n))); }

void write_sequence_split(NodeWriter& n) {
  const auto& a = n.attrs<SequenceAttrs>();
  n.bind_raw(0, n.op("SplitToSequence", raw_in(n), {{"axis", a.axis}, {"keepdims", a.keep_dims}}));
}
void write_sequence_concat(NodeWriter& n) {
  const auto& a = n.attrs<SequenceAttrs>();
  n.bind_raw(0, n.op("ConcatFromSequence", raw_in(n), {{"axis", a.axis}, {"new_axis", a.new_axis}}));
}

void write_sequence_map(NodeWriter& n) {
  BodyWriter body(n, n.attrs<SequenceAttrs>().graph);
  std::vector<ValueForms> in;
  for (int i = 0; i < n.inputs(); ++i) in.push_back(body.input(static_cast<size_t>(i)));
  const auto results = body.inlined(in);
  for (size_t i = 0; i < results.size(); ++i) body.output(results[i], body.output_type(i));
  bind_results(n, n.ops("SequenceMap", raw_in(n), results.size(), {{"body", body.graph()}}));
}

void write_optional_make(NodeWriter& n) {
  if (n.inputs() > 0) return n.bind_raw(0, n.op("Optional", raw_in(n)));
  const ValueType& t = n.out_type(0);
  n.bind_raw(0, n.op("Optional", {}, {{"type", t.element ? *t.element : ValueType{}}}));
}
void write_optional_get(NodeWriter& n) { n.bind_raw(0, n.op("OptionalGetElement", raw_in(n))); }
void write_optional_has(NodeWriter& n) { n.bind_raw(0, n.op("OptionalHasElement", raw_in(n))); }

constexpr OpWriter kControl[] = {
    {Op::kIf, write_if, "If"},
    {Op::kWhile, write_while, "Loop"},
    {Op::kLoop, write_loop, "Loop"},
    {Op::kScan, write_scan, "Scan"},
    {Op::kCall, write_call, "the called graph's operators"},
    {Op::kStateRead, write_state_read, "an input of the model"},
    {Op::kStateWrite, write_state_write, "an output of the model"},
    {Op::kAssert, write_assert, "nothing"},
    {Op::kSequenceConstruct, write_sequence_construct, "SequenceConstruct, SequenceEmpty"},
    {Op::kSequenceAt, write_sequence_at, "SequenceAt"},
    {Op::kSequenceInsert, write_sequence_insert, "SequenceInsert"},
    {Op::kSequenceErase, write_sequence_erase, "SequenceErase"},
    {Op::kSequenceLength, write_sequence_length, "SequenceLength"},
    {Op::kSequenceSplit, write_sequence_split, "SplitToSequence"},
    {Op::kSequenceConcat, write_sequence_concat, "ConcatFromSequence"},
    {Op::kSequenceMap, write_sequence_map, "SequenceMap"},
    {Op::kOptionalMake, write_optional_make, "Optional"},
    {Op::kOptionalGet, write_optional_get, "OptionalGetElement"},
    {Op::kOptionalHas, write_optional_has, "OptionalHasElement"},
};

}  // namespace

std::span<const OpWriter> control_writers() { return kControl; }

}  // namespace smelt::onnx
