#include "onnxifi/model_check.h"

#include <algorithm>
#include <set>
#include <string>

#include "formats/onnx/lower.h"
#include "graph/graph.h"

namespace smelt::onnxifi {
namespace {

constexpr int64_t kNewestIr = 13;
constexpr size_t kMaxNodes = 2'000'000;

bool standard(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

struct OperatorCheck {
  const onnx::ModelProto& model;
  std::set<std::pair<std::string_view, std::string_view>> functions;

  explicit OperatorCheck(const onnx::ModelProto& m) : model(m) {
    for (const auto& f : m.functions) functions.emplace(f.domain, f.name);
  }

  bool known(const onnx::NodeProto& n) const {
    if (functions.count({n.domain, n.op_type})) return true;
    const std::string_view domain = standard(n.domain) ? "" : n.domain;
    int64_t version = 1;
    for (const auto& o : model.opsets)
      if ((standard(o.domain) ? "" : o.domain) == domain) version = std::max(version, o.version);
    bool exists = false;
    return onnx::find_op(domain, n.op_type, version, exists) != nullptr || exists;
  }

  bool known(const std::vector<onnx::NodeProto>& nodes) const {
    for (const auto& n : nodes) {
      if (!known(n)) return false;
      for (const auto& a : n.attributes)
        if (a.graph && !known(a.graph->nodes)) return false;
    }
    return true;
  }
};

/// Element types and shapes that the model declares for its outputs against those that follow from its inputs.
onnxStatus check_outputs(const onnx::GraphProto& graph, const Model& model) {
  const auto ports = model.outputs();
  for (size_t i = 0; i < ports.size() && i < graph.outputs.size(); ++i) {
    const onnx::TypeProto& declared = graph.outputs[i].type;
    if (declared.kind != onnx::TypeProto::Kind::kTensor || !ports[i].is_tensor) continue;
    const DType dtype = element_type(static_cast<onnxEnum>(declared.elem_type));
    if (dtype != DType::kInvalid && ports[i].dtype != DType::kInvalid && dtype != ports[i].dtype)
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

onnxStatus status_of(const Error& e) {
  switch (e.code()) {
    case ErrorCode::kUnsupported:
      return ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE;
    case ErrorCode::kLimit:
      return ONNXIFI_STATUS_NO_SYSTEM_MEMORY;
    case ErrorCode::kInternal:
      return ONNXIFI_STATUS_INTERNAL_ERROR;
    default:
      break;
  }
  // The reader reports contradictions between declared and inferred element types in these words.
  if (e.message().find("' is declared ") != std::string::npos) return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
  return ONNXIFI_STATUS_INVALID_MODEL;
}

}  // namespace

int64_t newest_ir() { return kNewestIr; }

int64_t newest_opset(std::string_view domain) {
  if (standard(domain)) return onnx::kNewestOpset;
  if (domain == "ai.onnx.ml") return 5;
  if (domain == "ai.onnx.preview.training" || domain == "com.microsoft") return 1;
  return 0;
}

onnxStatus load_model(std::string_view bytes, std::shared_ptr<const void> owner, std::unique_ptr<Model>* model) {
  auto parsed = onnx::parse_model(bytes, kMaxNodes);
  if (!parsed.ok())
    return parsed.error().code() == ErrorCode::kLimit ? ONNXIFI_STATUS_NO_SYSTEM_MEMORY
                                                      : ONNXIFI_STATUS_INVALID_PROTOBUF;
  const onnx::ModelProto& proto = **parsed;
  if (!proto.has_graph || proto.ir_version <= 0) return ONNXIFI_STATUS_INVALID_MODEL;
  if (proto.ir_version > kNewestIr) return ONNXIFI_STATUS_UNSUPPORTED_VERSION;
  if (proto.opsets.empty() && proto.ir_version >= 3) return ONNXIFI_STATUS_INVALID_MODEL;
  for (const auto& o : proto.opsets) {
    if (o.version < 1 && standard(o.domain)) return ONNXIFI_STATUS_INVALID_MODEL;
    const int64_t newest = newest_opset(o.domain);
    if (newest > 0 && o.version > newest) return ONNXIFI_STATUS_UNSUPPORTED_VERSION;
  }
  if (proto.graph.outputs.empty()) return ONNXIFI_STATUS_INVALID_MODEL;
  if (!OperatorCheck(proto).known(proto.graph.nodes)) return ONNXIFI_STATUS_UNSUPPORTED_OPERATOR;
  auto loaded = Model::load_bytes(std::as_bytes(std::span(bytes)), std::move(owner), "model");
  if (!loaded.ok()) return status_of(loaded.error());
  if (loaded->format() != "onnx") return ONNXIFI_STATUS_INVALID_PROTOBUF;
  if (const onnxStatus s = check_outputs(proto.graph, *loaded); s != ONNXIFI_STATUS_SUCCESS) return s;
  if (model) *model = std::make_unique<Model>(std::move(*loaded));
  return ONNXIFI_STATUS_SUCCESS;
}

namespace {
// ONNX TensorProto.DataType numbers by DType.
constexpr std::pair<onnxEnum, DType> kTypes[] = {
    {1, DType::kF32},         {2, DType::kU8},      {3, DType::kI8},          {4, DType::kU16},
    {5, DType::kI16},         {6, DType::kI32},     {7, DType::kI64},         {9, DType::kBool},
    {10, DType::kF16},        {11, DType::kF64},    {12, DType::kU32},        {13, DType::kU64},
    {14, DType::kC64},        {15, DType::kC128},   {16, DType::kBF16},       {17, DType::kF8E4M3FN},
    {18, DType::kF8E4M3FNUZ}, {19, DType::kF8E5M2}, {20, DType::kF8E5M2FNUZ}, {21, DType::kU4},
    {22, DType::kI4},         {23, DType::kF4E2M1}, {24, DType::kF8E8M0},     {25, DType::kU2},
    {26, DType::kI2}};
}  // namespace

DType element_type(onnxEnum type) {
  for (const auto& [number, dtype] : kTypes)
    if (number == type) return dtype;
  return DType::kInvalid;
}

onnxEnum element_number(DType dtype) {
  for (const auto& [number, d] : kTypes)
    if (d == dtype) return number;
  return ONNXIFI_DATATYPE_UNDEFINED;
}

}  // namespace smelt::onnxifi
