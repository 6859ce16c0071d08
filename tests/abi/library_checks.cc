// Symbols, layout, loading and unloading, backend IDs and information.
#include <dlfcn.h>
#include <elf.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
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

/// Reads the library's table of dynamic symbols.
void only_the_abi_is_exported() {
  std::ifstream file(library_path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto at = [&](size_t offset, auto& out) {
    EXPECT(offset + sizeof out <= bytes.size());
    std::memcpy(&out, bytes.data() + offset, sizeof out);
  };
  Elf64_Ehdr header;
  at(0, header);
  std::set<std::string> exported;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, names;
    at(header.e_shoff + i * header.e_shentsize, table);
    if (table.sh_type != SHT_DYNSYM) continue;
    at(header.e_shoff + table.sh_link * header.e_shentsize, names);
    for (size_t k = 1; k < table.sh_size / table.sh_entsize; ++k) {
      Elf64_Sym symbol;
      at(table.sh_offset + k * table.sh_entsize, symbol);
      if (symbol.st_shndx != SHN_UNDEF) exported.insert(bytes.c_str() + names.sh_offset + symbol.st_name);
    }
  }
  EXPECT(exported == std::set<std::string>(std::begin(kSymbols), std::end(kSymbols)));
}

void objects_live_on_when_the_library_is_closed() {
  Device d;
  onnxGraph g = init(d, serialize(relu_model()));
  EXPECT(dlclose(library) == 0);
  open_library();
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
  EXPECT((y == std::vector<float>{0, 2, 0, 4}));
  EXPECT_OK(api.ReleaseGraph(g));
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

void add_id_checks(Checks& checks) {
  for (size_t capacity : {size_t{0}, size_t{1}, size_t{2}, size_t{63}, SIZE_MAX}) {
    checks.push_back({"ids/count_only/" + std::to_string(capacity), [capacity] { ids(capacity, false); }});
    if (capacity != SIZE_MAX)
      checks.push_back({"ids/buffer/" + std::to_string(capacity), [capacity] { ids(capacity, true); }});
  }
  checks.push_back(
      {"ids/null_count", [] { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetBackendIDs(nullptr, nullptr)); }});
  checks.push_back({"ids/two_sets", two_sets});
  checks.push_back({"ids/stable_and_distinct", [] {
                      onnxBackendID a[64], b[64];
                      size_t n = 64, m = 64;
                      EXPECT_OK(api.GetBackendIDs(a, &n));
                      for (size_t i = 0; i < n; ++i) EXPECT_OK(api.ReleaseBackendID(a[i]));
                      EXPECT_OK(api.GetBackendIDs(b, &m));
                      EXPECT(n == m && std::set<onnxBackendID>(b, b + m).size() == m);
                      for (size_t i = 0; i < m; ++i) {
                        EXPECT(a[i] == b[i] && b[i] != nullptr);
                        EXPECT_OK(api.ReleaseBackendID(b[i]));
                      }
                    }});
  checks.push_back({"ids/every_function_refuses_a_released_one", [] {
                      onnxBackendID ids[64];
                      size_t n = 64, size = 8;
                      EXPECT_OK(api.GetBackendIDs(ids, &n));
                      for (size_t i = 0; i < n; ++i) EXPECT_OK(api.ReleaseBackendID(ids[i]));
                      uint64_t v;
                      auto b = reinterpret_cast<onnxBackend>(1);
                      auto f = reinterpret_cast<onnxExtensionFunctionPointer>(reinterpret_cast<void*>(0x1));
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.GetBackendInfo(ids[0], 0, &v, &size));
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.GetBackendCompatibility(ids[0], 1, "x"));
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.InitBackend(ids[0], nullptr, &b));
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID,
                                    api.GetExtensionFunctionAddress(ids[0], "onnxWaitEventFor", &f));
                      EXPECT(b == nullptr && f == nullptr);
                    }});
  checks.push_back({"ids/a_backend_outlives_its_id", [] {
                      onnxBackendID ids[64];
                      size_t n = 64;
                      EXPECT_OK(api.GetBackendIDs(ids, &n));
                      onnxBackend b;
                      EXPECT_OK(api.InitBackend(ids[0], nullptr, &b));
                      for (size_t i = 0; i < n; ++i) EXPECT_OK(api.ReleaseBackendID(ids[i]));
                      onnxEvent e;
                      EXPECT_OK(api.InitEvent(b, &e));
                      EXPECT_OK(api.ReleaseEvent(e));
                      EXPECT_OK(api.ReleaseBackend(b));
                    }});
  checks.push_back({"ids/every_device_runs_a_model", [] {
                      onnxBackendID ids[64];
                      size_t n = 64;
                      EXPECT_OK(api.GetBackendIDs(ids, &n));
                      for (size_t i = 0; i < n; ++i) {
                        onnxBackend b;
                        EXPECT_OK(api.InitBackend(ids[i], nullptr, &b));
                        const std::string m = serialize(relu_model());
                        onnxGraph g;
                        EXPECT_OK(api.InitGraph(b, nullptr, m.size(), m.data(), 0, nullptr, &g, 0, nullptr));
                        EXPECT_OK(api.ReleaseGraph(g));
                        EXPECT_OK(api.ReleaseBackend(b));
                        EXPECT_OK(api.ReleaseBackendID(ids[i]));
                      }
                    }});
  checks.push_back(
      {"ids/release_null", [] { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.ReleaseBackendID(nullptr)); }});
  checks.push_back({"ids/release_wild", [] {
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID,
                                    api.ReleaseBackendID(reinterpret_cast<onnxBackendID>(0x1234)));
                    }});
}

