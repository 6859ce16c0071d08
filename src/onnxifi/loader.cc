#include "onnxifi/loader.h"

#include <algorithm>
#include <set>
#include <string>

#include "formats/onnx/lower.h"
#include "formats/onnx/reader.h"
#include "onnxifi/element.h"
#include "onnxifi/type_check.h"
#include "onnxifi/weights.h"
#include "runtime/finish_model.h"
#include "runtime/model_access.h"

namespace smelt::onnxifi {
namespace {

/// What every model must have, and its versions.
onnxStatus check_model(const onnx::ModelProto& model) {
  if (!model.has_graph || model.ir_version <= 0) return ONNXIFI_STATUS_INVALID_MODEL;
  if (model.ir_version > onnx::kNewestIr) return ONNXIFI_STATUS_UNSUPPORTED_VERSION;
  if (model.opsets.empty() && model.ir_version >= 3) return ONNXIFI_STATUS_INVALID_MODEL;
  for (const auto& o : model.opsets) {
    if (o.version < 1) return ONNXIFI_STATUS_INVALID_MODEL;
    const int64_t newest = onnx::newest_opset(o.domain);
    if (newest > 0 && o.version > newest) return ONNXIFI_STATUS_UNSUPPORTED_VERSION;
  }
  if (model.graph.outputs.empty()) return ONNXIFI_STATUS_INVALID_MODEL;
  std::set<std::string_view> names;
  for (const auto& v : model.graph.outputs)
    if (v.name.empty() || !names.insert(v.name).second) return ONNXIFI_STATUS_INVALID_MODEL;
  return ONNXIFI_STATUS_SUCCESS;
}

/// Graph inputs as the caller must give them: of a known element type that descriptors can carry.
onnxStatus check_inputs(const onnx::GraphProto& graph) {
  Port port;
  for (const auto& v : graph.inputs)
    if (const onnxStatus s = declared_port(v, port); s != ONNXIFI_STATUS_SUCCESS) return s;
  return ONNXIFI_STATUS_SUCCESS;
}

/// Before IR 4 every initializer is listed as an input as well: such an input takes no other value.
void find_statics(const onnx::ModelProto& model, std::vector<Port>& statics) {
  if (model.ir_version >= 4) return;
  std::set<std::string_view> names;
  for (const auto& t : model.graph.initializers) names.insert(t.name);
  for (const auto& t : model.graph.sparse_initializers) names.insert(t.values.name);
  Port port;
  for (const auto& v : model.graph.inputs)
    if (names.count(v.name) && declared_port(v, port) == ONNXIFI_STATUS_SUCCESS) statics.push_back(port);
}

/// Element types and shapes that the model declares for its outputs against those that follow from its inputs.
onnxStatus check_outputs(const onnx::GraphProto& graph, const Model& model) {
  const auto ports = model.outputs();
  for (size_t i = 0; i < ports.size() && i < graph.outputs.size(); ++i) {
    if (!ports[i].is_tensor) return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
    if (ports[i].dtype != DType::kInvalid && element_number(ports[i].dtype) == ONNXIFI_DATATYPE_UNDEFINED)
      return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
    const onnx::TypeProto& declared = graph.outputs[i].type;
    if (declared.kind == onnx::TypeProto::Kind::kNone) continue;
    if (declared.kind != onnx::TypeProto::Kind::kTensor) return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
    if (declared.elem_type != 0 && onnx::dtype_of(declared.elem_type) == DType::kInvalid)
      return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
    if (declared.elem_type != 0 && ports[i].dtype != DType::kInvalid &&
        onnx::dtype_of(declared.elem_type) != ports[i].dtype)
      return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
    if (!declared.has_shape || !ports[i].ranked) continue;
    if (static_cast<int>(declared.dims.size()) != ports[i].shape.rank()) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
    for (size_t k = 0; k < declared.dims.size(); ++k) {
      const int64_t want = declared.dims[k].value, have = ports[i].shape[static_cast<int>(k)];
      if (want >= 0 && have >= 0 && want != have) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
    }
  }
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus status_of(const Error& e, onnx::Finding refusal) {
  switch (refusal) {
    case onnx::Finding::kOperator:
      return ONNXIFI_STATUS_UNSUPPORTED_OPERATOR;
    case onnx::Finding::kElementType:
      return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
    case onnx::Finding::kRank:
      return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
    case onnx::Finding::kDeclaredType:
      return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
    case onnx::Finding::kNone:
      break;
  }
  switch (e.code()) {
    case ErrorCode::kUnsupported:
      return ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE;
    case ErrorCode::kLimit:
      return ONNXIFI_STATUS_NO_SYSTEM_MEMORY;
    case ErrorCode::kInternal:
      return ONNXIFI_STATUS_INTERNAL_ERROR;
    default:
      return ONNXIFI_STATUS_INVALID_MODEL;
  }
}

}  // namespace

onnxStatus declared_port(const onnx::ValueInfo& info, Port& port) {
  using Kind = onnx::TypeProto::Kind;
  const onnx::TypeProto& type = info.type.kind == Kind::kOptional && info.type.element ? *info.type.element : info.type;
  if (type.kind == Kind::kNone) return ONNXIFI_STATUS_INVALID_MODEL;
  if (type.kind != Kind::kTensor) return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
  if (type.elem_type == 0) return ONNXIFI_STATUS_INVALID_MODEL;
  if (type.dims.size() > static_cast<size_t>(Shape::kMaxRank)) return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
  port = {};
  port.name = std::string(info.name);
  port.dtype = onnx::dtype_of(type.elem_type);
  if (element_number(port.dtype) == ONNXIFI_DATATYPE_UNDEFINED) return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
  port.ranked = type.has_shape;
  for (const auto& d : type.dims) port.shape.push_back(std::max<int64_t>(d.value, -1));
  port.dim_names = onnx::dim_names(type);
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus load_model(std::string_view bytes, const onnxTensorDescriptorV1* weights, uint32_t weight_count,
                      std::optional<Loaded>* loaded) {
  if (const onnxStatus s = check_weights(weights, weight_count); s != ONNXIFI_STATUS_SUCCESS) return s;
  auto storage = std::make_shared<Storage>();
  if (loaded) {
    storage->model = bytes;
    bytes = storage->model;
  }
  const LoadOptions options;
  auto parsed = onnx::parse_model(bytes, options.max_nodes);
  if (!parsed.ok()) return ONNXIFI_STATUS_INVALID_PROTOBUF;
  onnx::ModelProto& proto = **parsed;
  if (const onnxStatus s = check_model(proto); s != ONNXIFI_STATUS_SUCCESS) return s;
  std::vector<Port> statics;
  Symbols symbols;
  if (const onnxStatus s = add_weights(proto, weights, weight_count, *storage, statics, symbols);
      s != ONNXIFI_STATUS_SUCCESS)
    return s;
  if (const onnxStatus s = check_inputs(proto.graph); s != ONNXIFI_STATUS_SUCCESS) return s;
  find_statics(proto, statics);
  const Source source{std::as_bytes(std::span(bytes)), storage, "model", "", &options};
  onnx::Findings findings;
  auto module = onnx::lower_model(source, proto, &findings);
  if (!module.ok()) return status_of(module.error(), findings.refusal);
  auto model = finish_model(std::move(module).value(), source, "onnx");
  if (!model.ok()) return status_of(model.error(), onnx::Finding::kNone);
  if (!kernels_take_types(module_of(*model))) return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
  if (findings.declared_shape_differs) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  if (const onnxStatus s = check_outputs(proto.graph, *model); s != ONNXIFI_STATUS_SUCCESS) return s;
  if (loaded) loaded->emplace(Loaded{std::move(model).value(), std::move(statics), std::move(symbols)});
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace smelt::onnxifi
