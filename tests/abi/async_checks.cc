// Runs in flight: who waits for whom, what happens when handles go away, failures that travel.
#include <atomic>
#include <chrono>
#include <thread>

#include "crowd.h"
#include "suite.h"

namespace abi {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// y = ((x x) x) x ...: takes a while.
ModelSpec heavy_model() {
  ModelSpec m{{{"x", 1, {192, 192}}}, {{"y", 1, {192, 192}}}, {}};
  std::string last = "x";
  for (int i = 0; i < 12; ++i) {
    const std::string next = i == 11 ? "y" : "t" + std::to_string(i);
    m.nodes.push_back({"MatMul", {last, "x"}, {next}});
    last = next;
  }
  return m;
}

struct Fixture {
  Device d;
  onnxGraph g;
  std::vector<uint64_t> shape;
  std::vector<float> x, y;
  onnxTensorDescriptorV1 in, out;
  onnxEvent ready = nullptr;

  explicit Fixture(const ModelSpec& m = relu_model(), std::vector<uint64_t> dims = {4}) : shape(std::move(dims)) {
    g = init(d, serialize(m));
    size_t n = 1;
    for (uint64_t v : shape) n *= v;
    x.assign(n, 0);
    for (size_t i = 0; i < n; ++i) x[i] = i % 2 ? static_cast<float>(i + 1) : -1;
    y.assign(n, 99);
    in = describe("x", 1, shape, x.data());
    out = describe("y", 1, shape, y.data());
    EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
    EXPECT_OK(api.InitEvent(d.backend, &ready));
  }
  onnxEvent start(onnxEvent input) {
    onnxMemoryFenceV1 a = fence(input), b = fence();
    EXPECT_OK(api.RunGraph(g, &a, &b));
    return b.event;
  }
  onnxEvent start() { return start(ready); }
  static bool signalled(onnxEvent e) {
    onnxEventState s;
    EXPECT_OK(api.GetEventState(e, &s));
    return s == ONNXIFI_EVENT_STATE_SIGNALLED;
  }
  bool done() { return y == std::vector<float>{0, 2, 0, 4}; }
};

template <class F>
F extension(Device& d, const char* name) {
  onnxExtensionFunctionPointer p;
  EXPECT_OK(api.GetExtensionFunctionAddress(d.id, name, &p));
  return reinterpret_cast<F>(reinterpret_cast<void*>(p));
}

void add(Checks& checks, const char* name, std::function<void()> body) {
  checks.push_back({std::string("async/") + name, std::move(body)});
}

void returns_at_once() {
  Fixture f(heavy_model(), {192, 192});
  f.x.assign(f.x.size(), 0.01f);
  EXPECT_OK(api.SignalEvent(f.ready));
  // A busy machine may stop the caller at any point: one good attempt shows it.
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto begin = Clock::now();
    const onnxEvent done = f.start();
    const auto returned = Clock::now();
    const bool early = !Fixture::signalled(done);
    EXPECT_OK(api.WaitEvent(done));
    const auto end = Clock::now();
    EXPECT_OK(api.ReleaseEvent(done));
    if (early && (returned - begin) * 4 < end - begin) return;
  }
  throw Failure("onnxRunGraph never returned before the run was over");
}

