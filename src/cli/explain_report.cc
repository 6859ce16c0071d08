#include "cli/explain_report.h"

#include <algorithm>
#include <map>

#include "cli/common.h"
#include "cli/output.h"
#include "cli/trace_event.h"

namespace smelt::cli {
namespace {

std::string name_of_node(const Json& n) {
  const std::string name = n.value("name", "");
  return name.empty() ? n.value("where", "") : name;
}

/// Nodes, weights and time of each operator inside a delegate.
Json delegates(const Json& file, const Json& run, const Json& nodes) {
  Json out = Json::array();
  for (size_t p = 0; p < file["partitions"].size(); ++p) {
    const Json& partition = file["partitions"][p];
    if (partition["backend"].get<std::string>().empty()) continue;  // what no delegate took
    Json operators = Json::object();
    const auto entry = [&operators](const Json& name) -> Json& {
      Json& found = operators[name.get<std::string>()];
      if (found.is_null()) found = {{"count", 0}};
      return found;
    };
    for (const Json& n : nodes) {
      if (n["partition"].get<int>() != static_cast<int>(p)) continue;
      Json& o = entry(n["operator"]);
      o["count"] = o["count"].get<int>() + 1;
    }
    for (const Json& n : run["nodes"]) {
      if (n["partition"].get<int>() != static_cast<int>(p)) continue;
      Json& o = entry(n["origin"]);
      o["weights_bytes"] = o.value("weights_bytes", size_t{0}) + n["weights_bytes"].get<size_t>();
      o["moved_bytes"] = o.value("moved_bytes", size_t{0}) + n["moved_bytes"].get<size_t>();
      if (n.contains("micros")) o["micros"] = o.value("micros", 0.0) + n["micros"].get<double>();
    }
    out.push_back({{"name", partition["name"]},
                   {"backend", partition["backend"]},
                   {"bytes", partition["bytes"]},
                   {"operators", operators}});
  }
  return out;
}

std::string became_text(const Json& n, const Json& steps) {
  const std::string became = n["became"];
  if (became == "itself" || n["into"].empty()) return became == "itself" ? "" : became;
  std::string into;
  constexpr size_t kShown = 2;
  for (size_t i = 0; i < std::min<size_t>(n["into"].size(), kShown); ++i)
    into += formatted("{}{}", i > 0 ? ", " : "", n["into"][i].get<size_t>());
  if (n["into"].size() > kShown) into += ", ...";
  const std::string op = steps[n["into"][0].get<size_t>()]["op"];
  return became == "fused" ? formatted("fused into {} {}", op, into) : formatted("{}: {} {}", became, op, into);
}

std::string kernels(const Json& n) {
  std::string out;
  for (const Json& s : n["steps"]) {
    const std::string kernel = s["kernel"];
    if (out.find(kernel) == std::string::npos) out += (out.empty() ? "" : " + ") + kernel;
    if (s.contains("with")) out += formatted(" with {}", s["with"].get<size_t>());
  }
  return out.empty() ? n["runs_on"].get<std::string>() : out;
}

std::string reasons(const Json& n) {
  for (const Json& s : n["steps"]) {
    if (s.contains("refused")) return s["refused"];
    if (s.contains("host_reason")) return s["host_reason"];
  }
  return "";
}

}  // namespace

StepTrace trace_of(const PlannedEnvironment& env, const Plan& plan) {
  StepTrace out;
  std::map<ValueId, StepTrace::Lifetime> lives;
  const char* base = nullptr;
  const auto values = plan.values();
  for (const Step& s : plan.steps()) {
    out.steps.push_back({s.node->name.empty() ? s.node->origin : s.node->name, env.kernel_of(s),
                         s.calls > 0 ? s.micros / static_cast<double>(s.calls) : 0});
    const size_t k = out.steps.size() - 1;
    for (const ValueId id : s.node->outputs) {
      if (id == kNoValue) continue;
      const Datum& d = values[static_cast<size_t>(id)];
      // What the plan laid out has no owner: neither views of inputs nor values on the heap.
      if (!d.is_tensor() || d.tensor.owner() || !d.tensor.raw() || s.is<AliasStep>()) continue;
      const char* at = d.tensor.data<char>();
      base = base && base < at ? base : at;
      lives[id] = {plan.graph().value(id).name, reinterpret_cast<uintptr_t>(at), d.tensor.bytes(), k, k};
    }
    for (const ValueId id : s.node->inputs)
      if (const auto it = lives.find(id); it != lives.end()) it->second.last = k;
  }
  for (auto& [id, l] : lives) {
    l.offset -= reinterpret_cast<uintptr_t>(base);
    out.lifetimes.push_back(std::move(l));
  }
  return out;
}

Json trace_json(const StepTrace& t) {
  Json events = Json::array();
  std::vector<int64_t> start;  // of each step, and the end of the last, in nanoseconds
  double now = 0;
  for (const StepTrace::Step& s : t.steps) {
    start.push_back(nanoseconds(now));
    now += s.micros > 0 ? s.micros : 1;
    events.push_back(
        slice_event(s.name, start.back(), nanoseconds(now), 1, 1, {{"kernel", s.kernel}, {"measured", s.micros > 0}}));
    events.back()["cat"] = "step";
  }
  start.push_back(nanoseconds(now));
  std::map<int64_t, int64_t> changes;
  int lane = 2;
  for (const StepTrace::Lifetime& l : t.lifetimes) {
    const int64_t begin = start[l.first], end = start[l.last + 1];
    events.push_back(slice_event(l.name, begin, end, 2, lane++, {{"offset", l.offset}, {"bytes", l.bytes}}));
    events.back()["cat"] = "arena";
    changes[begin] += static_cast<int64_t>(l.bytes);
    changes[end] -= static_cast<int64_t>(l.bytes);
  }
  int64_t held = 0;
  for (const auto& [at, change] : changes) {
    held += change;
    events.push_back(
        {{"name", "arena bytes"}, {"ph", "C"}, {"ts", event_micros(at)}, {"pid", 2}, {"args", {{"bytes", held}}}});
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

Json explanation(const ExplanationHead& head, const Json& file, const Json& run, Json nodes) {
  Json steps = Json::array();
  for (const Json& n : run["nodes"]) {
    Json s = {{"op", n["op"]},
              {"operator", n["origin"]},
              {"name", n["name"]},
              {"where", n["where"]},
              {"runs_on", n["runs_on"]},
              {"steps", n.contains("steps") ? n["steps"] : Json::array()},
              {"multiply_adds", n["multiply_adds"]},
              {"moved_bytes", n["moved_bytes"]},
              {"weights_bytes", n["weights_bytes"]},
              {"result_bytes", n.value("result_bytes", size_t{0})},
              {"partition", n["partition"]}};
    if (n.contains("micros")) s["micros"] = n["micros"];
    steps.push_back(std::move(s));
  }
  Json out = {{"file", file["file"]},
              {"format", file["format"]},
              {"backend", head.backend},
              {"isa", file["isa"]},
              {"timed", head.timed},
              {"graph", run["name"]},
              {"nodes", nodes},
              {"runs", steps},
              {"weights_bytes", file["weights_bytes"]},
              {"delegates", delegates(file, run, nodes)}};
  for (const char* key : {"arena_bytes", "arena_lower_bound", "plan_error"})
    if (run.contains(key)) out[key] = run[key];
  return out;
}

void print_explanation(const Json& e) {
  say("{}: {}, {} nodes in the file, {} run on {} ({})\n\n", printable(e["file"]), e["format"].get<std::string>(),
      e["nodes"].size(), e["runs"].size(), e["backend"].get<std::string>(), e["isa"].get<std::string>());
  if (e.contains("plan_error")) say("no plan: {}\n\n", printable(e["plan_error"]));
  Table file({"#", "operator", "name", "became"});
  for (size_t k = 0; k < e["nodes"].size(); ++k) {
    const Json& n = e["nodes"][k];
    file.row({formatted("{}", k), n["operator"], name_of_node(n), became_text(n, e["runs"])});
  }
  put(file.str({0}, 50));
  say("\nwhat runs\n");
  const bool timed = e["timed"];
  double total = 0;
  for (const Json& n : e["runs"]) total += n.value("micros", 0.0);
  std::vector<std::string> header{"#", "op", "name", "kernel", "MACs", "moved", "weights"};
  if (timed) header.insert(header.end(), {"time", "share"});
  header.emplace_back("why not faster");
  Table runs(header);
  for (size_t k = 0; k < e["runs"].size(); ++k) {
    const Json& n = e["runs"][k];
    const auto bytes = [&](const char* key) { return n[key] == 0 ? "" : human_bytes(n[key].get<double>()); };
    std::vector<std::string> row{formatted("{}", k),
                                 n["op"],
                                 name_of_node(n),
                                 kernels(n),
                                 n["multiply_adds"] == 0 ? "" : human_count(n["multiply_adds"].get<double>()),
                                 bytes("moved_bytes"),
                                 bytes("weights_bytes")};
    if (timed) {
      const double t = n.value("micros", 0.0);
      row.push_back(formatted("{:.1f} us", t));
      row.push_back(total > 0 ? formatted("{:.1f} %", 100 * t / total) : "");
    }
    row.push_back(reasons(n));
    runs.row(row);
  }
  put(runs.str({0, 4, 5, 6, 7, 8}, 50));
  for (const Json& d : e["delegates"]) {
    say("\n{} ({}, {})\n", printable(d["name"]), d["backend"].get<std::string>(),
        human_bytes(d["bytes"].get<double>()));
    Table inside({"operator", "count", "weights", "moved", "time"});
    for (const auto& [op, o] : d["operators"].items())
      inside.row({op, formatted("{}", o["count"].get<int>()), human_bytes(o.value("weights_bytes", 0.0)),
                  human_bytes(o.value("moved_bytes", 0.0)),
                  o.contains("micros") ? formatted("{:.1f} us", o["micros"].get<double>()) : ""});
    put(inside.str({1, 2, 3, 4}, 50));
  }
  if (e.contains("arena_bytes"))
    say("\nactivations {} (lower bound {}), weights {}{}\n", human_bytes(e["arena_bytes"].get<double>()),
        human_bytes(e["arena_lower_bound"].get<double>()), human_bytes(e["weights_bytes"].get<double>()),
        timed ? formatted(", {:.1f} us a run in nodes", total) : "");
}

}  // namespace smelt::cli
