#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/cat.h"
#include "base/error.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/graphviz.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page.h"
#include "cli/report.h"
#include "runtime/model_access.h"

namespace smelt::cli {
namespace {

struct InspectOptions {
  std::string model, html, profile, node;
  Target target;
  std::vector<std::string> data, tolerate, custom_operators;
  DimensionOptions dimensions;
  std::string dot;
  bool as_json = false, nodes = false, optimised = false;
};

double number(const Json& j, const char* key) { return j.value(key, 0.0); }

void print_ports(const char* title, const Json& ports) {
  if (ports.empty()) return;
  Table table({title, "type"});
  size_t defaults = 0;
  for (const auto& p : ports) {
    if (p.is_null()) continue;
    if (p.contains("constant_bytes") && ports.size() > 16) {
      ++defaults;
      continue;
    }
    std::string type = p["type"];
    if (p.contains("bound")) type += formatted(" up to {}", p["bound"].dump());
    if (p.contains("initial")) type += formatted(", {}", p["initial"].get<std::string>());
    if (p.contains("dim_names"))
      for (const auto& d : p["dim_names"])
        if (!d.get<std::string>().empty()) type += " " + d.get<std::string>();
    if (p.contains("dimensions")) type += formatted(", shown for {}", p["dimensions"].get<std::string>());
    table.row({p["name"], type});
  }
  put(table.str({}, 70));
  say("{}\n", defaults > 0 ? formatted("and {} with default values\n", defaults) : "");
}

void print_operators(const Json& r) {
  std::vector<std::pair<std::string, Json>> operators;
  for (const auto& [name, entry] : r["operators"].items()) operators.emplace_back(name, entry);
  std::stable_sort(operators.begin(), operators.end(), [](const auto& a, const auto& b) {
    return a.second["count"].template get<int>() > b.second["count"].template get<int>();
  });
  const double weights = std::max(number(r, "weights_bytes"), 1.0);
  Table table({"operator", "count", "MACs", "weights", "share", "runs on"});
  for (const auto& [name, e] : operators) {
    std::string on;
    for (const auto& [kernel, count] : e["runs_on"].items())
      on += formatted("{}{} x{}", on.empty() ? "" : ", ", kernel, count.get<int>());
    const double bytes = number(e, "weights_bytes");
    const double macs = number(e, "multiply_adds");
    table.row({name, formatted("{}", e["count"].get<int>()), macs > 0 ? human_count(macs) : "",
               bytes > 0 ? human_bytes(bytes) : "", bytes > 0 ? formatted("{:.1f} %", 100 * bytes / weights) : "", on});
  }
  put(table.str({1, 2, 3, 4}, 60));
}

/// What delegates took and what runs outside them.
void print_partitions(const Json& r) {
  if (r["partitions"].empty()) return;
  Table table({"delegate", "backend", "blob", "nodes", "operators"});
  for (const auto& p : r["partitions"]) {
    std::vector<std::pair<int, std::string>> counts;
    for (const auto& [name, count] : p["operators"].items()) counts.emplace_back(-count.get<int>(), name);
    std::sort(counts.begin(), counts.end());
    std::string operators;
    for (const auto& [count, name] : counts)
      operators += formatted("{}{} x{}", operators.empty() ? "" : ", ", name, -count);
    table.row({p["name"], p["backend"], number(p, "bytes") > 0 ? human_bytes(number(p, "bytes")) : "",
               formatted("{}", p["nodes"].get<int>()), operators});
  }
  say("\n{}", table.str({2, 3}, 100));
}

/// What the bytes of the file are for.
void print_parts(const Json& r) {
  if (r["parts"].empty()) return;
  const double total = std::max(number(r, "file_bytes"), 1.0);
  Table table({"part", "count", "size", "share"});
  for (const auto& p : r["parts"])
    table.row({p["name"], formatted("{}", p["count"].get<size_t>()), human_bytes(number(p, "bytes")),
               p["outside"].get<bool>() ? "" : formatted("{:.1f} %", 100 * number(p, "bytes") / total)});
  say("\n{}", table.str({1, 2, 3}, 60));
}

/// The activations of each method: ours, and what the file plans.
void print_memory(const Json& r) {
  say("\n");
  for (const auto& m : r["methods"]) {
    const std::string label = r["methods"].size() > 1 ? formatted("{}: ", printable(m["name"])) : "";
    const auto& g = r["graphs"][m["graph"].get<size_t>()];
    if (m.contains("refusal"))
      say("{}can't run\n", label);
    else if (g.contains("plan_error"))
      say("{}no plan for unknown dimensions at their bound or 1: {}\n", label, printable(g["plan_error"]));
    else
      say("{}activations {} (lower bound {})\n", label, human_bytes(number(g, "arena_bytes")),
          human_bytes(number(g, "arena_lower_bound")));
    if (!m.contains("planned_bytes")) continue;
    std::string buffers;
    for (const auto& bytes : m["planned_bytes"])
      buffers += formatted("{}{}", buffers.empty() ? "" : " + ", human_bytes(bytes.get<double>()));
    say("{}the file plans {}\n", label, buffers);
  }
}

/// Names of a node's inputs; small constants by their values.
std::string operands(const Json& graph, const Json& node) {
  constexpr size_t kShown = 4;
  std::string out;
  for (const Json& id : node["inputs"]) {
    if (!out.empty()) out += ", ";
    if (id.get<int>() < 0) {
      out += "-";
      continue;
    }
    const Json& v = graph["values"][id.get<size_t>()];
    const bool small = v.contains("constant") && v["constant"].size() <= kShown;
    const std::string name = v["name"];
    out += small          ? v["constant"].size() == 1 ? v["constant"][0].dump() : v["constant"].dump()
                    : name.empty() ? Cat("%", id.get<int>())
                          : name;
  }
  return out;
}

void print_nodes(const Json& r) {
  for (const auto& g : r["graphs"]) {
    say("\ngraph {}\n", printable(g["name"]));
    std::vector<std::string> header{"#", "operator", "graph operator", "output", "MACs", "runs on"};
    const bool device =
        std::any_of(g["nodes"].begin(), g["nodes"].end(), [](const Json& n) { return n.contains("storage"); });
    if (device) header.emplace_back("storage");
    if (!r["partitions"].empty()) header.emplace_back("delegate");
    header.emplace_back("inputs");
    Table table(header);
    int i = 0;
    for (const auto& n : g["nodes"]) {
      const int first = n["outputs"].empty() ? -1 : n["outputs"][0].get<int>();
      const std::string type = first < 0 ? "" : g["values"][static_cast<size_t>(first)]["type"].get<std::string>();
      const double macs = number(n, "multiply_adds");
      const int part = n["partition"];
      const std::string delegate =
          part < 0 ? "" : r["partitions"][static_cast<size_t>(part)]["name"].get<std::string>();
      std::vector<std::string> row{Cat(i++),    n["origin"], n["op"], type, macs > 0 ? human_count(macs) : "",
                                   n["runs_on"]};
      if (device) row.push_back(n.value("storage", ""));
      if (!r["partitions"].empty()) row.push_back(delegate);
      row.push_back(operands(g, n));
      table.row(row);
    }
    put(table.str({0, 4}, 50));
  }
}

/// The node that --node names: an index in the first method's graph, or a name in any graph.
Result<std::pair<size_t, size_t>> find_node(const Json& r, const std::string& wanted) {
  const Json& graphs = r["graphs"];
  const size_t first = r["methods"][0]["graph"];
  if (!wanted.empty() && wanted.find_first_not_of("0123456789") == std::string::npos) {
    const size_t count = graphs[first]["nodes"].size();
    if (wanted.size() < 10 && std::stoul(wanted) < count) return std::pair(first, size_t{std::stoul(wanted)});
    return InvalidInput("there is no node ", wanted, ", the graph has ", count);
  }
  std::vector<std::string> names;
  for (size_t g = 0; g < graphs.size(); ++g)
    for (size_t i = 0; i < graphs[g]["nodes"].size(); ++i) {
      names.push_back(graphs[g]["nodes"][i]["name"]);
      if (names.back() == wanted) return std::pair(g, i);
    }
  std::erase(names, "");
  return InvalidInput(not_among("node", wanted, names));
}

void print_attributes(const char* title, const Json& attributes) {
  if (attributes.empty()) return;
  Table table({title, ""});
  for (const auto& [name, value] : attributes.items()) table.row({name, value.dump()});
  say("\n{}", table.str({}, 100));
}

/// Everything that the description says about one node.
void print_node(const Json& r, size_t graph, size_t index) {
  const Json& g = r["graphs"][graph];
  const Json& n = g["nodes"][index];
  const int part = n["partition"];
  Table facts({Cat("node ", index), n["origin"]});
  const auto fact = [&](const char* name, const std::string& text) {
    if (!text.empty()) facts.row({name, text});
  };
  fact("name", n["name"]);
  fact("graph", g["name"]);
  fact("where", n["where"]);
  fact("graph operator", n["op"]);
  fact("delegate", part < 0 ? "" : r["partitions"][static_cast<size_t>(part)]["name"].get<std::string>());
  fact("runs on", n["runs_on"]);
  fact("storage", n.value("storage", ""));
  fact("on the host", n.value("host_reason", ""));
  fact("MACs", number(n, "multiply_adds") > 0 ? human_count(number(n, "multiply_adds")) : "");
  fact("weights", number(n, "weights_bytes") > 0 ? human_bytes(number(n, "weights_bytes")) : "");
  fact("reads and writes", human_bytes(number(n, "moved_bytes")));
  put(facts.str({}, 100));
  for (const char* side : {"inputs", "outputs"}) {
    if (n[side].empty()) continue;
    Table table({side, "type"});
    for (const Json& id : n[side]) {
      if (id.get<int>() < 0) {
        table.row({"absent", ""});
        continue;
      }
      const Json& v = g["values"][id.get<size_t>()];
      const std::string name = v["name"];
      table.row({name.empty() ? Cat("%", id.get<int>()) : name,
                 v["type"].get<std::string>() + (v.contains("constant") ? " = " + v["constant"].dump() : "")});
    }
    say("\n{}", table.str({}, 100));
  }
  print_attributes("attributes in the file", n.value("file_attributes", Json::object()));
  print_attributes("attributes", n["attributes"]);
}

/// What runs on the device, and why the rest does not.
void print_device(const Json& graph) {
  if (!graph.contains("device")) return;
  const Json& d = graph["device"];
  std::map<std::string, size_t> host;
  size_t on_host = 0;
  for (const auto& n : graph["nodes"]) {
    if (!n.contains("host_reason")) continue;
    ++host[n["origin"].get<std::string>() + ": " + n["host_reason"].get<std::string>()];
    ++on_host;
  }
  say("device: {} nodes in {} segment{}, {} on the host; activations there {} (lower bound {})\n",
      d["nodes"].get<size_t>(), d["segments"].get<size_t>(), d["segments"] == 1 ? "" : "s", on_host,
      human_bytes(number(d, "arena_bytes")), human_bytes(number(d, "arena_lower_bound")));
  say("  copies a run: {} up ({}), {} down ({})\n", d["uploads"].get<size_t>(), human_bytes(number(d, "bytes_up")),
      d["downloads"].get<size_t>(), human_bytes(number(d, "bytes_down")));
  if (const auto n = d["conversions"].get<size_t>(); n > 0)
    say("  {} changes between buffer and texture or two textures a run\n", n);
  for (const auto& [what, count] : host) say("  on the host {} x {}\n", count, printable(what));
}

void print_text(const Json& r, bool nodes) {
  say("{}: {}, {}, {} node{}, weights {}\n", printable(r["file"]), r["format"].get<std::string>(),
      human_bytes(number(r, "file_bytes")), r["nodes"].get<size_t>(), r["nodes"] == 1 ? "" : "s",
      human_bytes(number(r, "weights_bytes")));
  if (!r["producer"].get<std::string>().empty()) say("{}\n", printable(r["producer"]));
  say("{} parameters, {} multiply-adds a run, nodes read and write {}\n", human_count(number(r, "parameters")),
      human_count(number(r, "multiply_adds")), human_bytes(number(r, "moved_bytes")));
  say("\n");
  for (const auto& m : r["methods"]) {
    if (r["methods"].size() > 1) say("method {}\n", printable(m["name"]));
    if (m.contains("refusal")) say("can't run: {}\n", printable(m["refusal"]));
    print_ports("input", m["inputs"]);
    print_ports("output", m["outputs"]);
  }
  print_ports("variable", r["states"]);
  print_operators(r);
  print_partitions(r);
  print_parts(r);
  print_memory(r);
  print_device(r["graphs"][r["methods"][0]["graph"].get<size_t>()]);
  for (const auto& [key, value] : r["metadata"].items()) say("{}: {}\n", printable(key), printable(value));
  for (const auto& f : r["associated_files"])
    say("associated file {}: {} lines\n", printable(f["name"]), f["lines"].get<size_t>());
  if (r.contains("normalization"))
    for (const auto& [index, n] : r["normalization"].items())
      say("input {}: (pixel - {}) / {}\n", index, n["mean"].dump(), n["std"].dump());
  if (nodes) print_nodes(r);
}

void complain_of_unknown(const Json& unknown) {
  std::string names;
  for (const auto& [name, count] : unknown.items())
    names += formatted("{}{} x{}", names.empty() ? "" : ", ", name, count.get<int>());
  complain(formatted("no run of this model is possible, nobody implements {}", names));
}

Status inspect(const InspectOptions& o) {
  if (o.html == "-" || o.dot == "-") reserve_standard_output();
  SMELT_ASSIGN(LoadOptions load, load_options(o.data, o.tolerate, o.custom_operators));
  load.tolerate.emplace_back("unknown-operator");
  FileAttributes stated;
  const FileAttributes::Scope recording(stated);
  SMELT_ASSIGN(const Model model, load_model(o.model, load));
  stated.finish(module_of(model));
  SessionOptions on;
  o.target.apply(on);
  SMELT_ASSIGN(const Json r, describe_model(model, on, o.dimensions, o.optimised, nullptr, &stated));
  if (r.contains("unknown_operators")) complain_of_unknown(r["unknown_operators"]);
  if (!o.dot.empty()) SMELT_TRY(write_result(o.dot, {graph_dot(r)}));
  if (!o.html.empty()) {
    PageOptions page{.optimised = o.optimised, .stated = &stated};
    if (!o.profile.empty()) {
      SMELT_ASSIGN(page.profile, read_json(o.profile));
    }
    SMELT_ASSIGN(const std::string text, inspect_page(model, on, o.dimensions, page));
    SMELT_TRY(write_result(o.html, {text}));
    if (!o.as_json) say("{}: open it in a browser\n", o.html);
  }
  if (o.as_json) {
    put_json(r);
  } else if (!o.node.empty()) {
    SMELT_ASSIGN(const auto at, find_node(r, o.node));
    print_node(r, at.first, at.second);
  } else if (o.html.empty() && o.dot.empty()) {
    print_text(r, o.nodes);
  }
  return Ok();
}

}  // namespace

void add_inspect(Command app, int& status) {
  auto o = std::make_shared<InspectOptions>();
  Command c = app.add_subcommand("inspect", "Show a model's operators, types and the kernels that run its nodes");
  add_model(c, o->model).required();
  Option as_json = c.add_flag("-j,--json", o->as_json, "Print everything as one JSON object");
  Option html = c.add_option("--html", o->html, "Write a self-contained page that shows the graph").type_name("FILE");
  c.add_option("--profile", o->profile, "Colour the page's nodes by the times of a file of bench --profile")
      .type_name("FILE")
      .needs(html);
  Option dot = c.add_option("--dot", o->dot, "Write the graph in Graphviz's language").type_name("FILE");
  Option nodes = c.add_flag("--nodes", o->nodes, "List every node");
  nodes.excludes(as_json).excludes(html).excludes(dot);
  c.add_option("--node", o->node,
               "Show one node whole, with its attributes as the file states them: its index, or its name")
      .type_name("N|NAME")
      .excludes(as_json)
      .excludes(html)
      .excludes(dot)
      .excludes(nodes);
  add_dimensions(c, o->dimensions);
  c.add_flag("--optimised,--optimized", o->optimised,
             "Show the optimised graph that runs execute instead of the file's: nodes fused, constants folded");
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  add_custom_operators(c, o->custom_operators);
  add_target(c, o->target);
  c.footer(
      "Examples:\n  smelt inspect model.tflite --nodes --optimised\n  smelt inspect model.tflite --node 3\n  smelt "
      "inspect model.onnx --html model.html\n  "
      "smelt inspect model.onnx --dot - | dot -Tsvg > model.svg");
  c.callback([o, &status] { status = report(inspect(*o)); });
}

}  // namespace smelt::cli
