// onnxRunGraph and its extension forms; releasing graphs.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "suite.h"

namespace abi {
namespace {

using std::chrono::milliseconds;

struct Fixture {
  Device d;
  onnxGraph g;
  std::vector<float> x{-1, 2, -3, 4}, y = std::vector<float>(4, 99);
  std::vector<uint64_t> shape{4};
  onnxTensorDescriptorV1 in = describe("x", 1, shape, x.data()), out = describe("y", 1, shape, y.data());
  onnxEvent ready = nullptr;

  Fixture() : g(init(d, serialize(relu_model()))) {
    EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
    EXPECT_OK(api.InitEvent(d.backend, &ready));
  }
  onnxEvent start() {
    onnxMemoryFenceV1 a = fence(ready), b = fence(reinterpret_cast<onnxEvent>(0xBAD));
    EXPECT_OK(api.RunGraph(g, &a, &b));
    return b.event;
  }
  onnxEventState state(onnxEvent e) {
    onnxEventState s;
    EXPECT_OK(api.GetEventState(e, &s));
    return s;
  }
  bool done() { return y == std::vector<float>{0, 2, 0, 4}; }
};

void add(Checks& checks, const char* name, std::function<void(Fixture&)> f) {
  checks.push_back({std::string("run/") + name, [f] {
                      Fixture fixture;
                      f(fixture);
                    }});
}

template <class F>
F extension(Fixture& f, const char* name) {
  onnxExtensionFunctionPointer p;
  EXPECT_OK(api.GetExtensionFunctionAddress(f.d.id, name, &p));
  return reinterpret_cast<F>(reinterpret_cast<void*>(p));
}

void errors(Checks& checks) {
  const auto refused = [&](const char* name, onnxStatus want,
                           std::function<void(onnxMemoryFenceV1&, onnxMemoryFenceV1&)> change) {
    checks.push_back({std::string("run/") + name, [want, change] {
                        Fixture f;
                        onnxMemoryFenceV1 a = fence(f.ready), b = fence();
                        change(a, b);
                        EXPECT(api.RunGraph(f.g, &a, &b) == want);
                        EXPECT_OK(api.SignalEvent(f.ready));
                        onnxMemoryFenceV1 c = fence(f.ready), e = fence();
                        EXPECT_OK(api.RunGraph(f.g, &c, &e));
                        EXPECT_OK(api.WaitEvent(e.event));
                        EXPECT(f.done());
                      }});
  };
  refused("input_fence_tag", ONNXIFI_STATUS_UNSUPPORTED_TAG, [](auto& a, auto&) { a.tag = 1; });
  refused("output_fence_tag", ONNXIFI_STATUS_UNSUPPORTED_TAG, [](auto&, auto& b) { b.tag = 1; });
  refused("input_fence_implicit", ONNXIFI_STATUS_UNSUPPORTED_FENCE_TYPE,
          [](auto& a, auto&) { a.type = ONNXIFI_SYNCHRONIZATION_IMPLICIT; });
  refused("output_fence_implicit", ONNXIFI_STATUS_UNSUPPORTED_FENCE_TYPE,
          [](auto&, auto& b) { b.type = ONNXIFI_SYNCHRONIZATION_IMPLICIT; });
  refused("input_fence_type", ONNXIFI_STATUS_INVALID_FENCE_TYPE, [](auto& a, auto&) { a.type = 1; });
  refused("output_fence_type", ONNXIFI_STATUS_INVALID_FENCE_TYPE, [](auto&, auto& b) { b.type = 77; });
  refused("null_event", ONNXIFI_STATUS_INVALID_EVENT, [](auto& a, auto&) { a.event = nullptr; });
  refused("wild_event", ONNXIFI_STATUS_INVALID_EVENT,
          [](auto& a, auto&) { a.event = reinterpret_cast<onnxEvent>(0x123); });
}

void refused_fence_types(Checks& checks) {
  for (const uint64_t type : {UINT64_C(1), UINT64_C(3), UINT64_C(4), UINT64_C(1) << 32, (UINT64_C(1) << 32) | 2})
    checks.push_back({"run/fence_type/" + std::to_string(type), [type] {
                        Fixture f;
                        onnxMemoryFenceV1 a = fence(f.ready), b = fence();
                        a.type = type;
                        EXPECT_STATUS(ONNXIFI_STATUS_INVALID_FENCE_TYPE, api.RunGraph(f.g, &a, &b));
                        a.type = ONNXIFI_SYNCHRONIZATION_EVENT;
                        b.type = type;
                        EXPECT_STATUS(ONNXIFI_STATUS_INVALID_FENCE_TYPE, api.RunGraph(f.g, &a, &b));
                      }});
  checks.push_back({"run/released_input_event", [] {
                      Fixture f;
                      EXPECT_OK(api.SignalEvent(f.ready));
                      EXPECT_OK(api.ReleaseEvent(f.ready));
                      onnxMemoryFenceV1 a = fence(f.ready), b = fence();
                      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.RunGraph(f.g, &a, &b));
                    }});
}

}  // namespace

