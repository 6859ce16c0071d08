// Many threads at once.
#include <atomic>
#include <chrono>
#include <thread>

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
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 6; ++i)
                        threads.emplace_back([&] {
                          try {
                            for (int k = 0; k < 100; ++k) body(d, k);
                          } catch (const std::exception&) {
                            ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0);
                    }});
}

/// Some threads give locations (one of them wrong ones), others run: every call has a documented status.
void locations_and_runs() {
  Device d;
  onnxGraph g = init(d, serialize(relu_model()));
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  const std::vector<uint64_t> four{4}, five{5};
  const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data()),
             wrong = describe("y", 1, five, y.data());
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const onnxStatus s = api.SetGraphIO(g, 1, &in, 1, t == 0 && i % 5 == 0 ? &wrong : &out);
        if (s != ONNXIFI_STATUS_SUCCESS && s != ONNXIFI_STATUS_MISMATCHING_SHAPE) ++bad;
      }
    });
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      onnxEvent ready;
      if (api.InitEvent(d.backend, &ready) != ONNXIFI_STATUS_SUCCESS) ++bad;
      if (api.SignalEvent(ready) != ONNXIFI_STATUS_SUCCESS) ++bad;
      for (int i = 0; i < 200; ++i) {
        onnxMemoryFenceV1 a = fence(ready), b = fence();
        const onnxStatus s = api.RunGraph(g, &a, &b);
        if (s == ONNXIFI_STATUS_UNIDENTIFIED_NAME) continue;
        if (s != ONNXIFI_STATUS_SUCCESS || api.WaitEvent(b.event) != ONNXIFI_STATUS_SUCCESS ||
            api.ReleaseEvent(b.event) != ONNXIFI_STATUS_SUCCESS)
          ++bad;
      }
      api.ReleaseEvent(ready);
    });
  for (auto& t : threads) t.join();
  EXPECT(bad == 0);
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
    std::vector<std::thread> threads;
    std::atomic<int> bad{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        onnxEvent ready;
        if (api.InitEvent(d.backend, &ready) != ONNXIFI_STATUS_SUCCESS) ++bad;
        if (api.SignalEvent(ready) != ONNXIFI_STATUS_SUCCESS) ++bad;
        for (;;) {
          onnxMemoryFenceV1 a = fence(ready), b = fence();
          const onnxStatus s = api.RunGraph(g, &a, &b);
          if (s == ONNXIFI_STATUS_INVALID_GRAPH) break;
          if (s != ONNXIFI_STATUS_SUCCESS || api.WaitEvent(b.event) != ONNXIFI_STATUS_SUCCESS) ++bad;
          api.ReleaseEvent(b.event);
        }
        api.ReleaseEvent(ready);
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (api.ReleaseGraph(g) != ONNXIFI_STATUS_SUCCESS) ++bad;
    for (auto& t : threads) t.join();
    EXPECT(bad == 0);
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
  std::atomic<int> bad{0};
  std::thread signaller([&] {
    for (onnxEvent e : ready)
      if (api.SignalEvent(e) != ONNXIFI_STATUS_SUCCESS) ++bad;
  });
  for (onnxEvent e : done) EXPECT_OK(api.WaitEvent(e));
  signaller.join();
  EXPECT(bad == 0 && y[1] == 2);
  EXPECT_OK(api.ReleaseGraph(g));
}

}  // namespace

void add_thread_checks(Checks& checks) {
  checks.push_back({"threads/ids_from_many", [] {
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 8; ++i)
                        threads.emplace_back([&] {
                          for (int k = 0; k < 200; ++k) {
                            onnxBackendID ids[8];
                            size_t n = 8;
                            if (api.GetBackendIDs(ids, &n) != ONNXIFI_STATUS_SUCCESS) ++bad;
                            for (size_t j = 0; j < n; ++j)
                              if (api.ReleaseBackendID(ids[j]) != ONNXIFI_STATUS_SUCCESS) ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0);
                    }});
  checks.push_back({"threads/create_and_release_storm", [] {
                      Device d;
                      const std::string model = serialize(relu_model());
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 6; ++i)
                        threads.emplace_back([&] {
                          try {
                            for (int k = 0; k < 50; ++k) round_trip(d, model);
                          } catch (const std::exception&) {
                            ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0);
                    }});
  checks.push_back({"threads/one_graph_from_many", [] {
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      std::vector<float> x{-1, 2, -3, 4}, y(4);
                      const std::vector<uint64_t> four{4};
                      const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
                      EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 6; ++i)
                        threads.emplace_back([&] {
                          try {
                            for (int k = 0; k < 100; ++k) run(d, g);
                          } catch (const std::exception&) {
                            ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0 && (y == std::vector<float>{0, 2, 0, 4}));
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
