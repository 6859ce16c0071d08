// Symbols, layout, loading and unloading, backend IDs and information.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <set>

#include "suite.h"

namespace abi {
namespace {

const char* const kSymbols[] = {
    "onnxGetBackendIDs", "onnxReleaseBackendID", "onnxGetBackendInfo", "onnxGetBackendCompatibility",
    "onnxInitBackend",   "onnxReleaseBackend",   "onnxInitEvent",      "onnxSignalEvent",
    "onnxGetEventState", "onnxWaitEvent",        "onnxReleaseEvent",   "onnxInitGraph",
    "onnxSetGraphIO",    "onnxRunGraph",         "onnxReleaseGraph",   "onnxGetExtensionFunctionAddress"};

const char* const kExtensions[] = {"onnxSetIOAndRunGraph",    "onnxWaitEventFor", "onnxReleaseTraceEvents",
                                   "onnxGetCurrentBatchSize", "onnxSetOption",    "onnxGetOption"};

void layout() {
  EXPECT(sizeof(onnxTensorDescriptorV1) == 96);
  EXPECT(offsetof(onnxTensorDescriptorV1, dataType) == 16);
  EXPECT(offsetof(onnxTensorDescriptorV1, quantizationParams) == 56);
  EXPECT(offsetof(onnxTensorDescriptorV1, buffer) == 88);
  EXPECT(sizeof(onnxMemoryFenceV1) == 24);
  EXPECT(offsetof(onnxMemoryFenceV1, event) == 16);
}

void load_again() {
  for (int i = 0; i < 3; ++i) {
    { Device d; }
    EXPECT(dlclose(library) == 0);
    open_library();
  }
}

void ids(size_t capacity, bool buffer) {
  onnxBackendID list[64];
  size_t available = 0;
  EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, api.GetBackendIDs(nullptr, &available));
  EXPECT(available >= 1 && available < 64);
  for (auto& id : list) id = reinterpret_cast<onnxBackendID>(0x77);
  size_t n = capacity;
  const onnxStatus s = api.GetBackendIDs(buffer ? list : nullptr, &n);
  EXPECT(n == available);
  if (buffer && capacity >= available) {
    EXPECT(s == ONNXIFI_STATUS_SUCCESS);
    for (size_t i = 0; i < n; ++i) EXPECT_OK(api.ReleaseBackendID(list[i]));
    EXPECT(list[n] == reinterpret_cast<onnxBackendID>(0x77));
  } else {
    EXPECT(s == ONNXIFI_STATUS_FALLBACK);
    EXPECT(list[0] == reinterpret_cast<onnxBackendID>(0x77));
  }
}

void two_sets() {
  onnxBackendID a[64], b[64];
  size_t n = 64, m = 64;
  EXPECT_OK(api.GetBackendIDs(a, &n));
  EXPECT_OK(api.GetBackendIDs(b, &m));
  EXPECT(n == m && a[0] == b[0]);
  EXPECT_OK(api.ReleaseBackendID(a[0]));
  onnxBackend backend;
  EXPECT_OK(api.InitBackend(b[0], nullptr, &backend));
  EXPECT_OK(api.ReleaseBackend(backend));
  EXPECT_OK(api.ReleaseBackendID(b[0]));
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.ReleaseBackendID(b[0]));
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.InitBackend(b[0], nullptr, &backend));
  EXPECT(backend == nullptr);
}

struct Key {
  onnxBackendInfo key;
  const char* name;
  size_t size;  ///< 0: text
};

const Key kKeys[] = {{0, "onnxifi_version", 8},
                     {1, "name", 0},
                     {2, "vendor", 0},
                     {3, "version", 0},
                     {4, "extensions", 0},
                     {5, "device", 0},
                     {6, "device_type", 8},
                     {7, "ir_version", 0},
                     {8, "opset_version", 0},
                     {10, "capabilities", 8},
                     {11, "init_properties", 8},
                     {12, "memory_types", 8},
                     {13, "graph_init_properties", 8},
                     {14, "synchronization_types", 8},
                     {20, "memory_size", 8},
                     {21, "max_graph_size", 8},
                     {22, "max_graph_count", 8}};

size_t size_of(const Device& d, onnxBackendInfo key) {
  size_t size = 0;
  EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, api.GetBackendInfo(d.id, key, nullptr, &size));
  return size;
}

std::string info(const Device& d, onnxBackendInfo key) {
  std::string value(size_of(d, key), '\0');
  size_t size = value.size();
  EXPECT_OK(api.GetBackendInfo(d.id, key, value.data(), &size));
  EXPECT(size == value.size());
  return value;
}

void add_key_checks(Checks& checks, const Key& k) {
  const std::string name = std::string("info/") + k.name;
  checks.push_back({name + "/size_query", [k] {
                      Device d;
                      const size_t size = size_of(d, k.key);
                      EXPECT(size > 0 && (k.size == 0 || size == k.size));
                    }});
  checks.push_back({name + "/too_small", [k] {
                      Device d;
                      const size_t size = size_of(d, k.key);
                      std::string buffer(size, 'Z');
                      size_t n = size - 1;
                      EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, api.GetBackendInfo(d.id, k.key, buffer.data(), &n));
                      EXPECT(n == size && buffer == std::string(size, 'Z'));
                    }});
  checks.push_back({name + "/exact", [k] {
                      Device d;
                      const std::string v = info(d, k.key);
                      if (k.size == 0) EXPECT(v.find('\0') == std::string::npos);
                    }});
  checks.push_back({name + "/larger", [k] {
                      Device d;
                      const size_t size = size_of(d, k.key);
                      std::string buffer(size + 16, 'Z');
                      size_t n = buffer.size();
                      EXPECT_OK(api.GetBackendInfo(d.id, k.key, buffer.data(), &n));
                      EXPECT(n == size && buffer.substr(size) == std::string(16, 'Z'));
                    }});
  checks.push_back({name + "/repeatable", [k] {
                      Device d;
                      EXPECT(info(d, k.key) == info(d, k.key));
                    }});
}

}  // namespace

