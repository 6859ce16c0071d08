#include "smelt/model.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/guard.h"
#include "base/mapped_file.h"
#include "base/selection.h"
#include "base/suggest.h"
#include "formats/format.h"
#include "formats/rules.h"
#include "graph/graph.h"
#include "ops/core/verify.h"
#include "runtime/compiled.h"
#include "runtime/finish_model.h"
#include "runtime/model_access.h"

namespace smelt {

const char* version() { return SMELT_VERSION_STRING; }

Model::Model(std::shared_ptr<const Module> module)
    : module_(std::move(module)), compiled_(std::make_shared<Compiled>(module_)) {}

Result<Model> finish_model(Module module, const Source& source, const char* format) {
  auto shared = std::make_shared<Module>(std::move(module));
  if (shared->format.empty()) shared->format = format;
  shared->name = source.name;
  shared->storage = source.owner;
  shared->file = source.bytes;
  if (auto s = verify(*shared); !s.ok()) return s.error().within(source.name);
  for (Graph& g : shared->graphs) {
    g.values.shrink_to_fit();
    g.nodes.shrink_to_fit();
  }
  release_pages(source.bytes.data(), source.bytes.size());  // weights are read when they are packed
  return ModelAccess::make(std::move(shared));
}

namespace {

/// The inputs and outputs of a graph, which nothing makes.
[[gnu::cold]] Graph ports_of(const Graph& g) {
  Graph out;
  out.inputs = g.inputs;
  out.outputs = g.outputs;
  std::vector<ValueId> taken(g.values.size(), kNoValue);
  for (auto* const ids : {&out.inputs, &out.outputs})
    for (ValueId& id : *ids) {
      if (id == kNoValue) continue;
      ValueId& there = taken[static_cast<size_t>(id)];
      if (there == kNoValue) there = out.add_value(g.value(id));
      id = there;
    }
  return out;
}

}  // namespace

[[gnu::cold]] void ModelAccess::keep_for_like_sessions(Model& model) {
  if (model.module_.use_count() > 2 || model.compiled_.use_count() > 1) return;
  for (const Graph& g : model.module_->graphs)
    for (const ValueId id : g.inputs)
      if (id == kNoValue || g.value(id).constant) return;
  const auto whole = std::const_pointer_cast<Module>(model.module_);
  std::vector<Graph> graphs;
  graphs.swap(whole->graphs);
  auto described = std::make_shared<Module>(*model.module_);
  for (const Graph& g : graphs) described->graphs.push_back(ports_of(g));
  graphs.swap(whole->graphs);
  model.module_ = std::move(described);
  model.compiled_ = std::make_shared<Compiled>(whole);
}

namespace {

void tell(const LogSink& log, const Module& m) {
  if (!log) return;
  size_t nodes = 0;
  for (const Graph& g : m.graphs) nodes += g.nodes.size();
  log(LogLevel::kInfo, Cat(m.name, ": loaded ", m.format, ", ", m.file.size(), " bytes, ", nodes, " nodes"));
  for (const std::string& warning : m.warnings) log(LogLevel::kWarning, Cat(m.name, ": ", warning));
}

Result<Model> load_source(const Source& source) {
  SMELT_TRY(check_rule_names(source.options->tolerate));
  if (source.bytes.empty()) return InvalidModel(source.name, ": the file is empty");
  for (const Format* format : all_formats()) {
    if (!format->recognise(source.bytes)) continue;
    if (!source.options->data_files.empty() && !format->takes_data_files)
      return InvalidInput(source.name, ": external data files belong to ExecuTorch programs, this is ", format->name);
    auto module = format->load(source);
    if (!module.ok()) return module.error().within(source.name);
    auto model = finish_model(std::move(module).value(), source, format->name);
    if (model.ok()) tell(source.options->log, module_of(*model));
    return model;
  }
  if (!kBuildsEverything) {
    std::string built;
    for (const Format* format : all_formats()) built += Cat(built.empty() ? "" : ", ", format->name);
    return InvalidModel(source.name, ": not a model of the formats of this build (SMELT_FOR): ", built);
  }
  return InvalidModel(source.name,
                      ": not a model of a known format (TFLite, ONNX, ONNX Runtime's .ort, ExecuTorch program, bundled "
                      "program, XNNPACK or Vulkan graph)");
}

}  // namespace

Result<Model> Model::load_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                const std::string& name, const std::string& folder, const LoadOptions& options) {
  return guarded([&] { return load_source({bytes, owner, name, folder, &options}); });
}

