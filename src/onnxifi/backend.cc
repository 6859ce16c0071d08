#include "onnxifi/backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backends/vulkan/device/backend.h"
#include "base/cat.h"
#include "formats/onnx/lower.h"

namespace smelt::onnxifi {
namespace {

std::string processor_name() {
  std::string name;
  if (std::FILE* f = std::fopen("/proc/cpuinfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, f)) {
      const char* colon = std::strchr(line, ':');
      if (std::strncmp(line, "model name", 10) != 0 || !colon) continue;
      name = colon + 1 + (colon[1] == ' ');
      while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
      break;
    }
    std::fclose(f);
  }
  return name.empty() ? "CPU" : name;
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string versions() {
  std::string out;
  for (int64_t v = 1; v <= onnx::kNewestIr; ++v) out += Cat(v > 1 ? " " : "", v);
  return out;
}

std::string opsets() {
  std::string out;
  for (const char* domain : {"ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"})
    out += Cat(out.empty() ? "" : " ", domain, ":", onnx::newest_opset(domain));
  return out;
}

onnxStatus give(const void* data, size_t bytes, void* value, size_t* size) {
  const bool fits = value && *size >= bytes;
  *size = bytes;
  if (!fits) return ONNXIFI_STATUS_FALLBACK;
  std::memcpy(value, data, bytes);
  return ONNXIFI_STATUS_SUCCESS;
}
onnxStatus give(uint64_t number, void* value, size_t* size) { return give(&number, sizeof number, value, size); }
onnxStatus give(const std::string& text, void* value, size_t* size) {
  return give(text.data(), text.size(), value, size);
}

}  // namespace

std::vector<Device> find_devices() {
  SessionOptions processor;
  processor.backend = BackendKind::kCpu;
  std::vector<Device> out{{processor, ONNXIFI_DEVICE_TYPE_CPU, processor_name(), memory_bytes()}};
  const auto gpus = vulkan::devices();
  if (!gpus.ok()) return out;
  for (const vulkan::DeviceInfo& gpu : *gpus) {
    SessionOptions session;
    session.backend = BackendKind::kVulkan;
    session.device = gpu.index;
    const bool software = gpu.type == "CPU";
    out.push_back({session, software ? onnxEnum{ONNXIFI_DEVICE_TYPE_CPU} : onnxEnum{ONNXIFI_DEVICE_TYPE_GPU},
                   Cat("Vulkan: ", gpu.name), gpu.memory_bytes});
  }
  return out;
}

Library& Library::get() {
  static Library* const library = new Library;  // lives as long as the process: callers may release handles at exit
  return *library;
}

const Device* Library::find(onnxBackendID id) const {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < devices.size(); ++i)
    if (id == &devices[i] && references_[i] > 0) return &devices[i];
  return nullptr;
}

onnxStatus Library::list_ids(onnxBackendID* ids, size_t* count) {
  if (!count) return ONNXIFI_STATUS_INVALID_POINTER;
  const std::lock_guard lock(mutex_);
  const bool fits = ids && *count >= devices.size();
  *count = devices.size();
  if (!fits) return ONNXIFI_STATUS_FALLBACK;
  for (size_t i = 0; i < devices.size(); ++i) {
    ids[i] = const_cast<Device*>(&devices[i]);  // an opaque name: nobody writes through it
    ++references_[i];
  }
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus Library::release_id(onnxBackendID id) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < devices.size(); ++i)
    if (id == &devices[i] && references_[i] > 0) {
      --references_[i];
      return ONNXIFI_STATUS_SUCCESS;
    }
  return ONNXIFI_STATUS_INVALID_ID;
}

onnxStatus backend_info(const Device& device, onnxBackendInfo key, void* value, size_t* size) {
  switch (key) {
    case ONNXIFI_BACKEND_ONNXIFI_VERSION:
      return give(UINT64_C(1) << 32, value, size);
    case ONNXIFI_BACKEND_NAME:  // the name within the vendor's, without it
      return give(std::string(device.session.backend == BackendKind::kCpu ? "CPU" : "Vulkan"), value, size);
    case ONNXIFI_BACKEND_VENDOR:
      return give(std::string("smelt"), value, size);
    case ONNXIFI_BACKEND_VERSION:
      return give(std::string(SMELT_VERSION), value, size);
    case ONNXIFI_BACKEND_EXTENSIONS:
      return give(extension_names(), value, size);
    case ONNXIFI_BACKEND_DEVICE:
      return give(device.name, value, size);
    case ONNXIFI_BACKEND_DEVICE_TYPE:
      return give(device.type, value, size);
    case ONNXIFI_BACKEND_ONNX_IR_VERSION:
      return give(versions(), value, size);
    case ONNXIFI_BACKEND_OPSET_VERSION:
      return give(opsets(), value, size);
    case ONNXIFI_BACKEND_CAPABILITIES:
      return give(ONNXIFI_CAPABILITY_THREAD_SAFE | ONNXIFI_CAPABILITY_SYMBOLIC_BATCH_SIZE |
                      ONNXIFI_CAPABILITY_SYMBOLIC_SIZE_TENSORS | ONNXIFI_CAPABILITY_VARIABLE_BATCH_SIZE |
                      ONNXIFI_CAPABILITY_VARIABLE_SIZE_OUTPUTS,
                  value, size);
    case ONNXIFI_BACKEND_INIT_PROPERTIES:
    case ONNXIFI_BACKEND_GRAPH_INIT_PROPERTIES:
      return give(UINT64_C(0), value, size);
    case ONNXIFI_BACKEND_MEMORY_TYPES:
      return give(uint64_t{ONNXIFI_MEMORY_TYPE_CPU}, value, size);
    case ONNXIFI_BACKEND_SYNCHRONIZATION_TYPES:
      return give(uint64_t{ONNXIFI_SYNCHRONIZATION_EVENT}, value, size);
    case ONNXIFI_BACKEND_MEMORY_SIZE:
    case ONNXIFI_BACKEND_MAX_GRAPH_SIZE:
      return give(device.memory, value, size);
    case ONNXIFI_BACKEND_MAX_GRAPH_COUNT:
      return give(UINT64_C(0xffffffff), value, size);
    default:
      return ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE;
  }
}

onnxStatus check_backend_properties(const uint64_t* list) {
  struct Known {
    uint64_t key, lowest, highest;
  };
  static constexpr Known kKnown[] = {
      {ONNXIFI_BACKEND_PROPERTY_OPTIMIZATION, ONNXIFI_OPTIMIZATION_HIGH_THROUGHPUT, ONNXIFI_OPTIMIZATION_AOT},
      {ONNXIFI_BACKEND_PROPERTY_LOG_LEVEL, ONNXIFI_LOG_LEVEL_DEBUG, ONNXIFI_LOG_LEVEL_ERROR}};
  for (; list && *list != ONNXIFI_BACKEND_PROPERTY_NONE; list += 2) {
    const auto* known = std::ranges::find_if(kKnown, [&](const Known& k) { return k.key == *list; });
    // The value of an unknown key is not read: nobody knows whether there is one.
    if (known == std::end(kKnown)) return ONNXIFI_STATUS_UNSUPPORTED_PROPERTY;
    if (list[1] < known->lowest || list[1] > known->highest) return ONNXIFI_STATUS_INVALID_PROPERTY;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace smelt::onnxifi
