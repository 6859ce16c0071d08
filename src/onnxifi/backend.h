#pragma once

#include <onnxifi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onnxifi/event.h"
#include "onnxifi/graph.h"
#include "onnxifi/handles.h"

namespace smelt::onnxifi {

/// A device that runs graphs: one row of what onnxGetBackendIDs lists.
struct Device {
  SessionOptions session;  ///< how sessions on it are made
  onnxEnum type = ONNXIFI_DEVICE_TYPE_CPU;
  std::string name;
  uint64_t memory = 0;  ///< bytes that graphs may use
};

/// Every device of this machine that the runtime can use, the processor first.
std::vector<Device> find_devices();

struct Backend {
  const Device* device = nullptr;
};

/// Everything the library holds for the process.
struct Library {
  static Library& get();

  const std::vector<Device> devices = find_devices();
  /// Device of a referenced backend ID; null otherwise.
  const Device* find(onnxBackendID id) const;
  onnxStatus list_ids(onnxBackendID* ids, size_t* count);
  onnxStatus release_id(onnxBackendID id);

  Handles<Backend> backends;
  Handles<Event> events;
  Handles<Graph> graphs;
  std::atomic<int> threads{1};
  std::atomic<int64_t> batch_size{0};

 private:
  Library() = default;
  mutable std::mutex mutex_;
  std::vector<size_t> references_ = std::vector<size_t>(devices.size(), 0);
};

/// One fact about a device in the two-call protocol.
onnxStatus backend_info(const Device& device, onnxBackendInfo key, void* value, size_t* size);

/// Checks a backend's property list.
onnxStatus check_backend_properties(const uint64_t* list);

/// Names of the extension functions, separated by spaces.
std::string extension_names();

}  // namespace smelt::onnxifi
