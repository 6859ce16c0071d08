#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/cat.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/explain_report.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "runtime/compiled.h"
#include "runtime/model_access.h"
#include "runtime/planned_environment.h"

namespace smelt::cli {
namespace {

struct ExplainOptions {
  std::string model, method, trace;
  Target target;
  InputOptions inputs;
  std::vector<std::string> data, tolerate;
  int threads = 1, runs = 10;
  bool as_json = false, timed = false;
};

using NodesByLocation = std::map<std::string, std::vector<size_t>>;  // location: in the file

/// Each delegate counts its own nodes.
std::string location_of(const Json& node) {
  const std::string where = node["where"];
  if (where.empty()) return node["name"];
  return Cat(node["partition"].get<int>(), ": ", where);
}

/// By value, the nodes that read it.
std::map<int, std::vector<size_t>> readers(const Json& nodes) {
  std::map<int, std::vector<size_t>> out;
  for (size_t k = 0; k < nodes.size(); ++k)
    for (const Json& id : nodes[k]["inputs"]) out[id.get<int>()].push_back(k);
  return out;
}

/// What became of the nodes of one graph of the file in the graph that runs.
class Fates {
 public:
  Fates(const Json& file_graph, const Json& run_graph)
      : file_(file_graph["nodes"]), run_(run_graph["nodes"]), readers_(readers(file_)) {
    for (size_t k = 0; k < run_.size(); ++k) by_location_[location_of(run_[k])].push_back(k);
    for (size_t k = 0; k < run_.size(); ++k) {
      if (run_[k]["origin"] == "layout") continue;
      for (const Json& id : run_[k]["outputs"])
        if (id.get<int>() >= 0) made_.emplace(run_graph["values"][id.get<size_t>()].value("read_as", id.get<int>()), k);
    }
  }
  /// {"became": "itself" | "several" | "fused" | "folded" | "removed", "into": [indices of nodes that run]}
  Json of(size_t k) const {
    const std::string location = location_of(file_[k]);
    const auto it = location.empty() ? by_location_.end() : by_location_.find(location);
    if (it != by_location_.end()) {
      // A node that was fused leaves its location to the one that took it in.
      std::vector<size_t> same;
      for (const size_t r : it->second)
        if (run_[r]["op"] == file_[k]["op"]) same.push_back(r);
      const auto& into = same.empty() ? it->second : same;
      return {{"became", into.size() > 1 ? "several" : same.empty() ? "rewritten" : "itself"}, {"into", into}};
    }
    for (const Json& id : file_[k]["outputs"])
      if (const auto maker = made_.find(id.get<int>()); maker != made_.end())
        return {{"became", "fused"}, {"into", {maker->second}}};
    const std::vector<size_t> into = downstream(k);
    if (into.empty()) return {{"became", file_[k].value("constant", false) ? "folded" : "removed"}, {"into", into}};
    return {{"became", folded(k) ? "folded" : "fused"}, {"into", into}};
  }

 private:
  /// True if all that the node reads is constant.
  bool folded(size_t k) const {
    return std::all_of(file_[k]["inputs"].begin(), file_[k]["inputs"].end(),
                       [&](const Json& id) { return id.get<int>() < 0 || constants_of(k).count(id.get<int>()) > 0; });
  }
  static std::set<int> list(const Json& ids) {
    std::set<int> out;
    for (const Json& id : ids) out.insert(id.get<int>());
    return out;
  }
  std::set<int> constants_of(size_t k) const {
    return file_[k].contains("constant_inputs") ? list(file_[k]["constant_inputs"]) : std::set<int>();
  }
  /// The nearest nodes behind this one that still run.
  std::vector<size_t> downstream(size_t from) const {
    std::set<size_t> seen{from}, found;
    std::vector<size_t> open{from};
    while (!open.empty()) {
      const size_t k = open.back();
      open.pop_back();
      for (const Json& id : file_[k]["outputs"]) {
        const auto users = readers_.find(id.get<int>());
        if (users == readers_.end()) continue;
        for (const size_t u : users->second) {
          const auto it = by_location_.find(location_of(file_[u]));
          if (it != by_location_.end())
            found.insert(it->second.begin(), it->second.end());
          else if (seen.insert(u).second)
            open.push_back(u);
        }
      }
    }
    return {found.begin(), found.end()};
  }

