#pragma once

#include <onnxifi.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "proto_writer.h"

namespace abi {

/// Built with a sanitizer: times say little.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string text(onnxStatus status);

#define ABI_STRING_(x) #x
#define ABI_STRING(x) ABI_STRING_(x)
/// Fails the check unless the condition holds.
#define EXPECT(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) throw ::abi::Failure(__FILE__ ":" ABI_STRING(__LINE__) ": " #condition); \
  } while (0)
/// Fails the check unless a call gives the status.
#define EXPECT_STATUS(want, ...)                                                                              \
  do {                                                                                                        \
    const onnxStatus got_ = (__VA_ARGS__);                                                                    \
    if (got_ != (want))                                                                                       \
      throw ::abi::Failure(__FILE__ ":" ABI_STRING(__LINE__) ": " #__VA_ARGS__ " gave " + ::abi::text(got_) + \
                           ", expected " #want);                                                              \
  } while (0)
#define EXPECT_OK(...) EXPECT_STATUS(ONNXIFI_STATUS_SUCCESS, __VA_ARGS__)

/// The functions of the library, looked up by name as a framework does.
struct Api {
  onnxGetBackendIDsFunction GetBackendIDs;
  onnxReleaseBackendIDFunction ReleaseBackendID;
  onnxGetBackendInfoFunction GetBackendInfo;
  onnxGetBackendCompatibilityFunction GetBackendCompatibility;
  onnxInitBackendFunction InitBackend;
  onnxReleaseBackendFunction ReleaseBackend;
  onnxInitEventFunction InitEvent;
  onnxSignalEventFunction SignalEvent;
  onnxGetEventStateFunction GetEventState;
  onnxWaitEventFunction WaitEvent;
  onnxReleaseEventFunction ReleaseEvent;
  onnxInitGraphFunction InitGraph;
  onnxSetGraphIOFunction SetGraphIO;
  onnxRunGraphFunction RunGraph;
  onnxReleaseGraphFunction ReleaseGraph;
  onnxGetExtensionFunctionAddressFunction GetExtensionFunctionAddress;
};
extern Api api;
extern void* library;
extern std::string library_path;
extern size_t device_index;  ///< of the device that checks run on unless they name another
void open_library();

struct Check {
  std::string name;
  std::function<void()> body;
};
using Checks = std::vector<Check>;

// The checks by theme.
void add_library_checks(Checks& checks);
void add_info_checks(Checks& checks);
void add_model_checks(Checks& checks);
void add_weight_checks(Checks& checks);
void add_event_checks(Checks& checks);
void add_io_checks(Checks& checks);
void add_run_checks(Checks& checks);
void add_numeric_checks(Checks& checks);
void add_thread_checks(Checks& checks);
void add_memory_checks(Checks& checks);
void add_async_checks(Checks& checks);
void add_shape_checks(Checks& checks);
void add_growth_checks(Checks& checks);

/// How many devices the library lists.
size_t device_count();

/// A backend on a device, released at the end.
struct Device {
  onnxBackendID id = nullptr;
  onnxBackend backend = nullptr;
  explicit Device(size_t index = device_index);
  ~Device();
};

onnxTensorDescriptorV1 describe(const char* name, int type, const std::vector<uint64_t>& shape, const void* data);
template <class T>
onnxTensorDescriptorV1 describe(const char* name, const std::vector<uint64_t>& shape, std::vector<T>& data,
                                int type = 1) {
  return describe(name, type, shape, data.data());
}
onnxMemoryFenceV1 fence(onnxEvent event = nullptr);

/// Loads a model; the handle of the graph.
onnxGraph init(const Device& d, const std::string& model, const std::vector<onnxTensorDescriptorV1>& weights = {});
/// One whole run with a signalled input event.
void run(const Device& d, onnxGraph graph);
/// SetGraphIO and run.
void run(const Device& d, onnxGraph graph, std::vector<onnxTensorDescriptorV1> in,
         std::vector<onnxTensorDescriptorV1> out);

}  // namespace abi
