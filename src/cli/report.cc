#include "cli/report.h"

#include <map>
#include <set>

#include "base/cat.h"
#include "cli/print_values.h"
#include "graph/graph.h"
#include "ops/control/control.h"
#include "ops/core/op.h"
#include "passes/passes.h"
#include "runtime/compiled.h"
#include "runtime/model_access.h"
#include "runtime/planned_environment.h"

namespace smelt::cli {
namespace {

constexpr int64_t kSmallConstant = 16;  // elements of constants whose values are shown

/// Long lists (trees, tables) are shown by their length.
template <class T>
Json field_value(const std::vector<T>& v) {
  return v.size() <= 32 ? Json(v) : Json(Cat(v.size(), " values"));
}
template <class T>
Json field_value(const T& v) {
  return v;
}

Json attributes(const Attrs* attrs) {
  Json out = Json::object();
  for_each_field(attrs, [&out](const char* name, const auto& v) { out[name] = field_value(v); });
  return out;
}

Json quantization(const QuantPtr& q) {
  if (!q) return nullptr;
  static const char* const kinds[] = {"per_tensor", "per_axis", "per_block", "dynamic_row"};
  Json out = {{"kind", kinds[static_cast<int>(q->kind)]}};
  if (q->scales.size() == 1) {
    out["scale"] = q->scales[0];
    out["zero_point"] = q->zero_point();
  } else {
    out["scales"] = q->scales.size();
    out["axis"] = q->axis;
  }
  if (q->block) out["block"] = q->block;
  return out;
}

Json value_json(const Value& v) {
  Json out = {{"name", v.name}, {"type", v.type.str()}};
  if (v.type.kind == ValueType::Kind::kTensor) {
    out["dtype"] = to_string(v.type.dtype);
    if (v.type.ranked) out["shape"] = std::vector<int64_t>(v.type.shape.begin(), v.type.shape.end());
  }
  if (v.type.quant) out["quantization"] = quantization(v.type.quant);
  if (v.read_as != kNoValue) out["read_as"] = v.read_as;
  if (v.constant) out["constant_bytes"] = v.constant->bytes();
  if (v.constant && v.constant->elements() <= kSmallConstant) {
    out["constant"] = Json::array();
    for (int64_t i = 0; i < v.constant->elements(); ++i) out["constant"].push_back(element_json(*v.constant, i));
  }
  if (!v.dim_names.empty()) out["dim_names"] = v.dim_names;
  if (!v.bound.empty()) out["bound"] = v.bound;
  if (!v.doc.empty()) out["doc"] = v.doc;
  return out;
}

/// Concrete input types for planning.
std::vector<ValueType> planned_inputs(const Graph& g, const Dimensions& dimensions) {
  std::vector<ValueType> types;
  for (ValueId id : g.inputs) {
    const Value& v = g.value(id);
    ValueType t = v.type;
    t.shape = dimensions.shape(port_of(v));
    types.push_back(std::move(t));
  }
  return types;
}

bool has_static_inputs(const Graph& g) {
  return std::all_of(g.inputs.begin(), g.inputs.end(), [&](ValueId id) { return g.value(id).type.is_static(); });
}

struct Placement {
  std::map<const Node*, std::vector<const Step*>> steps;  ///< by node of the graph: its own, or those of its parts
  const Plan* plan = nullptr;                             ///< null: `problem` says why
  std::string problem;
  const char* unplaced = "folded";  ///< what nodes without steps run on
  size_t arena = 0, arena_bound = 0;
  bool has_device = false;
  size_t device_nodes = 0, segments = 0;
  DeviceUse device;
};

/// `shown`: the graph whose nodes the steps are listed under, by the same index.
Placement place(PlannedEnvironment& env, int graph, const Graph& shown, const Dimensions& dimensions) {
  Placement p;
  const Node* const planned = env.module->graphs[static_cast<size_t>(graph)].nodes.data();
  auto plan = env.prepare(graph, planned_inputs(env.module->graphs[static_cast<size_t>(graph)], dimensions));
  if (!plan.ok()) {
    p.problem = plan.error().message();
    p.unplaced = "unknown";
    return p;
  }
  p.plan = *plan;
  for (const Step& s : (*plan)->steps()) {
    const auto node = static_cast<size_t>((s.part_of ? s.part_of : s.node) - planned);
    p.steps[&shown.nodes[node]].push_back(&s);
    if (!s.on_device()) continue;
    ++p.device_nodes;
    p.segments += std::get<SegmentStep>(s.work).segment != nullptr;
  }
  p.has_device = env.device() != nullptr;
  p.device = (*plan)->device();
  p.arena = (*plan)->arena_bytes();
  p.arena_bound = (*plan)->arena_lower_bound();
  return p;
}

const char* runs_on(const Step& s) {
  if (const auto* work = std::get_if<DeviceStep>(&s.work))
    return work->kind == DeviceStep::Kind::kView ? "view" : "state on the device";
  if (s.is<DynamicStep>()) return runs_by_reference(op_info(s.node->op)) ? "reference (dynamic)" : "dynamic";
  return s.is<AliasStep>() ? "view" : s.is<StateStep>() ? "state" : s.kernel_name();
}

/// What the steps of one node run on; of a decomposed node each kernel once: "strided_copy + matmul_f32".
std::string runs_on(const std::vector<const Step*>& steps) {
  std::set<std::string> seen;
  std::string text;
  for (const Step* s : steps)
    if ((steps.size() == 1 || !(s->is<AliasStep>() || s->is<DeviceStep>())) && seen.insert(runs_on(*s)).second)
      text += Cat(text.empty() ? "" : " + ", runs_on(*s));
  return text.empty() ? "view" : text;
}

/// What a run of a node costs, where the types of its values are known.
struct NodeCost {
  double multiply_adds = 0;
  size_t weights_bytes = 0, moved_bytes = 0;  ///< moved: operands read and results written
  int64_t parameters = 0;                     ///< elements of constant operands
};

NodeCost cost_of(const Graph& g, const Node& n, const Placement& p) {
  NodeCost cost;
  const auto type = [&](ValueId id) { return p.plan ? p.plan->type(id) : g.value(id).type; };
  const auto move = [&](ValueId id) {
    if (const ValueType t = type(id); t.is_static()) cost.moved_bytes += Tensor::byte_size(t.dtype, t.shape.elements());
  };
  std::vector<ValueType> in;
  bool all_static = !n.outputs.empty() && n.outputs[0] != kNoValue && type(n.outputs[0]).is_static();
  for (ValueId id : n.inputs) {
    in.push_back(id == kNoValue ? ValueType{} : type(id));
    if (id == kNoValue) continue;
    all_static = all_static && in.back().is_static();
    move(id);
    if (!g.value(id).constant) continue;
    cost.weights_bytes += g.value(id).constant->bytes();
    cost.parameters += g.value(id).constant->elements();
  }
  for (ValueId id : n.outputs)
    if (id != kNoValue) move(id);
  const auto count = op_info(n.op).multiply_adds;
  if (all_static && count && n.attrs) cost.multiply_adds = count(*n.attrs, in, type(n.outputs[0]));
  return cost;
}

/// The attributes of a node's operator as the file states them; a text that is no JSON (of bytes that are no UTF-8)
/// stays a text.
Json stated_json(const StatedAttributes& stated) {
  Json out = Json::object();
  for (const auto& [name, text] : stated) {
    out[name] = Json::parse(text).value_or(text);
  }
  return out;
}

Json graph_json(const Module& m, size_t index, const Placement& p, const FileAttributes* stated,
                std::set<const void*>& counted, size_t& weights) {
  const Graph& g = m.graphs[index];
  Json nodes = Json::array(), values = Json::array();
  for (const Value& v : g.values) {
    values.push_back(value_json(v));
    if (v.constant && v.constant->identity() && counted.insert(v.constant->identity()).second)
      weights += v.constant->bytes();
  }
  for (const Node& n : g.nodes) {
    const NodeCost cost = cost_of(g, n, p);
    const auto it = p.steps.find(&n);
    nodes.push_back({{"op", to_string(n.op)},
                     {"origin", n.origin},
                     {"name", n.name},
                     {"where", n.where},
                     {"attributes", attributes(n.attrs.get())},
                     {"inputs", n.inputs},
                     {"outputs", n.outputs},
                     {"partition", n.partition},
                     {"weights_bytes", cost.weights_bytes},
                     {"parameters", cost.parameters},
                     {"multiply_adds", cost.multiply_adds},
                     {"moved_bytes", cost.moved_bytes},
                     {"runs_on", it != p.steps.end() ? runs_on(it->second) : p.unplaced}});
    if (const StatedAttributes* attributes = stated ? stated->find(index, n) : nullptr)
      nodes.back()["file_attributes"] = stated_json(*attributes);
    if (it == p.steps.end()) continue;
    const Step& step = *it->second.front();
    if (step.on_device()) {
      const std::string& storage = std::get<SegmentStep>(step.work).storage;
      nodes.back()["storage"] = storage.empty() ? "buffer" : storage;
    } else if (!step.is<DeviceStep>() && !step.host_reason.empty()) {
      nodes.back()["host_reason"] = step.host_reason;
    }
  }
  Json out = {{"name", g.name}, {"inputs", g.inputs}, {"outputs", g.outputs}, {"nodes", nodes}, {"values", values}};
  if (p.problem.empty()) {
    out["arena_bytes"] = p.arena;
    out["arena_lower_bound"] = p.arena_bound;
    if (p.has_device)
      out["device"] = {{"nodes", p.device_nodes},
                       {"segments", p.segments},
                       {"arena_bytes", p.device.arena_bytes},
                       {"arena_lower_bound", p.device.arena_lower_bound},
                       {"uploads", p.device.copies.up},
                       {"downloads", p.device.copies.down},
                       {"bytes_up", p.device.copies.bytes_up},
                       {"bytes_down", p.device.copies.bytes_down},
                       {"conversions", p.device.copies.conversions}};
  } else {
    out["plan_error"] = p.problem;
  }
  return out;
}

/// What the delegates of a program took and what it left: nodes and operators by origin.
Json partitions_json(const Module& m) {
  if (m.partitions.empty()) return Json::array();
  Json out = Json::array();
  for (const Partition& p : m.partitions)
    out.push_back(
        {{"name", p.name}, {"backend", p.backend}, {"bytes", p.bytes}, {"nodes", 0}, {"operators", Json::object()}});
  out.push_back(
      {{"name", "outside delegates"}, {"backend", ""}, {"bytes", 0}, {"nodes", 0}, {"operators", Json::object()}});
  for (const Graph& g : m.graphs)
    for (const Node& n : g.nodes) {
      Json& entry = out[n.partition < 0 ? m.partitions.size() : static_cast<size_t>(n.partition)];
      entry["nodes"] = entry["nodes"].get<int>() + 1;
      Json& count = entry["operators"][n.origin.empty() ? to_string(n.op) : n.origin];
      count = count.is_null() ? 1 : count.get<int>() + 1;
    }
  return out;
}

/// Operators by origin: how many, the constants that they read (one that several share counts once), what they run on.
Json operators_json(const Module& m, const Json& graphs) {
  Json out = Json::object();
  std::set<std::pair<std::string, const void*>> counted;
  for (size_t g = 0; g < m.graphs.size(); ++g)
    for (size_t i = 0; i < m.graphs[g].nodes.size(); ++i) {
      const Node& n = m.graphs[g].nodes[i];
      const std::string key = n.origin.empty() ? to_string(n.op) : n.origin;
      Json& entry = out[key];
      if (entry.is_null())
        entry = {{"count", 0}, {"weights_bytes", size_t{0}}, {"multiply_adds", 0.0}, {"runs_on", Json::object()}};
      const Json& node = graphs[g]["nodes"][i];
      entry["count"] = entry["count"].get<int>() + 1;
      entry["multiply_adds"] = entry["multiply_adds"].get<double>() + node["multiply_adds"].get<double>();
      size_t bytes = entry["weights_bytes"];
      for (ValueId id : n.inputs)
        if (const Value* v = id == kNoValue ? nullptr : &m.graphs[g].value(id); v && v->constant)
          if (counted.emplace(key, v->constant->identity()).second) bytes += v->constant->bytes();
      entry["weights_bytes"] = bytes;
      Json& on = entry["runs_on"][node["runs_on"].get<std::string>()];
      on = on.is_null() ? 1 : on.get<int>() + 1;
    }
  return out;
}

/// Operators that nobody implements, with counts.
Json unknown_operators(const Module& m) {
  Json out = Json::object();
  for (const Graph& g : m.graphs)
    for (const Node& n : g.nodes) {
      if (n.op != Op::kCustom || static_cast<const CustomAttrs&>(*n.attrs).op) continue;
      Json& count = out[static_cast<const CustomAttrs&>(*n.attrs).name];
      count = count.is_null() ? 1 : count.get<int>() + 1;
    }
  return out;
}

/// Sums over the nodes of all graphs, bodies once each, and the elements of all constants, shared ones once.
void add_totals(Json& out, const Module& m) {
  double multiply_adds = 0, moved = 0;
  for (const Json& g : out["graphs"])
    for (const Json& n : g["nodes"]) {
      multiply_adds += n["multiply_adds"].get<double>();
      moved += n["moved_bytes"].get<double>();
    }
  int64_t parameters = 0;
  std::set<const void*> counted;
  for (const Graph& g : m.graphs)
    for (const Value& v : g.values)
      if (v.constant && v.constant->identity() && counted.insert(v.constant->identity()).second)
        parameters += v.constant->elements();
  out["multiply_adds"] = multiply_adds;
  out["moved_bytes"] = moved;
  out["parameters"] = parameters;
}

Json parts_json(const Module& m) {
  Json out = Json::array();
  for (const FilePart& p : m.parts)
    out.push_back({{"name", p.name}, {"count", p.count}, {"bytes", p.bytes}, {"outside", p.outside}});
  return out;
}

Json state_json(const StateVar& s) {
  Json out = {{"name", s.name}, {"type", s.type.str()}, {"initial", s.initial.none() ? "zeros" : "given"}};
  if (s.type.is_static()) out["bytes"] = Tensor::byte_size(s.type.dtype, s.type.shape.elements());
  return out;
}

Json port_json(const Graph& g, ValueId id) { return id == kNoValue ? Json(nullptr) : value_json(g.value(id)); }

/// The shape that an input with unknown dimensions is planned with, and which of its sizes are assumptions.
void add_planned_shape(Json& port, const Graph& g, ValueId id, const Dimensions& dimensions) {
  if (id == kNoValue || g.value(id).type.shape.is_static()) return;
  const Value& v = g.value(id);
  const Port p = port_of(v);
  std::string assumed;
  const Shape shape = dimensions.shape(p, &assumed);
  port["planned_shape"] = std::vector<int64_t>(shape.begin(), shape.end());
  port["dimensions"] = dimension_sizes(p, shape, assumed);
}

/// The module as runs that override no default see it: inputs with defaults are constants there.
std::shared_ptr<const Module> with_defaults(std::shared_ptr<const Module> module) {
  auto copy = std::make_shared<Module>(*module);
  bool changed = false;
  for (const Method& method : copy->methods) {
    Graph& g = copy->graphs[static_cast<size_t>(method.graph)];
    changed |= std::erase_if(g.inputs, [&](ValueId id) { return id != kNoValue && g.value(id).constant; }) > 0;
  }
  return changed ? std::shared_ptr<const Module>(std::move(copy)) : module;
}

/// The module as it is planned: kernels need not make what nobody reads. Nodes keep their indices.
std::shared_ptr<const Module> without_unread_outputs(const Module& module) {
  auto copy = std::make_shared<Module>(module);
  for (Graph& g : copy->graphs) drop_unread_outputs(g);
  return copy;
}

Result<std::shared_ptr<const Module>> described(const Model& model, const std::vector<OpenBackend>& backends,
                                                const SessionOptions& on, bool optimised) {
  const GraphRequirements required = requirements(backends, on);
  if (optimised && !backends.empty()) return ModelAccess::compiled(model)->module(InputDefaults::kConstant, required);
  return legalized(with_defaults(ModelAccess::module(model)), required);
}

}  // namespace

Result<Json> describe_model(const Model& model, const SessionOptions& on, const DimensionOptions& sizes, bool optimised,
                            std::shared_ptr<const Module>* shown, const FileAttributes* stated) {
  std::vector<Port> ports;
  for (const std::string& method : model.methods())
    for (Port& p : model.inputs(method)) ports.push_back(std::move(p));
  SMELT_ASSIGN(const Dimensions dimensions, Dimensions::parse(sizes, ports));
  SMELT_ASSIGN(const auto backends, open_backends(on));
  SMELT_ASSIGN(const auto module, described(model, backends, on, optimised));
  if (shown) *shown = module;
  const Module& m = *module;
  SessionOptions options;
  options.backend = on.backend;
  options.device_storage = on.device_storage;
  options.fp16 = on.fp16;
  options.limit_memory = size_t{1} << 40;  // the arena is laid out, never touched
  std::vector<std::shared_ptr<BackendModel>> models;
  for (const OpenBackend& b : backends) models.push_back(b.backend->make_model(b.device, CompileMode::kDry));
  PlannedEnvironment env(without_unread_outputs(m), options, std::move(models), CompileMode::kDry);
  env.control.begin(options, env.size, {});
  Json methods = Json::array(), graphs = Json::array(), states = Json::array();
  for (const Method& method : m.methods) {
    const Graph& g = module_of(model).graphs[static_cast<size_t>(method.graph)];
    Json in = Json::array(), out = Json::array();
    for (ValueId id : g.inputs) {
      in.push_back(port_json(g, id));
      add_planned_shape(in.back(), g, id, dimensions);
    }
    for (ValueId id : g.outputs) out.push_back(port_json(g, id));
    methods.push_back({{"name", method.name}, {"graph", method.graph}, {"inputs", in}, {"outputs", out}});
    if (!method.refusal.empty()) methods.back()["refusal"] = method.refusal;
    if (!method.planned.empty()) methods.back()["planned_bytes"] = method.planned;
  }
  std::set<const void*> counted;
  size_t weights = 0, nodes = 0;
  std::set<int> entries;
  for (const Method& method : m.methods) entries.insert(method.graph);
  for (size_t i = 0; i < m.graphs.size(); ++i) {
    // A body is planned when it is called, for the inputs that it gets: those that it states, if it states them all.
    Placement p;
    const bool entry = entries.count(static_cast<int>(i)) > 0;
    if (entry || has_static_inputs(m.graphs[i])) p = place(env, static_cast<int>(i), m.graphs[i], dimensions);
    if (!entry && !p.plan) p = {.problem = "planned when called", .unplaced = "when called"};
    graphs.push_back(graph_json(m, i, p, stated, counted, weights));
    graphs.back()["inputs"] = (optimised ? m : module_of(model)).graphs[i].inputs;
    nodes += m.graphs[i].nodes.size();
  }
  for (const StateVar& s : m.states) states.push_back(state_json(s));
  Json metadata = Json::object(), files = Json::array();
  for (const auto& [key, value] : m.metadata) metadata[key] = value;
  for (const auto& [name, lines] : m.text_files)
    files.push_back({{"name", name}, {"lines", lines.size()}, {"first", lines.empty() ? "" : lines[0]}});
  Json out = {{"file", m.name},
              {"format", m.format},
              {"producer", m.producer},
              {"file_bytes", m.file.size()},
              {"weights_bytes", weights},
              {"nodes", nodes},
              {"methods", methods},
              {"states", states},
              {"partitions", partitions_json(m)},
              {"parts", parts_json(m)},
              {"metadata", metadata},
              {"associated_files", files},
              {"operators", operators_json(m, graphs)},
              {"graphs", graphs},
              {"isa", env.isa()}};
  add_totals(out, m);
  if (Json unknown = unknown_operators(m); !unknown.empty()) out["unknown_operators"] = std::move(unknown);
  Json norms = Json::object();
  for (const auto& [index, n] : m.normalization) norms[Cat(index)] = {{"mean", n.mean}, {"std", n.std}};
  if (!norms.empty()) out["normalization"] = norms;
  return out;
}

}  // namespace smelt::cli