void runs_without_a_waiter() {
  Fixture f;
  EXPECT_OK(api.SignalEvent(f.ready));
  for (int i = 0; i < 50; ++i) {
    f.y.assign(4, 99);
    const onnxEvent done = f.start();
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (!Fixture::signalled(done)) {
      EXPECT(Clock::now() < limit);
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT(f.done());
    EXPECT_OK(api.ReleaseEvent(done));
  }
}

void queue_keeps_its_order() {
  Fixture f;
  onnxEvent open;
  EXPECT_OK(api.InitEvent(f.d.backend, &open));
  EXPECT_OK(api.SignalEvent(open));
  const onnxEvent first = f.start(), second = f.start(open);
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT(!Fixture::signalled(first) && !Fixture::signalled(second));
  EXPECT_OK(api.SignalEvent(f.ready));
  EXPECT_OK(api.WaitEvent(second));
  EXPECT(Fixture::signalled(first));
}

void failure_reaches_the_chained_run() {
  ModelSpec m{{{"x", 1, {4}}, {"i", 7, {4}}}, {{"y", 1, {4}}}, {{"Gather", {"x", "i"}, {"y"}}}};
  Fixture second;
  onnxGraph g = init(second.d, serialize(m));
  std::vector<float> x(4), y(4);
  std::vector<int64_t> i{0, 1, 2, 77};
  const std::vector<uint64_t> four{4};
  const onnxTensorDescriptorV1 in[2] = {describe("x", 1, four, x.data()), describe("i", 7, four, i.data())};
  const auto out = describe("y", 1, four, y.data());
  EXPECT_OK(api.SetGraphIO(g, 2, in, 1, &out));
  onnxMemoryFenceV1 a = fence(second.ready), b = fence();
  EXPECT_OK(api.RunGraph(g, &a, &b));
  const onnxEvent done = second.start(b.event);
  EXPECT_OK(api.SignalEvent(second.ready));
  EXPECT_STATUS(ONNXIFI_STATUS_INTERNAL_ERROR, api.WaitEvent(done));
  EXPECT_STATUS(ONNXIFI_STATUS_INTERNAL_ERROR, api.WaitEvent(b.event));
  EXPECT(second.y[0] == 99);
  // Both graphs go on.
  i[3] = 3;
  run(second.d, g);
  run(second.d, second.g);
  EXPECT(second.done());
  EXPECT_OK(api.ReleaseGraph(g));
}

void long_chain() {
  constexpr int kLength = 32;
  Device d;
  std::vector<std::vector<float>> values(kLength + 1, std::vector<float>(4, 1));
  std::vector<onnxGraph> graphs;
  std::vector<onnxEvent> events;
  onnxEvent ready;
  EXPECT_OK(api.InitEvent(d.backend, &ready));
  ModelSpec m{{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Add", {"x", "x"}, {"y"}}}};
  onnxEvent last = ready;
  const std::vector<uint64_t> four{4};
  for (size_t i = 0; i < kLength; ++i) {
    graphs.push_back(init(d, serialize(m)));
    const auto in = describe("x", 1, four, values[i].data()), out = describe("y", 1, four, values[i + 1].data());
    EXPECT_OK(api.SetGraphIO(graphs.back(), 1, &in, 1, &out));
    onnxMemoryFenceV1 a = fence(last), b = fence();
    EXPECT_OK(api.RunGraph(graphs.back(), &a, &b));
    events.push_back(last = b.event);
  }
  EXPECT_OK(api.SignalEvent(ready));
  EXPECT_OK(api.WaitEvent(last));
  EXPECT(values.back()[0] == 4294967296.0f);
  for (onnxGraph g : graphs) EXPECT_OK(api.ReleaseGraph(g));
  for (onnxEvent e : events) EXPECT_OK(api.ReleaseEvent(e));
}

void released_from_two_threads() {
  for (int i = 0; i < 20; ++i) {
    Fixture f;
    EXPECT_OK(api.SignalEvent(f.ready));
    const onnxEvent done = f.start();
    std::atomic<int> good{0}, refused{0};
    Crowd(4, [&](int) {
      const onnxStatus s = api.ReleaseGraph(f.g);
      if (s == ONNXIFI_STATUS_SUCCESS) ++good;
      if (s == ONNXIFI_STATUS_INVALID_GRAPH) ++refused;
    }).join();
    EXPECT(good == 1 && refused == 3);
    EXPECT(Fixture::signalled(done) && f.done());
  }
}

void handles_that_go_away(Checks& checks) {
  add(checks, "released_input_event_fails_the_run", [] {
    Fixture f;
    const onnxEvent done = f.start();
    EXPECT_OK(api.ReleaseEvent(f.ready));
    EXPECT_STATUS(ONNXIFI_STATUS_INTERNAL_ERROR, api.WaitEvent(done));
    EXPECT(f.y[0] == 99);
    EXPECT_OK(api.ReleaseGraph(f.g));
  });
  add(checks, "released_input_event_frees_a_releasing_graph", [] {
    Fixture f;
    f.start();
    std::thread t([&] { api.ReleaseGraph(f.g); });
    std::this_thread::sleep_for(milliseconds(10));
    EXPECT_OK(api.ReleaseEvent(f.ready));
    t.join();
  });
  add(checks, "released_event_wakes_its_waiters", [] {
    Fixture f;
    std::atomic<onnxStatus> s{-1};
    std::thread t([&] { s = api.WaitEvent(f.ready); });
    std::this_thread::sleep_for(milliseconds(10));
    EXPECT_OK(api.ReleaseEvent(f.ready));
    t.join();
    EXPECT(s == ONNXIFI_STATUS_INTERNAL_ERROR || s == ONNXIFI_STATUS_INVALID_EVENT);
  });
  add(checks, "output_event_released_in_flight", [] {
    Fixture f;
    EXPECT_OK(api.ReleaseEvent(f.start()));
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.ReleaseGraph(f.g));
    EXPECT(f.done());
  });
  add(checks, "chain_through_a_released_event", [] {
    Fixture first, second;
    second.in.buffer = first.out.buffer;
    EXPECT_OK(api.SetGraphIO(second.g, 1, &second.in, 1, &second.out));
    const onnxEvent between = first.start(), done = second.start(between);
    EXPECT_OK(api.ReleaseEvent(between));
    EXPECT_OK(api.SignalEvent(first.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(second.done());
  });
  add(checks, "backend_released_first", [] {
    Fixture f;
    const onnxEvent done = f.start();
    EXPECT_OK(api.ReleaseBackend(f.d.backend));
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(f.done());
    EXPECT_OK(api.ReleaseGraph(f.g));
  });
  add(checks, "graph_used_after_its_release", [] {
    Fixture f;
    EXPECT_OK(api.ReleaseGraph(f.g));
    onnxMemoryFenceV1 a = fence(f.ready), b = fence();
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.RunGraph(f.g, &a, &b));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.SetGraphIO(f.g, 1, &f.in, 1, &f.out));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(f.g));
  });
  add(checks, "released_from_two_threads", released_from_two_threads);
}

void instrumented_run() {
  Device d;
  const uint64_t properties[3] = {ONNXIFI_GRAPH_PROPERTY_AUTO_INSTRUMENT_NODES, 1, ONNXIFI_GRAPH_PROPERTY_NONE};
  ModelSpec m{{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Exp", {"x"}, {"a"}}, {"Sin", {"a"}, {"b"}}, {"Exp", {"b"}, {"y"}}}};
  const std::string bytes = serialize(m);
  onnxGraph g;
  EXPECT_OK(api.InitGraph(d.backend, properties, bytes.size(), bytes.data(), 0, nullptr, &g, 0, nullptr));
  std::vector<float> x(4), y(4);
  const std::vector<uint64_t> four{4};
  const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
  onnxMemoryFenceV1 f = fence();
  onnxTraceEventList list{77, nullptr};
  EXPECT_OK(extension<onnxSetIOAndRunGraphFunction>(d, "onnxSetIOAndRunGraphFunction")(g, 1, &in, 1, &out, &f, &list));
  EXPECT_OK(api.WaitEvent(f.event));
  EXPECT(list.numEvents >= 2);
  for (uint64_t i = 0; i < list.numEvents; ++i) {
    const onnxTraceEvent& e = *list.traceEvents[i];
    EXPECT(std::string("BEIX").find(e.eventType) != std::string::npos);
    EXPECT(e.eventName[0] != 0 && e.eventName[32] == 0);
    // Between 2020 and 2100, in microseconds.
    EXPECT(e.timestamp > UINT64_C(1577836800000000) && e.timestamp < UINT64_C(4102444800000000));
    EXPECT(e.duration < 60000000);
  }
  auto release = extension<onnxReleaseTraceEventsFunction>(d, "onnxReleaseTraceEventsFunction");
  EXPECT_OK(release(&list));
  EXPECT_OK(release(&list));  // an empty list now
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, release(nullptr));
  EXPECT_OK(api.ReleaseGraph(g));
}

void set_io_and_run_errors() {
  Fixture f;
  auto call = extension<onnxSetIOAndRunGraphFunction>(f.d, "onnxSetIOAndRunGraph");
  onnxMemoryFenceV1 b = fence();
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, call(nullptr, 1, &f.in, 1, &f.out, &b, nullptr));
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, call(f.g, 1, &f.in, 1, &f.out, nullptr, nullptr));
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, call(f.g, 1, nullptr, 1, &f.out, &b, nullptr));
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, call(f.g, 1, &f.in, 1, nullptr, &b, nullptr));
  b.tag = 1;
  EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG, call(f.g, 1, &f.in, 1, &f.out, &b, nullptr));
  b = fence();
  b.type = ONNXIFI_SYNCHRONIZATION_IMPLICIT;
  EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_FENCE_TYPE, call(f.g, 1, &f.in, 1, &f.out, &b, nullptr));
  b.type = 55;
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_FENCE_TYPE, call(f.g, 1, &f.in, 1, &f.out, &b, nullptr));
  b = fence();
  const auto good = f.in;
  f.in.name = "nobody";
  EXPECT_STATUS(ONNXIFI_STATUS_INVALID_NAME, call(f.g, 1, &f.in, 1, &f.out, &b, nullptr));
  f.in = good;
  EXPECT_OK(call(f.g, 1, &f.in, 1, &f.out, &b, nullptr));
  EXPECT_OK(api.WaitEvent(b.event));
  EXPECT(f.done());
}

}  // namespace

