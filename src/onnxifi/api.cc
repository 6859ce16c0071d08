// The exported functions: argument checks in the documented order, then the library. No exception leaves them.
#include <onnxifi.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/cat.h"
#include "onnxifi/backend.h"
#include "onnxifi/loader.h"
#include "onnxifi/trace.h"

namespace {

using namespace smelt::onnxifi;

static_assert(sizeof(onnxTensorDescriptorV1) == 96 && offsetof(onnxTensorDescriptorV1, name) == 8 &&
              offsetof(onnxTensorDescriptorV1, dataType) == 16 && offsetof(onnxTensorDescriptorV1, memoryType) == 24 &&
              offsetof(onnxTensorDescriptorV1, dimensions) == 32 && offsetof(onnxTensorDescriptorV1, shape) == 40 &&
              offsetof(onnxTensorDescriptorV1, quantizationAxis) == 48 &&
              offsetof(onnxTensorDescriptorV1, quantizationParams) == 56 &&
              offsetof(onnxTensorDescriptorV1, scales) == 64 && offsetof(onnxTensorDescriptorV1, biases) == 72 &&
              offsetof(onnxTensorDescriptorV1, isOffline) == 80 && offsetof(onnxTensorDescriptorV1, buffer) == 88);
static_assert(sizeof(onnxMemoryFenceV1) == 24 && offsetof(onnxMemoryFenceV1, type) == 8 &&
              offsetof(onnxMemoryFenceV1, event) == 16);

template <class F>
onnxStatus guarded(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return ONNXIFI_STATUS_NO_SYSTEM_MEMORY;
  } catch (...) {
    return ONNXIFI_STATUS_INTERNAL_ERROR;
  }
}

onnxStatus check_fence_type(const onnxMemoryFenceV1& fence) {
  if (fence.type == ONNXIFI_SYNCHRONIZATION_EVENT) return ONNXIFI_STATUS_SUCCESS;
  return fence.type == ONNXIFI_SYNCHRONIZATION_IMPLICIT ? ONNXIFI_STATUS_UNSUPPORTED_FENCE_TYPE
                                                        : ONNXIFI_STATUS_INVALID_FENCE_TYPE;
}

/// Queues a run and gives the output fence its event.
onnxStatus start(Graph& graph, std::shared_ptr<Event> ready, onnxMemoryFenceV1* out, onnxTraceEventList* trace) {
  auto done = std::make_shared<Event>(graph.weak_from_this());
  const onnxEvent handle = Library::get().events.add(done);
  const onnxStatus s = graph.run(std::move(ready), std::move(done), trace);
  if (s != ONNXIFI_STATUS_SUCCESS) {
    Library::get().events.remove(handle);
    return s;
  }
  out->event = handle;
  return s;
}

onnxStatus ONNXIFI_ABI set_io_and_run(onnxGraph graph, uint32_t inputs, const onnxTensorDescriptorV1* in,
                                      uint32_t outputs, const onnxTensorDescriptorV1* out, onnxMemoryFenceV1* fence,
                                      onnxTraceEventList* trace) {
  return guarded([&]() -> onnxStatus {
    const auto g = Library::get().graphs.find(graph);
    if (!g) return ONNXIFI_STATUS_INVALID_GRAPH;
    if (!fence) return ONNXIFI_STATUS_INVALID_POINTER;
    if (fence->tag != ONNXIFI_TAG_MEMORY_FENCE_V1) return ONNXIFI_STATUS_UNSUPPORTED_TAG;
    if (const onnxStatus s = check_fence_type(*fence); s != ONNXIFI_STATUS_SUCCESS) return s;
    if (const onnxStatus s = g->set_io(in, inputs, out, outputs); s != ONNXIFI_STATUS_SUCCESS) return s;
    if (trace) *trace = {};
    return start(*g, nullptr, fence, trace);
  });
}

