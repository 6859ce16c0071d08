#include "smelt/model.h"

#include <filesystem>

#include "base/error.h"
#include "base/guard.h"
#include "base/mapped_file.h"
#include "formats/format.h"
#include "formats/rules.h"
#include "graph/graph.h"
#include "ops/core/verify.h"
#include "runtime/compiled.h"
#include "runtime/finish_model.h"

namespace smelt {

Model::Model(std::shared_ptr<const Module> module)
    : module_(std::move(module)), compiled_(std::make_shared<Compiled>(module_)) {}

Result<Model> finish_model(Module module, const Source& source, const char* format) {
  auto shared = std::make_shared<Module>(std::move(module));
  if (shared->format.empty()) shared->format = format;
  shared->name = source.name;
  shared->storage = source.owner;
  shared->file_bytes = source.bytes.size();
  if (auto s = verify(*shared); !s.ok()) return s.error().within(source.name);
  return Model(std::shared_ptr<const Module>(std::move(shared)));
}

namespace {

Result<Model> load_source(const Source& source) {
  SMELT_TRY(check_rule_names(source.options->tolerate));
  if (source.bytes.empty()) return InvalidModel(source.name, ": the file is empty");
  for (const Format* format : all_formats()) {
    if (!format->recognise(source.bytes)) continue;
    if (!source.options->data_files.empty() && !format->takes_data_files)
      return InvalidInput(source.name, ": external data files belong to ExecuTorch programs, this is ", format->name);
    auto module = format->load(source);
    if (!module.ok()) return module.error().within(source.name);
    return finish_model(std::move(module).value(), source, format->name);
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
const std::vector<std::string>& Model::warnings() const { return module_->warnings; }

std::vector<std::string> Model::methods() const {
  std::vector<std::string> out;
  for (const Method& m : module_->methods) out.push_back(m.name);
  return out;
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
    const Value& v = g.value(id);
    p.name = v.name;
    const ValueType& t = v.type;
    p.is_tensor = t.kind == ValueType::Kind::kTensor;
    p.optional = t.kind == ValueType::Kind::kOptional || (inputs && v.constant);
    p.dtype = t.dtype;
    p.ranked = t.ranked;
    p.shape = t.shape;
    p.dim_names = v.dim_names;
    p.bound = v.bound;
    p.quant = t.quant;
  }
  return out;
}
}  // namespace

std::vector<Port> Model::inputs(const std::string& method) const { return ports(*module_, method, true); }
std::vector<Port> Model::outputs(const std::string& method) const { return ports(*module_, method, false); }

}  // namespace smelt