  const Json &file_, &run_;
  std::map<int, std::vector<size_t>> readers_;
  NodesByLocation by_location_;
  std::map<int, size_t> made_;  ///< by value of the file's graph: the node that makes it
};

/// Marks nodes of the file's graph whose computed operands are constants, and those operands.
void mark_constants(Json& graph) {
  std::set<int> constant;
  for (size_t i = 0; i < graph["values"].size(); ++i)
    if (graph["values"][i].contains("constant_bytes")) constant.insert(static_cast<int>(i));
  for (const Json& id : graph["inputs"]) constant.erase(id.get<int>());
  for (Json& n : graph["nodes"]) {
    Json constants = Json::array();
    bool all = !n["inputs"].empty();
    for (const Json& id : n["inputs"]) {
      if (constant.count(id.get<int>()) > 0)
        constants.push_back(id);
      else
        all = all && id.get<int>() < 0;
    }
    n["constant_inputs"] = constants;
    n["constant"] = all || n["runs_on"] == "folded";
    if (n["constant"].get<bool>())
      for (const Json& id : n["outputs"]) constant.insert(id.get<int>());
  }
}

/// Why the back-ends of the host do not run a node that the reference kernel runs; "": no reason is given.
std::string refusal(const PlannedEnvironment& env, const Plan& plan, const Step& step) {
  std::vector<ValueType> in, out;
  std::vector<const Tensor*> contents;
  const auto type = [&](ValueId id) { return id == kNoValue ? ValueType{} : plan.type(id); };
  for (const ValueId id : step.node->inputs) {
    in.push_back(type(id));
    contents.push_back(id == kNoValue ? nullptr : plan.graph().value(id).constant.get());
  }
  for (const ValueId id : step.node->outputs) {
    out.push_back(type(id));
    if (id != kNoValue && !out.back().is_static()) return "shapes depend on data";
  }
  for (const ValueType& t : in)
    if (t.dtype != DType::kInvalid && !t.is_static()) return "shapes depend on data";
  for (const auto& backend : env.backends()) {
    if (backend->memory() != MemorySpace::kHost) continue;
    std::string why;
    const auto compiler = backend->begin_plan([](size_t) { return Ok(); });
    if (compiler->prepare({{*step.node, in, contents, out}, ConstantLifetime::kPlan, ThreadUse::kAll}, &why)) return "";
    return why;
  }
  return "";
}

/// Runs the plan, adds kernels, reasons and times of its steps to the nodes of `graph`, and lists lifetimes.
Status add_steps(Json& graph, PlannedEnvironment& env, int index, const std::vector<Datum>& inputs,
                 const ExplainOptions& o, StepTrace& trace) {
  env.control.begin(env.options, env.size, inputs);
  for (int i = 0; o.timed && i < o.runs; ++i) {
    env.control.begin(env.options, env.size, inputs);
    env.reset_state();
    SMELT_TRY(env.call(index, inputs, 0));
  }
  SMELT_ASSIGN(const Plan* plan, env.plan_for(index, inputs, GraphRole::kEntry, ContentUse::kRead));
  const Graph& g = env.module->graphs[static_cast<size_t>(index)];
  for (const Step& s : plan->steps()) {
    const auto index_of = [&g](const Step& step) { return (step.part_of ? step.part_of : step.node) - g.nodes.data(); };
    Json& n = graph["nodes"][static_cast<size_t>(index_of(s))];
    Json step = {{"op", to_string(s.node->op)}, {"kernel", env.kernel_of(s)}};
    if (s.is<AliasStep>() || s.is<DeviceStep>()) step["kernel"] = "view";
    if (s.is<StateStep>()) step["kernel"] = "state";
    if (s.is<ReferenceStep>() || s.is<DynamicStep>())
      if (std::string why = refusal(env, *plan, s); !why.empty()) step["refused"] = why;
    if (!s.host_reason.empty()) step["host_reason"] = s.host_reason;
    if (s.joined >= 0) step["with"] = index_of(plan->steps()[static_cast<size_t>(s.joined)]);
    if (s.calls > 0) {
      step["micros"] = s.micros / static_cast<double>(s.calls);
      n["micros"] = n.value("micros", 0.0) + s.micros / static_cast<double>(s.calls);
    }
    n["steps"].push_back(std::move(step));
    for (const ValueId id : s.node->outputs)
      if (id != kNoValue && plan->type(id).is_static())
        n["result_bytes"] = n.value("result_bytes", size_t{0}) +
                            Tensor::byte_size(plan->type(id).dtype, plan->type(id).shape.elements());
  }
  trace = trace_of(env, *plan);
  graph["arena_bytes"] = plan->arena_bytes();
  graph["arena_lower_bound"] = plan->arena_lower_bound();
  return Ok();
}

Result<Json> explain_model(const ExplainOptions& o, const Model& model, StepTrace& trace) {
  SessionOptions on;
  o.target.apply(on);
  on.threads = thread_count(o.threads);
  on.profile = o.timed;
  SMELT_ASSIGN(Json file, describe_model(model, on, o.inputs.dimensions, false));
  SMELT_ASSIGN(Json run, describe_model(model, on, o.inputs.dimensions, true));
  const Method* method = module_of(model).find_method(o.method);
  if (!method) return InvalidInput("no method '", o.method, "'");
  const auto index = static_cast<size_t>(method->graph);
  Json &from = file["graphs"][index], &to = run["graphs"][index];
  mark_constants(from);
  SMELT_ASSIGN(const auto backends, open_backends(on));
  if (!backends.empty()) {
    SMELT_ASSIGN(const auto module,
                 ModelAccess::compiled(model)->module(InputDefaults::kConstant, requirements(backends, on)));
    PlannedEnvironment env(module, on, ModelAccess::compiled(model)->models(backends));
    SMELT_ASSIGN(const Inputs inputs, gather_inputs(model, o.method, o.inputs));
    std::vector<Datum> given;
    const Graph& read = module_of(model).graphs[index];
    for (size_t i = 0; i < inputs.values.size(); ++i)
      if (!read.value(read.inputs[i]).constant) given.push_back(inputs.values[i]);
    if (auto s = add_steps(to, env, method->graph, given, o, trace); !s.ok()) return inputs.explain(s.error());
  }
  const Fates fates(from, to);
  Json nodes = Json::array();
  for (size_t k = 0; k < from["nodes"].size(); ++k) {
    const Json& n = from["nodes"][k];
    Json fate = fates.of(k);
    if (n["constant"].get<bool>() && fate["became"] != "itself") fate["became"] = "folded";
    nodes.push_back({{"operator", n["origin"]},
                     {"op", n["op"]},
                     {"name", n["name"]},
                     {"where", n["where"]},
                     {"partition", n["partition"]},
                     {"became", fate["became"]},
                     {"into", fate["into"]}});
  }
  return explanation({o.target.backend, o.timed}, file, to, std::move(nodes));
}

Status explain(const ExplainOptions& o) {
  if (o.trace == "-") reserve_standard_output();
  SMELT_ASSIGN(const Model model, load_model(o.model, {.data_files = o.data, .tolerate = o.tolerate}));
  StepTrace trace;
  SMELT_ASSIGN(const Json e, explain_model(o, model, trace));
  if (!o.trace.empty()) SMELT_TRY(write_result(o.trace, {trace_json(trace).dump(), "\n"}));
  if (o.as_json)
    put_json(e);
  else
    print_explanation(e);
  return Ok();
}

}  // namespace

void add_explain(Command app, int& status) {
  auto o = std::make_shared<ExplainOptions>();
  Command c = app.add_subcommand("explain", "Show what became of each node of a file, what runs it and why");
  add_model(c, o->model);
  add_inputs(c, o->inputs);
  Option timed = c.add_flag("--time", o->timed, "Run the model and show the time of each node");
  c.add_option("--runs", o->runs, "Number of runs that are timed")
      .check(between(1, 100000))
      .needs(timed)
      .type_name("N")
      .default_shown();
  c.add_option("--trace", o->trace,
               "Write the steps and the lifetimes of values in the arena for chrome://tracing and Perfetto")
      .type_name("FILE");
  c.add_flag("-j,--json", o->as_json, "One JSON object");
  c.add_option("--method", o->method, "Method of a program").type_name("NAME");
  add_threads(c, o->threads);
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  add_seed(c, o->inputs.seed);
  add_target(c, o->target);
  c.footer("Examples:\n  smelt explain model.onnx\n  smelt explain model.pte --time --trace trace.json");
  c.callback([o, &status] {
    take_model(o->model, o->inputs.files);
    status = report(explain(*o));
  });
}

}  // namespace smelt::cli
