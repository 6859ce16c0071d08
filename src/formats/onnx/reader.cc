#include "formats/onnx/reader.h"
#include "base/error.h"
#include "formats/format.h"
#include "formats/onnx/lower.h"

namespace smelt {

namespace {

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool recognise(std::span<const std::byte> bytes) { return onnx::looks_like_model(text(bytes)); }

void describe(const onnx::ModelProto& proto, Module& module) {
  module.format = "onnx";
  module.exact_inputs = true;
  module.producer = std::string(proto.producer_name);
  if (!proto.producer_version.empty()) module.producer += Cat(" ", proto.producer_version);
  auto& data = module.metadata;
  data.emplace_back("ir_version", Cat(proto.ir_version));
  for (const auto& o : proto.opsets)
    data.emplace_back(Cat("opset ", o.domain.empty() ? "ai.onnx" : o.domain), Cat(o.version));
  if (proto.model_version != 0) data.emplace_back("model_version", Cat(proto.model_version));
  if (!proto.domain.empty()) data.emplace_back("domain", std::string(proto.domain));
  if (!proto.doc.empty()) data.emplace_back("doc_string", std::string(proto.doc));
  if (!proto.graph.doc.empty()) data.emplace_back("graph doc_string", std::string(proto.graph.doc));
  for (const auto& [key, value] : proto.metadata) data.emplace_back(std::string(key), std::string(value));
}

Result<Module> load(const Source& source) {
  const size_t max_nodes = source.options ? source.options->max_nodes : LoadOptions{}.max_nodes;
  SMELT_ASSIGN(const auto proto, onnx::parse_model(text(source.bytes), max_nodes));
  return onnx::lower_model(source, *proto);
}

}  // namespace

Result<Module> onnx::lower_model(const Source& source, const ModelProto& proto, Findings* findings) {
  Module module;
  describe(proto, module);
  ModelLowering lowering(source, proto, module);
  const Status s = lowering.run();
  if (findings) *findings = lowering.findings();
  SMELT_TRY(s);
  return module;
}

extern const Format onnx_format;
const Format onnx_format{"onnx", recognise, load};

}  // namespace smelt