void add_async_checks(Checks& checks) {
  add(checks, "returns_at_once", returns_at_once);
  add(checks, "runs_without_a_waiter", runs_without_a_waiter);
  add(checks, "queue_keeps_its_order", queue_keeps_its_order);
  add(checks, "failure_reaches_the_chained_run", failure_reaches_the_chained_run);
  add(checks, "long_chain", long_chain);
  add(checks, "instrumented_run", instrumented_run);
  add(checks, "set_io_and_run_errors", set_io_and_run_errors);
  handles_that_go_away(checks);
  add(checks, "many_waiters_on_one_run", [] {
    for (int round = 0; round < 20; ++round) {
      Fixture f;
      const onnxEvent done = f.start();
      Crowd waiters(8, [&](int) { EXPECT_OK(api.WaitEvent(done)); });
      EXPECT_OK(api.SignalEvent(f.ready));
      waiters.join();
      EXPECT(f.done());
      EXPECT_OK(api.ReleaseGraph(f.g));
    }
  });
  add(checks, "1000_runs_queued", [] {
    Fixture f;
    std::vector<onnxEvent> events;
    for (int i = 0; i < 1000; ++i) events.push_back(f.start());
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(events.back()));
    for (onnxEvent e : events) {
      EXPECT(Fixture::signalled(e));
      EXPECT_OK(api.ReleaseEvent(e));
    }
    EXPECT(f.done());
  });
  add(checks, "output_event_signalled_by_the_caller", [] {
    Fixture f;
    const onnxEvent done = f.start();
    EXPECT_OK(api.SignalEvent(done));
    EXPECT(Fixture::signalled(done));
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.ReleaseGraph(f.g));
    EXPECT(f.done());
  });
  add(checks, "wait_for_sees_a_signal_from_another_thread", [] {
    Fixture f;
    auto wait_for = extension<onnxWaitEventForFunction>(f.d, "onnxWaitEventForFunction");
    std::thread t([&] {
      std::this_thread::sleep_for(milliseconds(20));
      if (api.SignalEvent(f.ready) != ONNXIFI_STATUS_SUCCESS) std::abort();
    });
    const auto begin = Clock::now();
    onnxEventState state;
    onnxStatus status;
    EXPECT_OK(wait_for(f.ready, 30000, &state, &status, nullptr, nullptr));
    t.join();
    EXPECT(state == ONNXIFI_EVENT_STATE_SIGNALLED && status == ONNXIFI_STATUS_SUCCESS);
    EXPECT(Clock::now() - begin < std::chrono::seconds(20));
  });
  add(checks, "wait_for_keeps_its_time_on_a_run", [] {
    Fixture f;
    auto wait_for = extension<onnxWaitEventForFunction>(f.d, "onnxWaitEventForFunction");
    const onnxEvent done = f.start();
    onnxEventState state;
    onnxStatus status;
    char message[8] = "before";
    size_t length = sizeof message;
    EXPECT_OK(wait_for(done, 20, &state, &status, message, &length));
    EXPECT(state == ONNXIFI_EVENT_STATE_NONSIGNALLED && length == 0);
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(wait_for(done, 0, &state, &status, message, &length));
    EXPECT(state == ONNXIFI_EVENT_STATE_SIGNALLED && status == ONNXIFI_STATUS_SUCCESS && f.done());
  });
  add(checks, "locations_change_while_runs_go_on", [] {
    Fixture f;
    EXPECT_OK(api.SignalEvent(f.ready));
    std::vector<std::vector<float>> results(200, std::vector<float>(4, 99));
    std::vector<onnxEvent> events;
    for (auto& r : results) {
      f.out.buffer = reinterpret_cast<onnxPointer>(r.data());
      EXPECT_OK(api.SetGraphIO(f.g, 1, &f.in, 1, &f.out));
      events.push_back(f.start());
    }
    for (onnxEvent e : events) {
      EXPECT_OK(api.WaitEvent(e));
      EXPECT_OK(api.ReleaseEvent(e));
    }
    for (auto& r : results) EXPECT((r == std::vector<float>{0, 2, 0, 4}));
  });
}

}  // namespace abi