onnxStatus ONNXIFI_ABI wait_for(onnxEvent event, uint32_t timeout, onnxEventState* state, onnxStatus* status,
                                char* message, size_t* length) {
  return guarded([&]() -> onnxStatus {
    const auto e = Library::get().events.find(event);
    if (state) *state = ONNXIFI_EVENT_STATE_INVALID;
    if (!e) return ONNXIFI_STATUS_INVALID_EVENT;
    if (!state || !status || (message && !length)) return ONNXIFI_STATUS_INVALID_POINTER;
    const bool over = timeout == 0 ? e->wait() : e->wait(std::chrono::milliseconds(timeout));
    *state = over ? ONNXIFI_EVENT_STATE_SIGNALLED : ONNXIFI_EVENT_STATE_NONSIGNALLED;
    *status = over ? e->status() : ONNXIFI_STATUS_SUCCESS;
    if (length) {
      const std::string text = over ? e->message() : "";
      if (message && *length > 0) {
        const size_t n = std::min(*length - 1, text.size());
        std::memcpy(message, text.data(), n);
        message[n] = 0;
      }
      *length = text.size();
    }
    return ONNXIFI_STATUS_SUCCESS;
  });
}

onnxStatus ONNXIFI_ABI release_trace_events(onnxTraceEventList* list) {
  if (!list) return ONNXIFI_STATUS_INVALID_POINTER;
  release_trace(list);
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus ONNXIFI_ABI current_batch_size(int64_t* size) {
  if (!size) return ONNXIFI_STATUS_INVALID_POINTER;
  *size = Library::get().batch_size.load(std::memory_order_relaxed);
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus ONNXIFI_ABI set_option(const char* name, const char* value) {
  if (!name || !value) return ONNXIFI_STATUS_INVALID_POINTER;
  if (std::strcmp(name, "threads") != 0) return ONNXIFI_STATUS_UNIDENTIFIED_NAME;
  char* end = nullptr;
  const long threads = std::strtol(value, &end, 10);
  if (end == value || *end || threads < 1 || threads > 256) return ONNXIFI_STATUS_INVALID_PROPERTY;
  Library::get().threads.store(static_cast<int>(threads));
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus ONNXIFI_ABI get_option(const char* name, char* value, size_t* length) {
  if (!name || !length) return ONNXIFI_STATUS_INVALID_POINTER;
  if (std::strcmp(name, "threads") != 0) return ONNXIFI_STATUS_UNIDENTIFIED_NAME;
  const std::string text = std::to_string(Library::get().threads.load());
  const bool fits = value && *length > text.size();
  *length = text.size();
  if (!fits) return ONNXIFI_STATUS_FALLBACK;
  std::memcpy(value, text.c_str(), text.size() + 1);
  return ONNXIFI_STATUS_SUCCESS;
}

struct Extension {
  const char* name;
  onnxExtensionFunctionPointer function;
};

template <class F>
onnxExtensionFunctionPointer as_pointer(F f) {
  return reinterpret_cast<onnxExtensionFunctionPointer>(reinterpret_cast<void*>(f));
}

const Extension kExtensions[] = {
    {"onnxSetIOAndRunGraph", as_pointer(set_io_and_run)},
    {"onnxWaitEventFor", as_pointer(wait_for)},
    {"onnxReleaseTraceEvents", as_pointer(release_trace_events)},
    {"onnxGetCurrentBatchSize", as_pointer(current_batch_size)},
    {"onnxSetOption", as_pointer(set_option)},
    {"onnxGetOption", as_pointer(get_option)},
};

}  // namespace

namespace smelt::onnxifi {
std::string extension_names() {
  std::string names = "onnx_extension_function";
  for (const Extension& e : kExtensions) names += Cat(" ", e.name, "Function ", e.name);
  return names;
}
}  // namespace smelt::onnxifi

extern "C" {

onnxStatus onnxGetBackendIDs(onnxBackendID* ids, size_t* count) {
  return guarded([&] { return Library::get().list_ids(ids, count); });
}

onnxStatus onnxReleaseBackendID(onnxBackendID id) {
  return guarded([&] { return Library::get().release_id(id); });
}

onnxStatus onnxGetBackendInfo(onnxBackendID id, onnxBackendInfo key, void* value, size_t* size) {
  return guarded([&]() -> onnxStatus {
    const Device* device = Library::get().find(id);
    if (!device) return ONNXIFI_STATUS_INVALID_ID;
    if (!size) return ONNXIFI_STATUS_INVALID_POINTER;
    return backend_info(*device, key, value, size);
  });
}

onnxStatus onnxGetBackendCompatibility(onnxBackendID id, size_t model_size, const void* model) {
  return guarded([&]() -> onnxStatus {
    if (!Library::get().find(id)) return ONNXIFI_STATUS_INVALID_ID;
    if (!model) return ONNXIFI_STATUS_INVALID_POINTER;
    if (model_size == 0) return ONNXIFI_STATUS_INVALID_SIZE;
    return load_model({static_cast<const char*>(model), model_size}, nullptr, 0, nullptr);
  });
}

onnxStatus onnxInitBackend(onnxBackendID id, const uint64_t* properties, onnxBackend* backend) {
  return guarded([&]() -> onnxStatus {
    if (backend) *backend = nullptr;
    const Device* device = Library::get().find(id);
    if (!device) return ONNXIFI_STATUS_INVALID_ID;
    if (!backend) return ONNXIFI_STATUS_INVALID_POINTER;
    if (const onnxStatus s = check_backend_properties(properties); s != ONNXIFI_STATUS_SUCCESS) return s;
    auto object = std::make_shared<Backend>();
    object->device = device;
    *backend = Library::get().backends.add(std::move(object));
    return ONNXIFI_STATUS_SUCCESS;
  });
}

onnxStatus onnxReleaseBackend(onnxBackend backend) {
  return guarded([&]() -> onnxStatus {
    return Library::get().backends.remove(backend) ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_INVALID_BACKEND;
  });
}

onnxStatus onnxInitEvent(onnxBackend backend, onnxEvent* event) {
  return guarded([&]() -> onnxStatus {
    if (event) *event = nullptr;
    if (!Library::get().backends.find(backend)) return ONNXIFI_STATUS_INVALID_BACKEND;
    if (!event) return ONNXIFI_STATUS_INVALID_POINTER;
    *event = Library::get().events.add(std::make_shared<Event>());
    return ONNXIFI_STATUS_SUCCESS;
  });
}

onnxStatus onnxSignalEvent(onnxEvent event) {
  return guarded([&]() -> onnxStatus {
    const auto e = Library::get().events.find(event);
    if (!e) return ONNXIFI_STATUS_INVALID_EVENT;
    return e->signal() ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_INVALID_STATE;
  });
}

onnxStatus onnxGetEventState(onnxEvent event, onnxEventState* state) {
  return guarded([&]() -> onnxStatus {
    if (state) *state = ONNXIFI_EVENT_STATE_INVALID;
    const auto e = Library::get().events.find(event);
    if (!e) return ONNXIFI_STATUS_INVALID_EVENT;
    if (!state) return ONNXIFI_STATUS_INVALID_POINTER;
    *state = e->signalled() ? ONNXIFI_EVENT_STATE_SIGNALLED : ONNXIFI_EVENT_STATE_NONSIGNALLED;
    return ONNXIFI_STATUS_SUCCESS;
  });
}

onnxStatus onnxWaitEvent(onnxEvent event) {
  return guarded([&]() -> onnxStatus {
    const auto e = Library::get().events.find(event);
    if (!e) return ONNXIFI_STATUS_INVALID_EVENT;
    e->wait();
    return e->status() == ONNXIFI_STATUS_SUCCESS ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_INTERNAL_ERROR;
  });
}

onnxStatus onnxReleaseEvent(onnxEvent event) {
  return guarded([&]() -> onnxStatus {
    const auto e = Library::get().events.remove(event);
    if (!e) return ONNXIFI_STATUS_INVALID_EVENT;
    e->abandon();
    return ONNXIFI_STATUS_SUCCESS;
  });
}

// maxSeqLength bounds nothing here; callers of the older header pass garbage for it and for the reader, which is
// refused (an offline weight gives INVALID_MEMORY_LOCATION) and never looked at.
onnxStatus onnxInitGraph(onnxBackend backend, const uint64_t* properties, size_t model_size, const void* model,
                         uint32_t weight_count, const onnxTensorDescriptorV1* weights, onnxGraph* graph,
                         uint32_t /*maxSeqLength*/, void* /*deferredWeightReader*/) {
  return guarded([&]() -> onnxStatus {
    if (!graph) return ONNXIFI_STATUS_INVALID_POINTER;
    *graph = nullptr;
    const auto b = Library::get().backends.find(backend);
    if (!b) return ONNXIFI_STATUS_INVALID_BACKEND;
    if (!model || (weight_count > 0 && !weights)) return ONNXIFI_STATUS_INVALID_POINTER;
    if (model_size == 0) return ONNXIFI_STATUS_INVALID_SIZE;
    std::shared_ptr<Graph> object;
    smelt::SessionOptions options = b->device->session;
    options.threads = Library::get().threads.load();
    const onnxStatus s = Graph::create(options, properties, {static_cast<const char*>(model), model_size}, weights,
                                       weight_count, &object);
    if (s == ONNXIFI_STATUS_SUCCESS) *graph = Library::get().graphs.add(std::move(object));
    return s;
  });
}

onnxStatus onnxSetGraphIO(onnxGraph graph, uint32_t inputs, const onnxTensorDescriptorV1* in, uint32_t outputs,
                          const onnxTensorDescriptorV1* out) {
  return guarded([&]() -> onnxStatus {
    const auto g = Library::get().graphs.find(graph);
    return g ? g->set_io(in, inputs, out, outputs) : ONNXIFI_STATUS_INVALID_GRAPH;
  });
}

onnxStatus onnxRunGraph(onnxGraph graph, const onnxMemoryFenceV1* in, onnxMemoryFenceV1* out) {
  return guarded([&]() -> onnxStatus {
    const auto g = Library::get().graphs.find(graph);
    if (!g) return ONNXIFI_STATUS_INVALID_GRAPH;
    if (!in || !out) return ONNXIFI_STATUS_INVALID_POINTER;
    if (in->tag != ONNXIFI_TAG_MEMORY_FENCE_V1 || out->tag != ONNXIFI_TAG_MEMORY_FENCE_V1)
      return ONNXIFI_STATUS_UNSUPPORTED_TAG;
    for (const onnxMemoryFenceV1* fence : {in, static_cast<const onnxMemoryFenceV1*>(out)})
      if (const onnxStatus s = check_fence_type(*fence); s != ONNXIFI_STATUS_SUCCESS) return s;
    const auto ready = Library::get().events.find(in->event);
    if (!ready) return ONNXIFI_STATUS_INVALID_EVENT;
    return start(*g, ready, out, nullptr);
  });
}

onnxStatus onnxReleaseGraph(onnxGraph graph) {
  return guarded([&]() -> onnxStatus {
    const auto g = Library::get().graphs.remove(graph);
    if (!g) return ONNXIFI_STATUS_INVALID_GRAPH;
    g->drain();
    return ONNXIFI_STATUS_SUCCESS;
  });
}

onnxStatus onnxGetExtensionFunctionAddress(onnxBackendID id, const char* name, onnxExtensionFunctionPointer* function) {
  if (function) *function = nullptr;
  if (!Library::get().find(id)) return ONNXIFI_STATUS_INVALID_ID;
  if (!name || !function) return ONNXIFI_STATUS_INVALID_POINTER;
  for (const Extension& e : kExtensions) {
    const size_t n = std::strlen(e.name);
    if (std::strncmp(name, e.name, n) == 0 && (name[n] == 0 || std::strcmp(name + n, "Function") == 0)) {
      *function = e.function;
      return ONNXIFI_STATUS_SUCCESS;
    }
  }
  return ONNXIFI_STATUS_UNIDENTIFIED_NAME;
}

}  // extern "C"
