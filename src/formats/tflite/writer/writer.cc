#include "formats/common/writer.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "formats/format.h"
#include "formats/tflite/writer/file_layout.h"
#include "formats/tflite/writer/subgraph_writer.h"

namespace smelt {

extern const Format tflite_format;

namespace tflite {
namespace {

using formats::WriteOptions;
using formats::WriteResult;

/// Graphs in the order of subgraphs: the default method's first, since runtimes run subgraph 0.
std::vector<int> subgraph_order(const Module& module) {
  std::vector<int> graphs;
  const int first = module.methods.empty() ? 0 : module.methods[0].graph;
  graphs.push_back(first);
  for (int g = 0; g < static_cast<int>(module.graphs.size()); ++g)
    if (g != first) graphs.push_back(g);
  return graphs;
}

/// Removes tensors that nothing reads or gives: constants that were written in another order or type are among them.
void remove_unused(FileSubgraph& s) {
  std::vector<int> place(s.tensors.size(), -1);
  const auto all = [&](const auto& apply) {
    for (FileOperator& op : s.operators)
      for (auto* list : {&op.inputs, &op.outputs, &op.intermediates}) apply(*list);
    apply(s.inputs);
    apply(s.outputs);
  };
  all([&](const std::vector<int>& list) {
    for (const int t : list)
      if (t >= 0) place[static_cast<size_t>(t)] = 0;
  });
  int kept = 0;
  for (size_t t = 0; t < place.size(); ++t) {
    if (place[t] < 0) continue;
    place[t] = kept;
    if (static_cast<size_t>(kept) != t) s.tensors[static_cast<size_t>(kept)] = std::move(s.tensors[t]);
    ++kept;
  }
  s.tensors.resize(static_cast<size_t>(kept));
  all([&](std::vector<int>& list) {
    for (int& t : list)
      if (t >= 0) t = place[static_cast<size_t>(t)];
  });
}

/// Gives every tensor a name of its own.
void make_names_unique(FileSubgraph& s) {
  std::set<std::string> taken;
  for (FileTensor& t : s.tensors)
    if (!t.name.empty() && !taken.insert(t.name).second) t.name.clear();
  int next = 0;
  for (FileTensor& t : s.tensors)
    while (t.name.empty() || (t.name[0] == '#' && !taken.insert(t.name).second)) t.name = Cat("#", next++);
}

/// Fills in the shapes of tensors between operators, as the reader infers them from the file. Fails if the file can't
/// be read.
Status infer_shapes(const std::string& file, const std::string& name, std::vector<FileSubgraph>& subgraphs) {
  LoadOptions options;
  options.tolerate = {"all"};
  Source source{.bytes = std::as_bytes(std::span(file)), .owner = nullptr, .name = name, .options = &options};
  SMELT_ASSIGN(const Module module, tflite_format.load(source));
  for (size_t i = 0; i < subgraphs.size(); ++i) {
    std::map<std::string, const Value*> values;
    for (const Value& v : module.graphs[i].values) values.emplace(v.name, &v);
    for (FileTensor& t : subgraphs[i].tensors) {
      const auto at = values.find(t.name);
      if (t.ranked || at == values.end() || !at->second->type.ranked) continue;
      t.ranked = true;
      t.shape = at->second->type.shape;
    }
  }
  return Ok();
}

/// The names that a signature of the file which the module was read from gives to its tensors.
std::map<std::string, std::string> signature_names(const Module& module, const Method& method) {
  std::map<std::string, std::string> names;
  for (const auto& [key, text] : module.metadata)
    if (const size_t at = text.find(" = "); key == "signature " + method.name && at != std::string::npos)
      names[text.substr(at + 3)] = text.substr(0, at);
  return names;
}

std::vector<FileSignature> signatures_of(const Module& module, const std::vector<int>& order,
                                         const std::vector<FileSubgraph>& subgraphs) {
  std::vector<FileSignature> out;
  for (const Method& m : module.methods) {
    const auto names = signature_names(module, m);
    if (names.empty() && module.format == "tflite") continue;
    const auto at = static_cast<size_t>(std::ranges::find(order, m.graph) - order.begin());
    FileSignature s{.key = m.name, .subgraph = static_cast<int>(at)};
    const auto add = [&](const std::vector<int>& tensors, std::vector<std::string>& to) {
      for (const int t : tensors) {
        const std::string& name = subgraphs[at].tensors[static_cast<size_t>(t)].name;
        const auto given = names.find(name);
        to.push_back(given == names.end() ? name : given->second);
      }
    };
    add(subgraphs[at].inputs, s.inputs);
    add(subgraphs[at].outputs, s.outputs);
    out.push_back(std::move(s));
  }
  return out;
}

bool is_entry(const Module& module, int graph) {
  return std::ranges::any_of(module.methods, [&](const Method& m) { return m.graph == graph; });
}

Result<WriteResult> write(const Module& module, const WriteOptions& options) {
  std::vector<FileSubgraph> subgraphs(module.graphs.size());
  FileContext file{.module = module, .options = options, .subgraphs = subgraphs};
  file.prefer_int8 = module.format != "tflite";
  file.uint8 = file.prefer_int8 && keeps_uint8(module);
  file.order = subgraph_order(module);
  for (int state = 0; state < static_cast<int>(module.states.size()) && file.initializer < 0; ++state)
    if (has_first_contents(module, state)) file.initializer = static_cast<int>(module.graphs.size());
  if (file.initializer >= 0) {
    subgraphs.emplace_back();
    SubgraphWriter(file, file.initializer, Graph(), false).write_initializer();
  }
  for (const Method& m : module.methods)
    if (!m.refusal.empty()) file.missing.push_back({"method " + m.name, "", m.refusal});
  for (size_t i = 0; i < module.graphs.size(); ++i) {
    const int graph = file.order[i];
    SubgraphWriter(file, static_cast<int>(i), module.graphs[static_cast<size_t>(graph)], is_entry(module, graph))
        .write();
  }
  for (const FileLoop& loop : file.loops) finish_loop(file, loop);
  WriteResult result;
  result.missing = std::move(file.missing);
  if (!result.missing.empty()) return result;
  for (FileSubgraph& s : subgraphs) {
    remove_unused(s);
    make_names_unique(s);
  }
  const auto signatures = signatures_of(module, file.order, subgraphs);
  SMELT_ASSIGN(const std::string draft, lay_out(module, subgraphs, signatures));
  if (auto s = infer_shapes(draft, module.name, subgraphs); !s.ok()) return s.error().within("the written file");
  SMELT_ASSIGN(std::string bytes, lay_out(module, subgraphs, signatures));
  formats::WrittenFile written;
  written.bytes.append(std::move(bytes));
  result.files.push_back(std::move(written));
  return result;
}

bool can_write(const Module& module, const Graph& graph, const Node& node, const WriteOptions& options) {
  std::vector<FileSubgraph> subgraphs(1);
  FileContext file{.module = module, .options = options, .subgraphs = subgraphs};
  file.prefer_int8 = module.format != "tflite";
  const auto is_uint8 = [&](ValueId id) { return id != kNoValue && graph.value(id).type.dtype == DType::kU8; };
  if (file.prefer_int8 && std::ranges::any_of(node.inputs, is_uint8)) file.uint8 = keeps_uint8(module);
  file.order = subgraph_order(module);
  return SubgraphWriter(file, 0, graph, false).try_node(node);
}

}  // namespace
}  // namespace tflite

namespace formats {
extern const Writer tflite_writer;
const Writer tflite_writer{.name = "tflite",
                           .suffix = ".tflite",
                           .can_write = tflite::can_write,
                           .write = tflite::write,
                           .integer_operators = true,
                           .fused_operators = true};
}  // namespace formats

}  // namespace smelt