void add_extension_checks(Checks& checks) {
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
  for (const char* name : {"", "Function", "onnxWaitEvent", "onnxWaitEventForFunctio",
                           "onnxWaitEventForFunctionFunction", "onnx_extension_function", "onnxGetBackendIDs"})
    checks.push_back({std::string("extension/unknown/") + name, [name] {
                        Device d;
                        auto f = reinterpret_cast<onnxExtensionFunctionPointer>(reinterpret_cast<void*>(0x1));
                        EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME,
                                      api.GetExtensionFunctionAddress(d.id, name, &f));
                        EXPECT(f == nullptr);
                      }});
  checks.push_back({"extension/null_result", [] {
                      Device d;
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER,
                                    api.GetExtensionFunctionAddress(d.id, "onnxWaitEventFor", nullptr));
                    }});
  checks.push_back(
      {"extension/wild_id", [] {
         onnxExtensionFunctionPointer f;
         EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID,
                       api.GetExtensionFunctionAddress(reinterpret_cast<onnxBackendID>(0x88), "onnxWaitEventFor", &f));
         EXPECT(f == nullptr);
       }});
  checks.push_back({"extension/null_name", [] {
                      Device d;
                      onnxExtensionFunctionPointer f;
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetExtensionFunctionAddress(d.id, nullptr, &f));
                    }});
}

void add_version_checks(Checks& checks) {
  for (const char* domain : {"ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"})
    checks.push_back({std::string("info/newest_of_") + domain, [domain] {
                        Device d;
                        const std::string list = " " + info(d, ONNXIFI_BACKEND_OPSET_VERSION),
                                          key = std::string(" ") + domain + ":";
                        const size_t at = list.find(key);
                        EXPECT(at != std::string::npos);
                        const int newest = std::stoi(list.substr(at + key.size()));
                        for (int version : {1, newest, newest + 1}) {
                          ModelSpec m = relu_model();
                          m.domain = domain;
                          m.domain_version = version;
                          const std::string bytes = serialize(m);
                          EXPECT_STATUS(version <= newest ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_UNSUPPORTED_VERSION,
                                        api.GetBackendCompatibility(d.id, bytes.size(), bytes.data()));
                        }
                      }});
  for (int ir = 1; ir <= 16; ++ir)
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

}  // namespace

