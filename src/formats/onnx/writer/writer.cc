#include "formats/onnx/writer/writer.h"

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"
#include "formats/onnx/lower.h"
#include "formats/onnx/writer/node_writer.h"

namespace smelt::onnx {
namespace {

constexpr int kOldestOpset = 13;

/// Names that a list of nodes reads, those of bodies included.
void collect_reads(const std::vector<OutNode>& nodes, std::unordered_set<Name>& reads) {
  for (const OutNode& n : nodes) {
    reads.insert(n.inputs.begin(), n.inputs.end());
    for (const Attribute& a : n.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const OutGraph>>(&a.value);
      if (!body) continue;
      collect_reads((*body)->nodes, reads);
      for (const OutPort& p : (*body)->outputs) reads.insert(p.name);
    }
  }
}

/// Removes nodes and initializers that nobody reads.
void remove_unread(OutGraph& graph) {
  std::unordered_set<Name> reads;
  for (const OutPort& p : graph.outputs) reads.insert(p.name);
  for (const OutPort& p : graph.inputs) reads.insert(p.name);
  std::vector<OutNode> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    OutNode& n = graph.nodes[i];
    if (std::ranges::none_of(n.outputs, [&](Name o) { return reads.count(o) > 0; })) continue;
    collect_reads({n}, reads);
    kept.push_back(std::move(n));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  std::erase_if(graph.initializers, [&](const OutInitializer& i) { return reads.count(i.name) == 0; });
}

/// Has ONNX a code for the elements of a tensor, or of what a sequence or optional holds?
bool has_type_code(const ValueType& type) {
  switch (type.kind) {
    case ValueType::Kind::kTensor:
      return type_code(type.dtype) != 0;
    case ValueType::Kind::kSequence:
    case ValueType::Kind::kOptional:
      return type.element && has_type_code(*type.element);
    case ValueType::Kind::kMap:
      return true;
  }
  return true;
}

OutPort port_of(const Value& v, Name name) { return {name, v.type, v.dim_names, v.doc}; }

void write_inputs(ModelWriter& model, GraphScope& scope) {
  OutGraph& out = model.out().graph;
  for (const ValueId id : scope.graph.inputs) {
    if (id == kNoValue) continue;
    const Value& v = scope.graph.value(id);
    const Name name = model.fresh(v.name);
    if (!has_type_code(v.type))
      model.missing().push_back({"input", v.type.str(), Cat("input '", v.name, "': ONNX has no such element type")});
    scope.forms[static_cast<size_t>(id)].raw.as_is = name;
    out.inputs.push_back(port_of(v, name));
    if (v.constant) out.initializers.push_back({name, *v.constant});
  }
}

/// Where a value of a graph output stands, as a name of its own with exactly the output's text.
void write_outputs(ModelWriter& model, GraphScope& scope) {
  OutGraph& out = model.out().graph;
  std::unordered_set<Name> taken;
  for (const OutPort& p : out.inputs) taken.insert(p.name);
  for (const OutInitializer& i : out.initializers) taken.insert(i.name);
  const Node nowhere;
  for (const ValueId id : scope.graph.outputs) {
    if (id == kNoValue) continue;
    NodeWriter n(scope, nowhere);
    const Value& v = scope.graph.value(id);
    Name name = n.form(id, false, Order::kAsIs);
    for (const OutInitializer& i : out.initializers) taken.insert(i.name);
    if (!n.ok()) {
      model.missing().push_back({"output", v.type.str(), Cat("output '", v.name, "': ", n.failure())});
      continue;
    }
    if (!taken.insert(name).second) {
      name = n.op("Identity", {name});
      model.rename(name, v.name);
      taken.insert(name);
    }
    out.outputs.push_back(port_of(v, name));
    if (!has_type_code(v.type))
      model.missing().push_back({"output", v.type.str(), Cat("output '", v.name, "': ONNX has no such element type")});
  }
}

/// Gives each main output its own text; a value of another name that has it moves away.
void settle_output_names(OutModel& out, const Graph& graph) {
  size_t k = 0;
  for (const ValueId id : graph.outputs) {
    if (id == kNoValue || k >= out.graph.outputs.size()) continue;
    std::string& have = out.names[static_cast<size_t>(out.graph.outputs[k++].name)];
    const std::string& want = graph.value(id).name;
    if (want.empty() || have == want) continue;
    if (const auto it = std::ranges::find(out.names, want); it != out.names.end())
      std::swap(*it, have);
    else
      have = want;
  }
}

void describe(const Module& module, ModelWriter& model) {
  OutModel& out = model.out();
  out.producer = module.producer;
  out.opset = model.opset();
  out.domains.assign(model.domains().begin(), model.domains().end());
  std::map<std::string, int> uses;  // ONNX wants keys that differ
  const auto add = [&](const std::string& key, const std::string& value) {
    const int use = ++uses[key];
    out.metadata.emplace_back(use == 1 ? key : Cat(key, " ", use), value);
  };
  for (const auto& [key, value] : module.metadata)
    if (key != "ir_version" && !key.starts_with("opset ")) add(key, value);
  for (const auto& [name, lines] : module.text_files) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    add(name, text);
  }
}

bool can_write(const Module& module, const Graph& graph, const Node& node, const formats::WriteOptions& options) {
  const OpWriter* writer = find_op_writer(node.op);
  if (!writer) return false;
  ModelWriter model(module, options, true);
  std::vector<OutNode> nodes;
  GraphScope scope(model, graph, nodes);
  scope.straight = true;
  for (const ValueId id : node.inputs)
    if (id != kNoValue && !graph.value(id).constant)
      scope.forms[static_cast<size_t>(id)].raw.as_is = scope.forms[static_cast<size_t>(id)].real.as_is =
          model.fresh("x");
  NodeWriter n(scope, node);
  writer->write(n);
  return n.ok() && model.missing().empty();
}

}  // namespace

Result<formats::WriteResult> write_onnx(const Module& module, const formats::WriteOptions& options) {
  if (options.opset != 0 && (options.opset < kOldestOpset || options.opset > kNewestOpset))
    return InvalidInput("opset ", options.opset, "; models of opset ", kOldestOpset, " to ", kNewestOpset,
                        " can be written");
  if (module.methods.empty()) return InvalidInput("the model has no method");
  const Method& method = module.methods.front();
  if (!method.refusal.empty()) return Unsupported(method.name, ": ", method.refusal);
  const Graph& graph = module.graphs[static_cast<size_t>(method.graph)];
  ModelWriter model(module, options, false);
  OutGraph& out = model.out().graph;
  out.name = graph.name.empty() ? method.name : graph.name;
  GraphScope scope(model, graph, out.nodes);
  scope.straight = true;
  write_inputs(model, scope);
  model.write_nodes(scope);
  write_outputs(model, scope);
  model.write_states(scope);
  formats::WriteResult result;
  result.missing = std::move(model.missing());
  if (!result.missing.empty()) return result;
  out.nodes.insert(out.nodes.begin(), std::make_move_iterator(model.prologue().begin()),
                   std::make_move_iterator(model.prologue().end()));
  remove_unread(out);
  settle_output_names(model.out(), graph);
  describe(module, model);
  result.files = encode(model.out(), options);
  return result;
}

}  // namespace smelt::onnx

namespace smelt::formats {
extern const Writer onnx_writer;
const Writer onnx_writer{.name = "onnx",
                         .suffix = ".onnx",
                         .can_write = onnx::can_write,
                         .write = onnx::write_onnx,
                         .explicit_padding = true,
                         .counted_loops = true};
}  // namespace smelt::formats