Result<Model> Model::load(const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<Model> {
    SMELT_ASSIGN(auto file, MappedFile::open(path));
    std::string folder = std::filesystem::path(path).parent_path().string();
    if (folder.empty()) folder = ".";
    const auto bytes = file->bytes();
    return load_source({bytes, std::move(file), path, folder, &options});
  });
}

const std::string& Model::format() const { return module_->format; }
const std::string& Model::producer() const { return module_->producer; }
const std::vector<std::pair<std::string, std::string>>& Model::metadata() const { return module_->metadata; }

const std::vector<std::string>& Model::labels() const {
  static const std::vector<std::string> none;
  const auto& files = module_->text_files;
  const auto longest = std::max_element(files.begin(), files.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return longest == files.end() ? none : longest->second;
}

const std::vector<std::string>& Model::warnings() const { return module_->warnings; }

std::vector<std::string> Model::methods() const {
  std::vector<std::string> out;
  for (const Method& m : module_->methods) out.push_back(m.name);
  return out;
}

Port port_of(const Value& v) {
  const ValueType& t = v.type;
  Port p;
  static_cast<TensorType&>(p) = {t.dtype, t.ranked, t.shape, t.quant};
  p.name = v.name;
  p.is_tensor = t.kind == ValueType::Kind::kTensor;
  p.optional = t.kind == ValueType::Kind::kOptional;
  p.dim_names = v.dim_names;
  p.bound = v.bound;
  return p;
}

namespace {
std::vector<Port> ports(const Module& module, const std::string& method, bool inputs) {
  std::vector<Port> out;
  const Method* m = module.find_method(method);
  if (!m) return out;
  const Graph& g = module.graphs[static_cast<size_t>(m->graph)];
  for (ValueId id : inputs ? g.inputs : g.outputs) {
    Port& p = out.emplace_back();
    if (id == kNoValue) continue;
    p = port_of(g.value(id));
    p.optional = p.optional || (inputs && g.value(id).constant);
  }
  return out;
}
}  // namespace

std::vector<Port> Model::inputs(const std::string& method) const { return ports(*module_, method, true); }
std::vector<Port> Model::outputs(const std::string& method) const { return ports(*module_, method, false); }

namespace {

Result<ValueId> value_named(const Graph& g, const std::string& name) {
  const auto named = [&](ValueId id) { return id != kNoValue && g.value(id).name == name; };
  const auto output = std::ranges::find_if(g.outputs, named);
  if (output != g.outputs.end()) return *output;
  const auto value = std::ranges::find_if(g.values, [&](const Value& v) { return v.name == name; });
  if (value != g.values.end()) return static_cast<ValueId>(value - g.values.begin());
  std::vector<std::string> all;
  const auto add = [&](ValueId id) {
    if (id != kNoValue && !g.value(id).name.empty()) all.push_back(g.value(id).name);
  };
  for (ValueId id : g.outputs) add(id);
  for (const Node& n : g.nodes)
    for (ValueId id : n.outputs) add(id);
  return InvalidInput(not_among("output or intermediate value", name, all));
}

}  // namespace

Result<Model> Model::with_outputs(std::span<const std::string> names, const std::string& method) const {
  return guarded([&]() -> Result<Model> {
    const Method* found = module_->find_method(method);
    if (!found) return InvalidInput(not_among("method", method, methods()));
    auto module = std::make_shared<Module>(*module_);
    Graph& g = module->graphs[static_cast<size_t>(found->graph)];
    std::vector<ValueId> outputs;
    for (const std::string& name : names) {
      SMELT_ASSIGN(const ValueId id, value_named(g, name));
      outputs.push_back(id);
    }
    g.outputs = std::move(outputs);
    return ModelAccess::make(std::move(module));
  });
}

}  // namespace smelt