void add_run_checks(Checks& checks) {
  errors(checks);
  add(checks, "null_fences", [](Fixture& f) {
    onnxMemoryFenceV1 a = fence(f.ready);
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.RunGraph(f.g, nullptr, &a));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.RunGraph(f.g, &a, nullptr));
  });
  add(checks, "wild_graph", [](Fixture& f) {
    onnxMemoryFenceV1 a = fence(f.ready), b = fence();
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.RunGraph(nullptr, &a, &b));
  });
  checks.push_back({"run/every_device", [] {
                      for (size_t i = 0; i < device_count(); ++i) {
                        Device d(i);
                        const std::vector<uint64_t> shape{4};
                        std::vector<float> x{-1, 2, -3, 4}, y(4, 99);
                        const onnxGraph g = init(d, serialize(relu_model()));
                        run(d, g, {describe("x", shape, x)}, {describe("y", shape, y)});
                        EXPECT(y == (std::vector<float>{0, 2, 0, 4}));
                        EXPECT_OK(api.ReleaseGraph(g));
                      }
                    }});
  checks.push_back({"run/before_locations", [] {
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      onnxEvent e;
                      EXPECT_OK(api.InitEvent(d.backend, &e));
                      onnxMemoryFenceV1 a = fence(e), b = fence();
                      EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, api.RunGraph(g, &a, &b));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  add(checks, "returns_before_its_input_is_ready", [](Fixture& f) {
    const onnxEvent done = f.start();
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT(f.state(done) == ONNXIFI_EVENT_STATE_NONSIGNALLED);
    EXPECT(f.y == std::vector<float>(4, 99));
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(f.done());
  });
  add(checks, "reads_inputs_after_the_signal", [](Fixture& f) {
    const onnxEvent done = f.start();
    f.x = {1, 1, 1, 1};
    EXPECT(reinterpret_cast<onnxPointer>(f.x.data()) == f.in.buffer);
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(f.y == std::vector<float>(4, 1));
  });
  add(checks, "always_makes_a_fresh_event", [](Fixture& f) {
    EXPECT_OK(api.SignalEvent(f.ready));
    const onnxEvent a = f.start(), b = f.start();
    EXPECT(a != b && a != f.ready);
    EXPECT_OK(api.WaitEvent(a));
    EXPECT_OK(api.WaitEvent(b));
    EXPECT_OK(api.ReleaseEvent(a));
    EXPECT_OK(api.ReleaseEvent(b));
  });
  add(checks, "two_runs_in_flight", [](Fixture& f) {
    const onnxEvent a = f.start(), b = f.start();
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(b));
    EXPECT_OK(api.WaitEvent(a));
    EXPECT(f.done());
  });
  add(checks, "one_event_opens_two_graphs", [](Fixture& f) {
    Fixture other;
    onnxMemoryFenceV1 a = fence(f.ready), b = fence();
    EXPECT_OK(api.RunGraph(other.g, &a, &b));
    const onnxEvent done = f.start();
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT_OK(api.WaitEvent(b.event));
    EXPECT(f.done() && other.done());
    EXPECT_OK(api.ReleaseGraph(other.g));
  });
  add(checks, "chaining", [](Fixture& f) {
    Fixture second;
    second.in.buffer = f.out.buffer;
    EXPECT_OK(api.SetGraphIO(second.g, 1, &second.in, 1, &second.out));
    const onnxEvent first = f.start();
    onnxMemoryFenceV1 a = fence(first), b = fence();
    EXPECT_OK(api.RunGraph(second.g, &a, &b));
    EXPECT(f.state(b.event) == ONNXIFI_EVENT_STATE_NONSIGNALLED);
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(b.event));
    EXPECT(second.done());
    EXPECT_OK(api.ReleaseGraph(second.g));
  });
  add(checks, "64_waiting_graphs_do_not_block_another", [](Fixture& f) {
    std::vector<onnxGraph> graphs;
    std::vector<onnxEvent> events;
    std::vector<std::vector<float>> results(64, std::vector<float>(4, 99));
    for (auto& y : results) {
      graphs.push_back(init(f.d, serialize(relu_model())));
      f.out.buffer = reinterpret_cast<onnxPointer>(y.data());
      EXPECT_OK(api.SetGraphIO(graphs.back(), 1, &f.in, 1, &f.out));
      onnxMemoryFenceV1 a = fence(f.ready), b = fence();
      EXPECT_OK(api.RunGraph(graphs.back(), &a, &b));
      events.push_back(b.event);
    }
    Fixture free;
    EXPECT_OK(api.SignalEvent(free.ready));
    EXPECT_OK(api.WaitEvent(free.start()));
    EXPECT(free.done());
    EXPECT_OK(api.SignalEvent(f.ready));
    for (onnxEvent e : events) EXPECT_OK(api.WaitEvent(e));
    for (onnxGraph g : graphs) EXPECT_OK(api.ReleaseGraph(g));
    for (const auto& y : results) EXPECT((y == std::vector<float>{0, 2, 0, 4}));
  });
  add(checks, "locations_of_a_run_in_flight_stay", [](Fixture& f) {
    const onnxEvent done = f.start();
    std::vector<float> other(4, 5);
    f.out.buffer = reinterpret_cast<onnxPointer>(other.data());
    EXPECT_OK(api.SetGraphIO(f.g, 1, &f.in, 1, &f.out));
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(f.done() && other[0] == 5);
  });
  add(checks, "a_failed_set_leaves_a_run_in_flight_alone", [](Fixture& f) {
    const onnxEvent done = f.start();
    f.in.tag = 1;
    EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG, api.SetGraphIO(f.g, 1, &f.in, 1, &f.out));
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(f.done());
  });
  add(checks, "release_graph_waits_for_runs", [](Fixture& f) {
    const onnxEvent done = f.start();
    std::atomic<bool> released{false};
    std::thread t([&] {
      api.ReleaseGraph(f.g);
      released = true;
    });
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT(!released);
    EXPECT_OK(api.SignalEvent(f.ready));
    t.join();
    EXPECT(released && f.done());
    EXPECT(f.state(done) == ONNXIFI_EVENT_STATE_SIGNALLED);
  });
  add(checks, "output_event_outlives_the_graph", [](Fixture& f) {
    EXPECT_OK(api.SignalEvent(f.ready));
    const onnxEvent done = f.start();
    EXPECT_OK(api.ReleaseGraph(f.g));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT_OK(api.ReleaseEvent(done));
  });
  add(checks, "input_event_released_in_flight", [](Fixture& f) {
    const onnxEvent done = f.start();
    EXPECT_OK(api.SignalEvent(f.ready));
    EXPECT_OK(api.ReleaseEvent(f.ready));
    EXPECT_OK(api.WaitEvent(done));
    EXPECT(f.done());
  });
  checks.push_back(
      {"run/a_failing_run_signals_its_event", [] {
         // Gather with an index out of range fails when it runs.
         ModelSpec m{{{"x", 1, {4}}, {"i", 7, {1}}}, {{"y", 1, {1}}}, {{"Gather", {"x", "i"}, {"y"}}}};
         Fixture f;
         onnxGraph g = init(f.d, serialize(m));
         std::vector<float> x(4), y(1);
         std::vector<int64_t> i{77};
         const std::vector<uint64_t> four{4}, one{1};
         const onnxTensorDescriptorV1 in[2] = {describe("x", 1, four, x.data()), describe("i", 7, one, i.data())};
         const auto out = describe("y", 1, one, y.data());
         EXPECT_OK(api.SetGraphIO(g, 2, in, 1, &out));
         EXPECT_OK(api.SignalEvent(f.ready));
         onnxMemoryFenceV1 a = fence(f.ready), b = fence();
         EXPECT_OK(api.RunGraph(g, &a, &b));
         EXPECT_STATUS(ONNXIFI_STATUS_INTERNAL_ERROR, api.WaitEvent(b.event));
         onnxEventState state;
         onnxStatus status;
         char message[200];
         size_t length = sizeof message;
         EXPECT_OK(
             extension<onnxWaitEventForFunction>(f, "onnxWaitEventFor")(b.event, 0, &state, &status, message, &length));
         EXPECT(state == ONNXIFI_EVENT_STATE_SIGNALLED && status != ONNXIFI_STATUS_SUCCESS && length > 0 &&
                std::strstr(message, "77"));
         i[0] = 2;
         run(f.d, g);
         EXPECT_OK(api.ReleaseGraph(g));
       }});
  add(checks, "set_io_and_run", [](Fixture& f) {
    auto call = extension<onnxSetIOAndRunGraphFunction>(f, "onnxSetIOAndRunGraphFunction");
    onnxMemoryFenceV1 b = fence();
    EXPECT_OK(call(f.g, 1, &f.in, 1, &f.out, &b, nullptr));
    EXPECT_OK(api.WaitEvent(b.event));
    EXPECT(f.done());
    int64_t batch = 0;
    EXPECT_OK(extension<onnxGetCurrentBatchSizeFunction>(f, "onnxGetCurrentBatchSize")(&batch));
    EXPECT(batch == 4);
  });
  add(checks, "set_io_and_run_with_a_trace", [](Fixture& f) {
    auto call = extension<onnxSetIOAndRunGraphFunction>(f, "onnxSetIOAndRunGraph");
    onnxMemoryFenceV1 b = fence();
    onnxTraceEventList list;
    EXPECT_OK(call(f.g, 1, &f.in, 1, &f.out, &b, &list));
    EXPECT_OK(api.WaitEvent(b.event));
    EXPECT(list.numEvents >= 1 && list.traceEvents[0]->eventType == 'X' && list.traceEvents[0]->timestamp > 0);
    EXPECT_OK(extension<onnxReleaseTraceEventsFunction>(f, "onnxReleaseTraceEvents")(&list));
    EXPECT(list.numEvents == 0);
  });
  refused_fence_types(checks);
  add(checks, "batch_size_null", [](Fixture& f) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER,
                  extension<onnxGetCurrentBatchSizeFunction>(f, "onnxGetCurrentBatchSizeFunction")(nullptr));
  });
  add(checks, "options_protocol", [](Fixture& f) {
    auto set = extension<onnxSetOptionFunction>(f, "onnxSetOptionFunction");
    auto get = extension<onnxGetOptionFunction>(f, "onnxGetOptionFunction");
    char value[4] = "zz";
    size_t n = 1;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, set(nullptr, "1"));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, set("threads", nullptr));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, get(nullptr, value, &n));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, get("threads", value, nullptr));
    EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, get("colour", value, &n));
    EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, get("threads", value, &n));  // no room for the NUL
    EXPECT(n == 1 && value[0] == 'z');
    EXPECT_STATUS(ONNXIFI_STATUS_FALLBACK, get("threads", nullptr, &n));
    EXPECT(n == 1);
    for (const char* bad : {"0", "-1", "257", "2x", "", " "})
      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_PROPERTY, set("threads", bad));
    n = sizeof value;
    EXPECT_OK(get("threads", value, &n));
    EXPECT(n == 1 && value[0] == '1');
  });
  add(checks, "two_threads_give_the_same", [](Fixture& f) {
    EXPECT_OK(extension<onnxSetOptionFunction>(f, "onnxSetOptionFunction")("threads", "2"));
    Fixture other;
    EXPECT_OK(api.SignalEvent(other.ready));
    EXPECT_OK(api.WaitEvent(other.start()));
    EXPECT(other.done());
    EXPECT_OK(api.ReleaseGraph(other.g));
  });
  add(checks, "failure_message_is_cut_to_its_room", [](Fixture& f) {
    ModelSpec m{{{"x", 1, {4}}, {"i", 7, {1}}}, {{"y", 1, {1}}}, {{"Gather", {"x", "i"}, {"y"}}}};
    onnxGraph g = init(f.d, serialize(m));
    std::vector<float> y(1);
    std::vector<int64_t> i{77};
    const std::vector<uint64_t> one{1};
    const onnxTensorDescriptorV1 in[2] = {f.in, describe("i", 7, one, i.data())};
    const auto out = describe("y", 1, one, y.data());
    EXPECT_OK(api.SetGraphIO(g, 2, in, 1, &out));
    EXPECT_OK(api.SignalEvent(f.ready));
    onnxMemoryFenceV1 a = fence(f.ready), b = fence();
    EXPECT_OK(api.RunGraph(g, &a, &b));
    auto wait_for = extension<onnxWaitEventForFunction>(f, "onnxWaitEventFor");
    onnxEventState state;
    onnxStatus status;
    size_t length = 0;
    EXPECT_OK(wait_for(b.event, 0, &state, &status, nullptr, &length));
    const size_t whole = length;
    EXPECT(whole > 8);
    std::string text(whole + 1, 'Z');
    length = 6;
    EXPECT_OK(wait_for(b.event, 0, &state, &status, text.data(), &length));
    EXPECT(length == whole && std::strlen(text.c_str()) == 5 && text[6] == 'Z');
    length = text.size();
    EXPECT_OK(wait_for(b.event, 0, &state, &status, text.data(), &length));
    EXPECT(length == whole && std::strlen(text.c_str()) == whole);
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "options", [](Fixture& f) {
    auto set = extension<onnxSetOptionFunction>(f, "onnxSetOption");
    auto get = extension<onnxGetOptionFunction>(f, "onnxGetOption");
    EXPECT_OK(set("threads", "2"));
    char value[16];
    size_t n = sizeof value;
    EXPECT_OK(get("threads", value, &n));
    EXPECT(n == 1 && value[0] == '2');
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_PROPERTY, set("threads", "none"));
    EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, set("colour", "blue"));
  });
}

}  // namespace abi
