#include "onnxifi/descriptor.h"

#include <algorithm>

#include "onnxifi/element.h"

namespace smelt::onnxifi {
namespace {

constexpr uint64_t kMaxElements = UINT64_C(1) << 40;

/// True if the dimensions may be read: a caller's shape is not trusted beyond the largest rank there is.
bool rank_fits(const onnxTensorDescriptorV1& d) { return d.dimensions <= static_cast<uint32_t>(Shape::kMaxRank); }

onnxStatus check_memory(onnxEnum type) {
  switch (type) {
    case ONNXIFI_MEMORY_TYPE_CPU:
      return ONNXIFI_STATUS_SUCCESS;
    case ONNXIFI_MEMORY_TYPE_CUDA_BUFFER:
    case ONNXIFI_MEMORY_TYPE_OPENCL_BUFFER:
    case ONNXIFI_MEMORY_TYPE_OPENGLES_TEXTURE_2D:
    case ONNXIFI_MEMORY_TYPE_D3D_RESOURCE:
      return ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE;
    default:
      return ONNXIFI_STATUS_INVALID_MEMORY_TYPE;
  }
}

/// Quantization members only inform: the model's own scales rule.
onnxStatus check_quantization(const onnxTensorDescriptorV1& d) {
  if (d.quantizationParams == 0) return ONNXIFI_STATUS_SUCCESS;
  if (!d.scales || !d.biases) return ONNXIFI_STATUS_INVALID_POINTER;
  if (d.quantizationParams == 1) return ONNXIFI_STATUS_SUCCESS;  // per tensor: the axis says nothing
  if (d.quantizationAxis >= d.dimensions) return ONNXIFI_STATUS_INVALID_SHAPE;
  if (rank_fits(d) && d.quantizationParams > d.shape[d.quantizationAxis]) return ONNXIFI_STATUS_INVALID_SHAPE;
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace

onnxStatus check_tags(const onnxTensorDescriptorV1* list, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (list[i].tag != ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1) return ONNXIFI_STATUS_UNSUPPORTED_TAG;
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus check_descriptor(const onnxTensorDescriptorV1& d) {
  if (element_type(d.dataType) == DType::kInvalid) return ONNXIFI_STATUS_INVALID_DATATYPE;
  if (const onnxStatus s = check_memory(d.memoryType); s != ONNXIFI_STATUS_SUCCESS) return s;
  if (d.dimensions > 0 && !d.shape) return ONNXIFI_STATUS_INVALID_POINTER;
  for (uint32_t i = 0; rank_fits(d) && i < d.dimensions; ++i)
    if (d.shape[i] == 0) return ONNXIFI_STATUS_INVALID_SHAPE;
  // An offline weight would need a deferred weight reader, which this backend refuses.
  if (d.isOffline || d.buffer == 0) return ONNXIFI_STATUS_INVALID_MEMORY_LOCATION;
  return check_quantization(d);
}

onnxStatus check_fit(const onnxTensorDescriptorV1& d, const Port& port, Symbols& symbols) {
  if (port.dtype != DType::kInvalid && element_type(d.dataType) != port.dtype)
    return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
  if (port.ranked && d.dimensions != static_cast<uint32_t>(port.shape.rank())) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  if (!rank_fits(d)) return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
  for (int i = 0; port.ranked && i < port.shape.rank(); ++i)
    if (port.shape[i] >= 0 && static_cast<uint64_t>(port.shape[i]) != d.shape[i])
      return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < d.dimensions; ++i)
    if (__builtin_mul_overflow(elements, d.shape[i], &elements) || elements > kMaxElements)
      return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
  for (int i = 0; port.ranked && i < port.shape.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (port.shape[i] >= 0 || at >= port.dim_names.size() || port.dim_names[at].empty()) continue;
    const auto given = static_cast<int64_t>(d.shape[i]);
    const auto [it, fresh] = symbols.emplace(port.dim_names[at], given);
    if (!fresh && it->second != given) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus match(const onnxTensorDescriptorV1* list, uint32_t count, const std::vector<Port>& ports, Symbols& symbols,
                 std::vector<const onnxTensorDescriptorV1*>& found) {
  found.assign(ports.size(), nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    const onnxTensorDescriptorV1& d = list[i];
    if (!d.name) return ONNXIFI_STATUS_INVALID_NAME;
    const auto port = std::ranges::find_if(ports, [&](const Port& p) { return p.name == d.name; });
    const auto at = static_cast<size_t>(port - ports.begin());
    if (port == ports.end() || found[at]) return ONNXIFI_STATUS_INVALID_NAME;
    if (const onnxStatus s = check_descriptor(d); s != ONNXIFI_STATUS_SUCCESS) return s;
    if (const onnxStatus s = check_fit(d, *port, symbols); s != ONNXIFI_STATUS_SUCCESS) return s;
    found[at] = &d;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

Shape shape_of(const onnxTensorDescriptorV1& d) {
  Shape s = Shape::of_rank(static_cast<int>(d.dimensions), 0);
  for (uint32_t i = 0; i < d.dimensions; ++i) s[static_cast<int>(i)] = static_cast<int64_t>(d.shape[i]);
  return s;
}

}  // namespace smelt::onnxifi
