// Many threads at once.
#include <chrono>
#include <thread>

#include "crowd.h"
#include "suite.h"

namespace abi {
namespace {

void round_trip(Device& d, const std::string& model) {
  onnxGraph g = init(d, model);
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
  EXPECT((y == std::vector<float>{0, 2, 0, 4}));
  EXPECT_OK(api.ReleaseGraph(g));
}

/// Many threads do the same at once on one backend.
void storm(Checks& checks, const std::string& name, std::function<void(Device&, int)> body) {
  checks.push_back({"threads/storm/" + name, [body] {
                      Device d;
                      hammer(6, 100, [&](int round) { body(d, round); });
                    }});
}

/// A run of a graph that has locations: its status. A run that starts is waited for.
onnxStatus run_behind(onnxGraph g, onnxEvent ready) {
  onnxMemoryFenceV1 a = fence(ready), b = fence();
  const onnxStatus s = api.RunGraph(g, &a, &b);
  if (s != ONNXIFI_STATUS_SUCCESS) return s;
  EXPECT_OK(api.WaitEvent(b.event));
  EXPECT_OK(api.ReleaseEvent(b.event));
  return s;
}

onnxEvent signalled(const Device& d) {
  onnxEvent e;
  EXPECT_OK(api.InitEvent(d.backend, &e));
  EXPECT_OK(api.SignalEvent(e));
  return e;
}

/// Some threads give locations (one of them wrong ones), others run: every call has a documented status.
void locations_and_runs() {
  Device d;
  onnxGraph g = init(d, serialize(relu_model()));
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  const std::vector<uint64_t> four{4}, five{5};
  const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data()),
             wrong = describe("y", 1, five, y.data());
  Crowd writers(3, [&](int thread) {
    for (int i = 0; i < 200; ++i) {
      const onnxStatus s = api.SetGraphIO(g, 1, &in, 1, thread == 0 && i % 5 == 0 ? &wrong : &out);
      EXPECT(s == ONNXIFI_STATUS_SUCCESS || s == ONNXIFI_STATUS_MISMATCHING_SHAPE);
    }
  });
  Crowd runners(3, [&](int) {
    const onnxEvent ready = signalled(d);
    for (int i = 0; i < 200; ++i) {
      const onnxStatus s = run_behind(g, ready);
      EXPECT(s == ONNXIFI_STATUS_SUCCESS || s == ONNXIFI_STATUS_UNIDENTIFIED_NAME);
    }
    EXPECT_OK(api.ReleaseEvent(ready));
  });
  writers.join();
  runners.join();
  EXPECT_OK(api.ReleaseGraph(g));
}

/// A graph is released while others start runs of it: each run either is over when the release returns, or was refused.
void runs_against_release() {
  for (int round = 0; round < 20; ++round) {
    Device d;
    onnxGraph g = init(d, serialize(relu_model()));
    std::vector<float> x{-1, 2, -3, 4}, y(4);
    const std::vector<uint64_t> four{4};
    const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
    EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
    Crowd runners(4, [&](int) {
      const onnxEvent ready = signalled(d);
      onnxStatus s = ONNXIFI_STATUS_SUCCESS;
      while (s == ONNXIFI_STATUS_SUCCESS) s = run_behind(g, ready);
      EXPECT(s == ONNXIFI_STATUS_INVALID_GRAPH);
      EXPECT_OK(api.ReleaseEvent(ready));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_OK(api.ReleaseGraph(g));
    runners.join();
  }
}

/// One thread queues runs and waits, another opens their input events.
void signals_from_another() {
  Device d;
  onnxGraph g = init(d, serialize(relu_model()));
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  const std::vector<uint64_t> four{4};
  const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
  EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
  std::vector<onnxEvent> ready(300), done;
  for (onnxEvent& e : ready) {
    EXPECT_OK(api.InitEvent(d.backend, &e));
    onnxMemoryFenceV1 a = fence(e), b = fence();
    EXPECT_OK(api.RunGraph(g, &a, &b));
    done.push_back(b.event);
  }
  Crowd signaller(1, [&](int) {
    for (onnxEvent e : ready) EXPECT_OK(api.SignalEvent(e));
  });
  for (onnxEvent e : done) EXPECT_OK(api.WaitEvent(e));
  signaller.join();
  EXPECT(y[1] == 2);
  EXPECT_OK(api.ReleaseGraph(g));
}

}  // namespace

void add_thread_checks(Checks& checks) {
  checks.push_back({"threads/ids_from_many", [] {
                      hammer(8, 200, [](int) {
                        onnxBackendID ids[8];
                        size_t n = 8;
                        EXPECT_OK(api.GetBackendIDs(ids, &n));
                        for (size_t j = 0; j < n; ++j) EXPECT_OK(api.ReleaseBackendID(ids[j]));
                      });
                    }});
  checks.push_back({"threads/create_and_release_storm", [] {
                      Device d;
                      const std::string model = serialize(relu_model());
                      hammer(6, 50, [&](int) { round_trip(d, model); });
                    }});
  checks.push_back({"threads/one_graph_from_many", [] {
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      std::vector<float> x{-1, 2, -3, 4}, y(4);
                      const std::vector<uint64_t> four{4};
                      const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
                      EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
                      hammer(6, 100, [&](int) { run(d, g); });
                      EXPECT((y == std::vector<float>{0, 2, 0, 4}));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  storm(checks, "events", [](Device& d, int) {
    onnxEvent e;
    EXPECT_OK(api.InitEvent(d.backend, &e));
    EXPECT_OK(api.SignalEvent(e));
    EXPECT_OK(api.WaitEvent(e));
    EXPECT_OK(api.ReleaseEvent(e));
  });
  storm(checks, "backends", [](Device& d, int) {
    onnxBackend b;
    EXPECT_OK(api.InitBackend(d.id, nullptr, &b));
    EXPECT_OK(api.ReleaseBackend(b));
  });
  storm(checks, "queries", [](Device& d, int i) {
    ModelSpec m = relu_model();
    if (i % 3 == 0) m.nodes[0].op = "Frobnicate";
    const std::string model = serialize(m);
    EXPECT_STATUS(i % 3 == 0 ? ONNXIFI_STATUS_UNSUPPORTED_OPERATOR : ONNXIFI_STATUS_SUCCESS,
                  api.GetBackendCompatibility(d.id, model.size(), model.data()));
    size_t n = 0;
    EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, api.GetBackendInfo(d.id, i % 9, nullptr, &n));
  });
  checks.push_back({"threads/locations_and_runs_of_one_graph", locations_and_runs});
  checks.push_back({"threads/runs_against_release", runs_against_release});
  checks.push_back({"threads/signals_from_another_thread", signals_from_another});
}

}  // namespace abi
