#include "cli/graphviz.h"

#include <map>

#include "base/cat.h"

namespace smelt::cli {
namespace {

std::string quoted_label(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void append_graph(std::string& out, const Json& g, size_t index) {
  const auto label = [](const std::string& text) { return Cat(" [label=", quoted_label(text), "]"); };
  std::map<int, std::string> source;  // of each value: the vertex that makes it
  out += Cat("  subgraph cluster_", index, " {\n    label=", quoted_label(g["name"]), ";\n");
  const auto add_port = [&](const Json& id, const char* kind, size_t k, bool makes) {
    if (id.get<int>() < 0) return;
    const Json& v = g["values"][id.get<size_t>()];
    const std::string vertex = Cat("g", index, kind, k);
    out += Cat("    ", vertex, " [shape=oval, label=", quoted_label(v["name"]), "];\n");
    if (makes)
      source[id.get<int>()] = vertex;
    else if (const auto from = source.find(id.get<int>()); from != source.end())
      out += Cat("    ", from->second, " -> ", vertex, label(v["type"]), ";\n");
  };
  for (size_t k = 0; k < g["inputs"].size(); ++k) add_port(g["inputs"][k], "in", k, true);
  for (size_t k = 0; k < g["nodes"].size(); ++k) {
    const Json& n = g["nodes"][k];
    const std::string vertex = Cat("g", index, "n", k);
    const std::string origin = n["origin"];
    out += Cat("    ", vertex, label(origin.empty() ? n["op"].get<std::string>() : origin), ";\n");
    for (const Json& id : n["inputs"])
      if (const auto from = source.find(id.get<int>()); from != source.end())
        out += Cat("    ", from->second, " -> ", vertex, label(g["values"][id.get<size_t>()]["type"]), ";\n");
    for (const Json& id : n["outputs"]) source[id.get<int>()] = vertex;
  }
  for (size_t k = 0; k < g["outputs"].size(); ++k) add_port(g["outputs"][k], "out", k, false);
  out += "  }\n";
}

}  // namespace

std::string graph_dot(const Json& description) {
  std::string out = Cat("digraph ", quoted_label(description["file"]), " {\n  node [shape=box, fontname=Helvetica];\n");
  for (size_t i = 0; i < description["graphs"].size(); ++i) append_graph(out, description["graphs"][i], i);
  return out + "}\n";
}

}  // namespace smelt::cli
