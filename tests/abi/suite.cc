// Runs the ABI checks, each in a process of its own.
//   smelt_abi_tests LIBRARY [--list] [--filter TEXT] [--device N] [--in-process]
#include "suite.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// LeakSanitizer of GCC 12 finds the thread-local blocks of libraries that dlopen brings in at wrong addresses after
// some numbers of threads, and crashes there: it does not ask for them.

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }
// NOLINTEND(bugprone-reserved-identifier)

namespace abi {

Api api;
void* library = nullptr;
std::string library_path;
size_t device_index = 0;

std::string text(onnxStatus status) {
  char out[16];
  std::snprintf(out, sizeof out, "0x%04x", static_cast<unsigned>(status));
  return out;
}

namespace {
template <class F>
void load(F& f, const char* name) {
  void* address = dlsym(library, name);
  if (!address) throw Failure(std::string("the library has no ") + name);
  f = reinterpret_cast<F>(address);
}
}  // namespace

void open_library() {
  library = dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Failure(dlerror());
  load(api.GetBackendIDs, "onnxGetBackendIDs");
  load(api.ReleaseBackendID, "onnxReleaseBackendID");
  load(api.GetBackendInfo, "onnxGetBackendInfo");
  load(api.GetBackendCompatibility, "onnxGetBackendCompatibility");
  load(api.InitBackend, "onnxInitBackend");
  load(api.ReleaseBackend, "onnxReleaseBackend");
  load(api.InitEvent, "onnxInitEvent");
  load(api.SignalEvent, "onnxSignalEvent");
  load(api.GetEventState, "onnxGetEventState");
  load(api.WaitEvent, "onnxWaitEvent");
  load(api.ReleaseEvent, "onnxReleaseEvent");
  load(api.InitGraph, "onnxInitGraph");
  load(api.SetGraphIO, "onnxSetGraphIO");
  load(api.RunGraph, "onnxRunGraph");
  load(api.ReleaseGraph, "onnxReleaseGraph");
  load(api.GetExtensionFunctionAddress, "onnxGetExtensionFunctionAddress");
}

size_t device_count() {
  size_t n = 0;
  EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, api.GetBackendIDs(nullptr, &n));
  return n;
}

Device::Device(size_t index) {
  onnxBackendID ids[16];
  size_t n = 16;
  EXPECT_OK(api.GetBackendIDs(ids, &n));
  EXPECT(n > index);
  id = ids[index];
  for (size_t i = 0; i < n; ++i)
    if (i != index) api.ReleaseBackendID(ids[i]);
  EXPECT_OK(api.InitBackend(id, nullptr, &backend));
}

Device::~Device() {
  api.ReleaseBackend(backend);
  api.ReleaseBackendID(id);
}

onnxTensorDescriptorV1 describe(const char* name, int type, const std::vector<uint64_t>& shape, const void* data) {
  onnxTensorDescriptorV1 d;
  std::memset(&d, 0, sizeof d);
  d.tag = ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1;
  d.name = name;
  d.dataType = static_cast<onnxEnum>(type);
  d.memoryType = ONNXIFI_MEMORY_TYPE_CPU;
  d.dimensions = static_cast<uint32_t>(shape.size());
  d.shape = shape.empty() ? nullptr : shape.data();
  // Not quantized: the three other members may hold anything.
  d.quantizationAxis = 77;
  d.scales = reinterpret_cast<const float*>(0x11);
  d.biases = reinterpret_cast<const int32_t*>(0x11);
  d.buffer = reinterpret_cast<onnxPointer>(data);
  return d;
}

onnxMemoryFenceV1 fence(onnxEvent event) {
  onnxMemoryFenceV1 f;
  f.tag = ONNXIFI_TAG_MEMORY_FENCE_V1;
  f.type = ONNXIFI_SYNCHRONIZATION_EVENT;
  f.event = event;
  return f;
}

onnxGraph init(const Device& d, const std::string& model, const std::vector<onnxTensorDescriptorV1>& weights) {
  onnxGraph g = nullptr;
  EXPECT_OK(api.InitGraph(d.backend, nullptr, model.size(), model.data(), static_cast<uint32_t>(weights.size()),
                          weights.empty() ? nullptr : weights.data(), &g, 0, nullptr));
  EXPECT(g != nullptr);
  return g;
}

void run(const Device& d, onnxGraph graph) {
  onnxEvent ready;
  EXPECT_OK(api.InitEvent(d.backend, &ready));
  EXPECT_OK(api.SignalEvent(ready));
  onnxMemoryFenceV1 in = fence(ready), out = fence(reinterpret_cast<onnxEvent>(0x5555));
  EXPECT_OK(api.RunGraph(graph, &in, &out));
  EXPECT_OK(api.WaitEvent(out.event));
  EXPECT_OK(api.ReleaseEvent(out.event));
  EXPECT_OK(api.ReleaseEvent(ready));
}

void run(const Device& d, onnxGraph graph, std::vector<onnxTensorDescriptorV1> in,
         std::vector<onnxTensorDescriptorV1> out) {
  EXPECT_OK(api.SetGraphIO(graph, static_cast<uint32_t>(in.size()), in.empty() ? nullptr : in.data(),
                           static_cast<uint32_t>(out.size()), out.data()));
  run(d, graph);
}

namespace {

/// 0 passed; prints why not.
int execute(const Check& c) {
  try {
    open_library();
    c.body();
    return 0;
  } catch (const std::exception& e) {
    std::printf("FAILED %s: %s\n", c.name.c_str(), e.what());
    std::fflush(stdout);
    return 1;
  }
}

/// Runs one check in a child; true when it passed.
bool isolated(const Check& c) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kSanitized ? 300 : 60);
    const int failed = execute(c);
    std::exit(failed);  // runs leak checkers
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status)) {
    // Neither passed nor failed: what looks for leaks at the end has found some.
    if (WEXITSTATUS(status) > 1) std::printf("FAILED %s: exit status %d\n", c.name.c_str(), WEXITSTATUS(status));
    return WEXITSTATUS(status) == 0;
  }
  std::printf("CRASHED %s: signal %d\n", c.name.c_str(), WTERMSIG(status));
  return false;
}

}  // namespace
}  // namespace abi

int main(int argc, char** argv) {
  using namespace abi;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s LIBRARY [--list] [--filter TEXT] [--device N] [--in-process]\n", argv[0]);
    return 2;
  }
  library_path = argv[1];
  std::string filter;
  bool list = false, inside = false;
  for (int i = 2; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--list"))
      list = true;
    else if (!std::strcmp(argv[i], "--in-process"))
      inside = true;
    else if (!std::strcmp(argv[i], "--filter") && i + 1 < argc)
      filter = argv[++i];
    else if (!std::strcmp(argv[i], "--device") && i + 1 < argc)
      device_index = static_cast<size_t>(std::atoi(argv[++i]));
  }
  Checks checks;
  add_library_checks(checks);
  add_info_checks(checks);
  add_model_checks(checks);
  add_weight_checks(checks);
  add_event_checks(checks);
  add_io_checks(checks);
  add_run_checks(checks);
  add_numeric_checks(checks);
  add_thread_checks(checks);
  add_memory_checks(checks);
  add_async_checks(checks);
  add_shape_checks(checks);
  add_growth_checks(checks);
  int passed = 0, failed = 0;
  for (const Check& c : checks) {
    if (c.name.find(filter) == std::string::npos) continue;
    if (list)
      std::printf("%s\n", c.name.c_str());
    else if (inside ? execute(c) == 0 : isolated(c))
      ++passed;
    else
      ++failed;
  }
  if (!list) std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
