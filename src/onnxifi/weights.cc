#include "onnxifi/weights.h"

#include <protozero/pbf_writer.hpp>
#include <set>

#include "formats/onnx/proto.h"
#include "onnxifi/graph.h"
#include "onnxifi/model_check.h"

namespace smelt::onnxifi {
namespace {

// Field numbers of ONNX messages.
constexpr protozero::pbf_tag_type kModelGraph = 7, kGraphInitializer = 5, kTensorDims = 1, kTensorType = 2,
                                  kTensorName = 8, kTensorRaw = 9;

void add_initializer(protozero::pbf_writer& graph, const onnxTensorDescriptorV1& d) {
  protozero::pbf_writer tensor(graph, kGraphInitializer);
  int64_t elements = 1;
  for (uint32_t i = 0; i < d.dimensions; ++i) {
    tensor.add_int64(kTensorDims, static_cast<int64_t>(d.shape[i]));
    elements *= static_cast<int64_t>(d.shape[i]);
  }
  tensor.add_int32(kTensorType, static_cast<int32_t>(d.dataType));
  tensor.add_string(kTensorName, d.name);
  tensor.add_bytes(kTensorRaw, reinterpret_cast<const char*>(d.buffer),
                   Tensor::byte_size(element_type(d.dataType), elements));
}

/// Names that a weight may have.
std::set<std::string_view> weight_names(const onnx::GraphProto& graph) {
  std::set<std::string_view> names;
  for (const auto& v : graph.inputs) names.insert(v.name);
  for (const auto& n : graph.nodes)
    for (const auto& input : n.inputs) names.insert(input);
  for (const auto& n : graph.nodes)
    for (const auto& output : n.outputs) names.erase(output);
  names.erase("");
  return names;
}

/// Dimensions and element type of a descriptor against a declared input.
onnxStatus fits_declared(const onnxTensorDescriptorV1& d, const onnx::ValueInfo& v) {
  if (v.type.kind != onnx::TypeProto::Kind::kTensor) return ONNXIFI_STATUS_SUCCESS;
  if (v.type.elem_type != 0 && static_cast<onnxEnum>(v.type.elem_type) != d.dataType)
    return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
  if (!v.type.has_shape) return ONNXIFI_STATUS_SUCCESS;
  if (v.type.dims.size() != d.dimensions) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  for (uint32_t i = 0; i < d.dimensions; ++i)
    if (v.type.dims[i].value >= 0 && static_cast<uint64_t>(v.type.dims[i].value) != d.shape[i])
      return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace

onnxStatus with_weights(std::string_view model, const onnxTensorDescriptorV1* weights, uint32_t count,
                        std::shared_ptr<const std::string>* out) {
  if (count == 0) {
    *out = std::make_shared<const std::string>(model);
    return ONNXIFI_STATUS_SUCCESS;
  }
  if (const onnxStatus s = check_tags(weights, count); s != ONNXIFI_STATUS_SUCCESS) return s;
  std::set<std::string_view> seen;
  for (uint32_t i = 0; i < count; ++i) {
    if (!weights[i].name || !seen.insert(weights[i].name).second) return ONNXIFI_STATUS_INVALID_NAME;
    if (const onnxStatus s = check_descriptor(weights[i]); s != ONNXIFI_STATUS_SUCCESS) return s;
  }
  auto parsed = onnx::parse_model(model, 2'000'000);
  if (!parsed.ok()) return ONNXIFI_STATUS_INVALID_PROTOBUF;
  const onnx::GraphProto& graph = (*parsed)->graph;
  if (!graph.initializers.empty() || !graph.sparse_initializers.empty()) return ONNXIFI_STATUS_INVALID_MODEL;
  const auto names = weight_names(graph);
  auto bytes = std::make_shared<std::string>(model);
  {
    protozero::pbf_writer root(*bytes);
    protozero::pbf_writer added(root, kModelGraph);
    for (uint32_t i = 0; i < count; ++i) {
      if (!names.count(weights[i].name)) return ONNXIFI_STATUS_INVALID_NAME;
      for (const auto& v : graph.inputs)
        if (v.name == weights[i].name)
          if (const onnxStatus s = fits_declared(weights[i], v); s != ONNXIFI_STATUS_SUCCESS) return s;
      add_initializer(added, weights[i]);
    }
  }
  *out = std::move(bytes);
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace smelt::onnxifi
