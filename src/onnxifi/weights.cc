#include "onnxifi/weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>

#include "formats/onnx/lower.h"
#include "onnxifi/element.h"
#include "onnxifi/loader.h"

namespace smelt::onnxifi {
namespace {

/// Names that a weight may have: inputs, and what nodes or outputs read without a node making it.
std::set<std::string_view> weight_names(const onnx::GraphProto& graph) {
  std::set<std::string_view> names;
  for (const auto& n : graph.nodes) onnx::for_each_read(n, [&](std::string_view name) { names.insert(name); });
  for (const auto& v : graph.outputs) names.insert(v.name);
  for (const auto& n : graph.nodes)
    for (const auto& output : n.outputs) names.erase(output);
  for (const auto& v : graph.inputs) names.insert(v.name);
  names.erase("");
  return names;
}

/// A view of a copy of the elements.
std::string_view copy_elements(const onnxTensorDescriptorV1& d, Storage& storage) {
  const size_t bytes = Tensor::byte_size(element_type(d.dataType), shape_of(d).elements());
  auto* data = static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  if (!data) throw std::bad_alloc();
  storage.weights.emplace_back(data);
  std::memcpy(data, reinterpret_cast<const void*>(d.buffer), bytes);
  return {data, bytes};
}

}  // namespace

void Storage::Free::operator()(void* p) const { std::free(p); }

onnxStatus check_weights(const onnxTensorDescriptorV1* weights, uint32_t count) {
  if (const onnxStatus s = check_tags(weights, count); s != ONNXIFI_STATUS_SUCCESS) return s;
  std::set<std::string_view> seen;
  for (uint32_t i = 0; i < count; ++i) {
    if (!weights[i].name || !seen.insert(weights[i].name).second) return ONNXIFI_STATUS_INVALID_NAME;
    if (const onnxStatus s = check_descriptor(weights[i]); s != ONNXIFI_STATUS_SUCCESS) return s;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus add_weights(onnx::ModelProto& model, const onnxTensorDescriptorV1* weights, uint32_t count, Storage& storage,
                       std::vector<Port>& statics, Symbols& symbols) {
  if (count == 0) return ONNXIFI_STATUS_SUCCESS;
  onnx::GraphProto& graph = model.graph;
  if (!graph.initializers.empty() || !graph.sparse_initializers.empty()) return ONNXIFI_STATUS_INVALID_MODEL;
  const auto names = weight_names(graph);
  for (uint32_t i = 0; i < count; ++i) {
    const onnxTensorDescriptorV1& d = weights[i];
    if (!names.count(d.name)) return ONNXIFI_STATUS_INVALID_NAME;
    Port port;
    port.ranked = false;
    const auto declared =
        std::ranges::find_if(graph.inputs, [&](const onnx::ValueInfo& v) { return v.name == d.name; });
    if (declared != graph.inputs.end()) {
      if (const onnxStatus s = declared_port(*declared, port); s != ONNXIFI_STATUS_SUCCESS) return s;
    }
    if (const onnxStatus s = check_fit(d, port, symbols); s != ONNXIFI_STATUS_SUCCESS) return s;
    if (declared != graph.inputs.end()) {
      statics.push_back(std::move(port));
      graph.inputs.erase(declared);
    }
    onnx::TensorProto& t = graph.initializers.emplace_back();
    for (uint32_t k = 0; k < d.dimensions; ++k) t.dims.push_back(static_cast<int64_t>(d.shape[k]));
    t.data_type = static_cast<int64_t>(d.dataType);
    t.name = d.name;
    t.has_raw = true;
    t.raw = copy_elements(d, storage);
  }
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace smelt::onnxifi