void add_library_checks(Checks& checks) {
  for (const char* s : kSymbols)
    checks.push_back({std::string("symbol/") + s, [s] { EXPECT(dlsym(library, s) != nullptr); }});
  checks.push_back({"symbol/nothing_else_is_exported", only_the_abi_is_exported});
  checks.push_back({"layout", layout});
  checks.push_back({"info/name_is_without_the_vendor", [] {
                      Device d;
                      const std::string vendor = info(d, ONNXIFI_BACKEND_VENDOR);
                      EXPECT(info(d, ONNXIFI_BACKEND_NAME).find(vendor) == std::string::npos);
                    }});
  checks.push_back({"load/again", load_again});
  checks.push_back({"load/objects_live_on", objects_live_on_when_the_library_is_closed});
  checks.push_back({"load/by_the_historic_name", [] {
                      const size_t slash = library_path.rfind('/');
                      const std::string other =
                          (slash == std::string::npos ? "" : library_path.substr(0, slash + 1)) + "libonnxifi-smelt.so";
                      void* same = dlopen(other.c_str(), RTLD_NOW | RTLD_LOCAL);
                      EXPECT(same != nullptr);
                      EXPECT(dlsym(same, "onnxInitGraph") == dlsym(library, "onnxInitGraph"));
                      EXPECT(dlclose(same) == 0);
                    }});
  add_id_checks(checks);
  add_extension_checks(checks);
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
  checks.push_back({"info/values", [] {
                      Device d;
                      const auto number = [&](onnxBackendInfo key) {
                        uint64_t v = 0;
                        const std::string bytes = info(d, key);
                        std::memcpy(&v, bytes.data(), sizeof v);
                        return v;
                      };
                      EXPECT(number(ONNXIFI_BACKEND_DEVICE_TYPE) == ONNXIFI_DEVICE_TYPE_CPU);
                      EXPECT((number(ONNXIFI_BACKEND_CAPABILITIES) & 0xffffffff) < 0x20);
                      EXPECT(number(ONNXIFI_BACKEND_CAPABILITIES) & ONNXIFI_CAPABILITY_THREAD_SAFE);
                      EXPECT(number(ONNXIFI_BACKEND_MEMORY_TYPES) == ONNXIFI_MEMORY_TYPE_CPU);
                      EXPECT(number(ONNXIFI_BACKEND_SYNCHRONIZATION_TYPES) == ONNXIFI_SYNCHRONIZATION_EVENT);
                      EXPECT(number(ONNXIFI_BACKEND_MEMORY_SIZE) >= 1 << 20);
                      EXPECT(number(ONNXIFI_BACKEND_MAX_GRAPH_SIZE) >= 1 << 20);
                      EXPECT(number(ONNXIFI_BACKEND_MAX_GRAPH_COUNT) >= 1);
                      EXPECT((number(ONNXIFI_BACKEND_INIT_PROPERTIES) & 0xffffffff) == 0);
                      EXPECT((number(ONNXIFI_BACKEND_GRAPH_INIT_PROPERTIES) & 0xffffffff) == 0);
                      for (onnxBackendInfo key : {1, 2, 3, 4, 5, 7, 8})
                        for (char c : info(d, key)) EXPECT(static_cast<unsigned char>(c) >= 0x20);
                    }});
  checks.push_back({"info/refused_keys_change_nothing", [] {
                      Device d;
                      uint64_t v = 7;
                      size_t n = 8;
                      EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE, api.GetBackendInfo(d.id, 9, &v, &n));
                      EXPECT(v == 7 && n == 8);
                    }});
  checks.push_back({"info/null_value_with_a_large_size", [] {
                      Device d;
                      size_t n = SIZE_MAX;
                      EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, api.GetBackendInfo(d.id, 1, nullptr, &n));
                      EXPECT(n > 0 && n < 1000);
                    }});
  add_version_checks(checks);
}

}  // namespace abi
