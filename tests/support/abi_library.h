#pragma once

#include <dlfcn.h>
#include <onnxifi.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "onnxifi/element.h"
#include "smelt/tensor.h"

namespace smelt::test {

/// Tensor descriptors with the memory that they point to.
struct AbiDescriptors {
  std::vector<onnxTensorDescriptorV1> list;
  std::deque<std::string> names;
  std::deque<std::vector<uint64_t>> shapes;

  void add(const std::string& name, const Tensor& t) {
    onnxTensorDescriptorV1 d{};
    d.tag = ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1;
    d.name = names.emplace_back(name).c_str();
    d.dataType = onnxifi::element_number(t.dtype());
    d.memoryType = ONNXIFI_MEMORY_TYPE_CPU;
    d.dimensions = static_cast<uint32_t>(t.rank());
    auto& shape = shapes.emplace_back();
    for (int64_t v : t.shape().dims()) shape.push_back(static_cast<uint64_t>(v));
    d.shape = shape.data();
    d.buffer = reinterpret_cast<onnxPointer>(t.raw());
    list.push_back(d);
  }
  uint32_t size() const { return static_cast<uint32_t>(list.size()); }
};

/// libonnxifi.so as a framework loads it, with a backend on its first device.
struct AbiLibrary {
  void* handle;
  onnxBackendID ids[16];
  size_t count = 16;
  onnxBackend backend = nullptr;

  template <class F>
  F get(const char* name) const {
    return handle ? reinterpret_cast<F>(dlsym(handle, name)) : nullptr;
  }
#define GET(name) name##Function name = get<name##Function>(#name)
  GET(onnxGetBackendIDs);
  GET(onnxGetBackendCompatibility);
  GET(onnxInitBackend);
  GET(onnxInitEvent);
  GET(onnxSignalEvent);
  GET(onnxWaitEvent);
  GET(onnxReleaseEvent);
  GET(onnxInitGraph);
  GET(onnxSetGraphIO);
  GET(onnxRunGraph);
  GET(onnxReleaseGraph);
#undef GET
  onnxEvent open = nullptr;  ///< signalled: what runs wait for

  explicit AbiLibrary(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle || onnxGetBackendIDs(ids, &count) != ONNXIFI_STATUS_SUCCESS) count = 0;
  }
  /// Makes the backend and the open event; false when the library gives none.
  bool start() {
    return count > 0 && onnxInitBackend(ids[0], nullptr, &backend) == ONNXIFI_STATUS_SUCCESS &&
           onnxInitEvent(backend, &open) == ONNXIFI_STATUS_SUCCESS && onnxSignalEvent(open) == ONNXIFI_STATUS_SUCCESS;
  }

  /// Gives locations, runs, waits. The first status that is not SUCCESS.
  onnxStatus run(onnxGraph graph, const AbiDescriptors& in, const AbiDescriptors& out) const {
    onnxStatus s = onnxSetGraphIO(graph, in.size(), in.list.data(), out.size(), out.list.data());
    if (s != ONNXIFI_STATUS_SUCCESS) return s;
    onnxMemoryFenceV1 ready{ONNXIFI_TAG_MEMORY_FENCE_V1, ONNXIFI_SYNCHRONIZATION_EVENT, {open}}, done = ready;
    s = onnxRunGraph(graph, &ready, &done);
    if (s != ONNXIFI_STATUS_SUCCESS) return s;
    s = onnxWaitEvent(done.event);
    onnxReleaseEvent(done.event);
    return s;
  }
};

}  // namespace smelt::test