void add_library_checks(Checks& checks) {
  for (const char* s : kSymbols)
    checks.push_back({std::string("symbol/") + s, [s] { EXPECT(dlsym(library, s) != nullptr); }});
  checks.push_back(
      {"symbol/nothing_else_is_exported", [] {
         for (const char* s :
              {"smelt_version", "pthreadpool_create",
               "_ZN5smelt5Model4loadERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_11LoadOptionsE"})
           EXPECT(dlsym(library, s) == nullptr || std::strcmp(s, "pthreadpool_create") == 0);
       }});
  checks.push_back({"layout", layout});
  checks.push_back({"load/again", load_again});
  for (size_t capacity : {size_t{0}, size_t{1}, size_t{2}, size_t{63}, SIZE_MAX}) {
    checks.push_back({"ids/count_only/" + std::to_string(capacity), [capacity] { ids(capacity, false); }});
    if (capacity != SIZE_MAX)
      checks.push_back({"ids/buffer/" + std::to_string(capacity), [capacity] { ids(capacity, true); }});
  }
  checks.push_back(
      {"ids/null_count", [] { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetBackendIDs(nullptr, nullptr)); }});
  checks.push_back({"ids/two_sets", two_sets});
  checks.push_back(
      {"ids/release_null", [] { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.ReleaseBackendID(nullptr)); }});
  checks.push_back({"ids/release_wild", [] {
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID,
                                    api.ReleaseBackendID(reinterpret_cast<onnxBackendID>(0x1234)));
                    }});
  for (const char* e : kExtensions)
    for (const char* suffix : {"", "Function"}) {
      const std::string name = std::string(e) + suffix;
      checks.push_back({"extension/" + name, [name] {
                          Device d;
                          onnxExtensionFunctionPointer f = nullptr;
                          EXPECT_OK(api.GetExtensionFunctionAddress(d.id, name.c_str(), &f));
                          EXPECT(f != nullptr);
                          EXPECT((" " + info(d, ONNXIFI_BACKEND_EXTENSIONS) + " ").find(" " + name + " ") !=
                                 std::string::npos);
                        }});
    }
  checks.push_back({"extension/unknown", [] {
                      Device d;
                      auto f = reinterpret_cast<onnxExtensionFunctionPointer>(reinterpret_cast<void*>(0x1));
                      EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME,
                                    api.GetExtensionFunctionAddress(d.id, "onnxNoSuch", &f));
                      EXPECT(f == nullptr);
                    }});
  checks.push_back({"extension/null_name", [] {
                      Device d;
                      onnxExtensionFunctionPointer f;
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetExtensionFunctionAddress(d.id, nullptr, &f));
                    }});
}

void add_info_checks(Checks& checks) {
  for (const Key& k : kKeys) add_key_checks(checks, k);
  for (onnxBackendInfo key :
       {-1, 9, 15, 19, 23, 29, 32, 34, 38, 39, 40, 43, 44, 45, 46, 47, 1000, INT32_MAX, INT32_MIN})
    checks.push_back({"info/unknown/" + std::to_string(key), [key] {
                        Device d;
                        size_t n = 8;
                        uint64_t v;
                        EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE, api.GetBackendInfo(d.id, key, &v, &n));
                      }});
  checks.push_back({"info/null_size", [] {
                      Device d;
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetBackendInfo(d.id, 0, nullptr, nullptr));
                    }});
  checks.push_back({"info/wild_id", [] {
                      size_t n = 8;
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID,
                                    api.GetBackendInfo(reinterpret_cast<onnxBackendID>(0x99), 0, nullptr, &n));
                    }});
  checks.push_back({"info/version_is_1_0", [] {
                      Device d;
                      uint64_t v = 0;
                      size_t n = sizeof v;
                      EXPECT_OK(api.GetBackendInfo(d.id, ONNXIFI_BACKEND_ONNXIFI_VERSION, &v, &n));
                      EXPECT(v == UINT64_C(0x100000000));
                    }});
  for (int ir = 1; ir <= 14; ++ir)
    checks.push_back(
        {"info/ir_listed_is_taken/" + std::to_string(ir), [ir] {
           Device d;
           ModelSpec m = relu_model();
           m.ir = ir;
           const bool listed =
               (" " + info(d, ONNXIFI_BACKEND_ONNX_IR_VERSION) + " ").find(" " + std::to_string(ir) + " ") !=
               std::string::npos;
           const std::string bytes = serialize(m);
           EXPECT_STATUS(listed ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_UNSUPPORTED_VERSION,
                         api.GetBackendCompatibility(d.id, bytes.size(), bytes.data()));
         }});
  for (int opset = 1; opset <= 32; ++opset)
    checks.push_back({"info/opset_listed_is_taken/" + std::to_string(opset), [opset] {
                        Device d;
                        ModelSpec m = relu_model();
                        m.opset = opset;
                        const std::string list = info(d, ONNXIFI_BACKEND_OPSET_VERSION);
                        const int newest = std::stoi(list.substr(list.find("ai.onnx:") + 8));
                        const std::string bytes = serialize(m);
                        EXPECT_STATUS(opset <= newest ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_UNSUPPORTED_VERSION,
                                      api.GetBackendCompatibility(d.id, bytes.size(), bytes.data()));
                      }});
}

}  // namespace abi
