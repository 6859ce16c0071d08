// Ten thousand rounds of everything: memory in use, file descriptors and threads stay what they were.
#include <dirent.h>
#include <malloc.h>

#include <cstdio>

#include "suite.h"

// What a sanitizer's allocator has given out and not got back; absent without one.
extern "C" size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace abi {
namespace {

constexpr int kRounds = 10000;

bool sanitized() { return __sanitizer_get_current_allocated_bytes != nullptr; }

/// Bytes allocated and not freed. What a sanitizer keeps in quarantine is freed.
size_t live_bytes() {
  return sanitized() ? __sanitizer_get_current_allocated_bytes() : static_cast<size_t>(mallinfo2().uordblks);
}

size_t resident_kb() {
  size_t size = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%zu %zu", &size, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return resident * 4;
}

size_t entries(const char* folder) {
  size_t n = 0;
  if (DIR* d = opendir(folder)) {
    while (readdir(d)) ++n;
    closedir(d);
  }
  return n;
}

/// Runs the body `rounds` times; after a twentieth of them nothing may grow.
void without_growth(const std::function<void(int)>& body, int rounds = kRounds) {
  const int warm = rounds / 20;
  for (int i = 0; i < warm; ++i) body(i);
  const size_t live = live_bytes(), resident = resident_kb(), files = entries("/proc/self/fd"),
               threads = entries("/proc/self/task");
  for (int i = warm; i < rounds; ++i) body(i);
  EXPECT(entries("/proc/self/fd") == files);
  EXPECT(entries("/proc/self/task") == threads);
  const size_t now = live_bytes();
  if (now > live + 100000)
    throw Failure("from " + std::to_string(live) + " to " + std::to_string(now) + " bytes in use");
  // Freed memory that a sanitizer holds back counts as resident: there, only the bytes in use say something.
  if (!sanitized() && resident_kb() > resident + 8192)
    throw Failure("from " + std::to_string(resident) + " to " + std::to_string(resident_kb()) + " KiB resident");
}

void add(Checks& checks, const char* name, std::function<void()> body) {
  checks.push_back({std::string("growth/") + name, std::move(body)});
}

void create_run_release() {
  Device d;
  const std::string model = serialize(relu_model());
  without_growth([&](int) {
    onnxGraph g = init(d, model);
    std::vector<float> x{-1, 2, -3, 4}, y(4);
    run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
    EXPECT((y == std::vector<float>{0, 2, 0, 4}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
}

void with_weights() {
  Device d;
  const std::string model = serialize(add_model());
  without_growth([&](int) {
    std::vector<float> w{1, 2, 3, 4}, x{1, 1, 1, 1}, y(4);
    const std::vector<uint64_t> four{4};
    onnxGraph g = init(d, model, {describe("w", 1, four, w.data())});
    run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
    EXPECT((y == std::vector<float>{2, 3, 4, 5}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
}

}  // namespace

void add_growth_checks(Checks& checks) {
  add(checks, "10000_create_run_release", create_run_release);
  add(checks, "10000_with_weights", with_weights);
  add(checks, "10000_backends", [] { without_growth([](int) { Device d; }); });
  add(checks, "10000_events", [] {
    Device d;
    without_growth([&](int i) {
      onnxEvent e;
      EXPECT_OK(api.InitEvent(d.backend, &e));
      if (i % 2) EXPECT_OK(api.SignalEvent(e));
      EXPECT_OK(api.ReleaseEvent(e));
    });
  });
  add(checks, "10000_runs_of_one_graph", [] {
    Device d;
    onnxGraph g = init(d, serialize(relu_model()));
    std::vector<float> x{-1, 2, -3, 4}, y(4);
    const std::vector<uint64_t> four{4};
    const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
    EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
    without_growth([&](int) { run(d, g); });
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "10000_locations", [] {
    Device d;
    ModelSpec m{{{"x", 1, {"N"}}}, {{"y", 1, {"N"}}}, {{"Relu", {"x"}, {"y"}}}};
    onnxGraph g = init(d, serialize(m));
    std::vector<float> x(64), y(64);
    without_growth([&](int i) {
      const std::vector<uint64_t> n{1 + static_cast<uint64_t>(i) % 40};
      const auto in = describe("x", 1, n, x.data()), out = describe("y", 1, n, y.data());
      EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
      if (i % 10 == 0) run(d, g);
    });
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "10000_refused_locations", [] {
    Device d;
    onnxGraph g = init(d, serialize(relu_model()));
    std::vector<float> x(4), y(4);
    const std::vector<uint64_t> four{4}, five{5};
    const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, five, y.data());
    without_growth([&](int) { EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, api.SetGraphIO(g, 1, &in, 1, &out)); });
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "10000_compatibility_queries", [] {
    Device d;
    const std::string model = serialize(relu_model());
    without_growth([&](int) { EXPECT_OK(api.GetBackendCompatibility(d.id, model.size(), model.data())); });
  });
  add(checks, "10000_refused_models", [] {
    Device d;
    ModelSpec m = relu_model();
    m.nodes[0].op = "Frobnicate";
    const std::string model = serialize(m);
    without_growth([&](int i) {
      const size_t n = i % 2 ? model.size() : model.size() - 3;
      onnxGraph g;
      EXPECT(api.InitGraph(d.backend, nullptr, n, model.data(), 0, nullptr, &g, 0, nullptr) != ONNXIFI_STATUS_SUCCESS);
    });
  });
  add(checks, "10000_failing_runs", [] {
    Device d;
    ModelSpec m{{{"x", 1, {4}}, {"i", 7, {1}}}, {{"y", 1, {1}}}, {{"Gather", {"x", "i"}, {"y"}}}};
    onnxGraph g = init(d, serialize(m));
    std::vector<float> x(4), y(1);
    std::vector<int64_t> index{77};
    const std::vector<uint64_t> four{4}, one{1};
    const onnxTensorDescriptorV1 in[2] = {describe("x", 1, four, x.data()), describe("i", 7, one, index.data())};
    const auto out = describe("y", 1, one, y.data());
    EXPECT_OK(api.SetGraphIO(g, 2, in, 1, &out));
    onnxEvent ready;
    EXPECT_OK(api.InitEvent(d.backend, &ready));
    EXPECT_OK(api.SignalEvent(ready));
    without_growth([&](int) {
      onnxMemoryFenceV1 a = fence(ready), b = fence();
      EXPECT_OK(api.RunGraph(g, &a, &b));
      EXPECT_STATUS(ONNXIFI_STATUS_INTERNAL_ERROR, api.WaitEvent(b.event));
      EXPECT_OK(api.ReleaseEvent(b.event));
    });
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "10000_traces", [] {
    Device d;
    onnxGraph g = init(d, serialize(relu_model()));
    onnxExtensionFunctionPointer run_it, release;
    EXPECT_OK(api.GetExtensionFunctionAddress(d.id, "onnxSetIOAndRunGraphFunction", &run_it));
    EXPECT_OK(api.GetExtensionFunctionAddress(d.id, "onnxReleaseTraceEventsFunction", &release));
    std::vector<float> x(4), y(4);
    const std::vector<uint64_t> four{4};
    const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
    without_growth([&](int) {
      onnxMemoryFenceV1 f = fence();
      onnxTraceEventList list;
      EXPECT_OK(reinterpret_cast<onnxSetIOAndRunGraphFunction>(reinterpret_cast<void*>(run_it))(g, 1, &in, 1, &out, &f,
                                                                                                &list));
      EXPECT_OK(api.WaitEvent(f.event));
      EXPECT_OK(api.ReleaseEvent(f.event));
      EXPECT_OK(reinterpret_cast<onnxReleaseTraceEventsFunction>(reinterpret_cast<void*>(release))(&list));
    });
    EXPECT_OK(api.ReleaseGraph(g));
  });
}

}  // namespace abi
