// Events.
#include <atomic>
#include <chrono>
#include <thread>

#include "crowd.h"
#include "suite.h"

namespace abi {
namespace {

struct Fixture {
  Device d;
  onnxEvent e = nullptr;
  Fixture() { EXPECT_OK(api.InitEvent(d.backend, &e)); }
  onnxEventState state() {
    onnxEventState s = 1;
    EXPECT_OK(api.GetEventState(e, &s));
    return s;
  }
};

void add(Checks& checks, const char* name, std::function<void(Fixture&)> f) {
  checks.push_back({std::string("event/") + name, [f] {
                      Fixture fixture;
                      f(fixture);
                    }});
}

onnxWaitEventForFunction wait_for(Fixture& f) {
  onnxExtensionFunctionPointer p;
  EXPECT_OK(api.GetExtensionFunctionAddress(f.d.id, "onnxWaitEventForFunction", &p));
  return reinterpret_cast<onnxWaitEventForFunction>(reinterpret_cast<void*>(p));
}

}  // namespace

void add_event_checks(Checks& checks) {
  add(checks, "starts_nonsignalled", [](Fixture& f) { EXPECT(f.state() == ONNXIFI_EVENT_STATE_NONSIGNALLED); });
  add(checks, "signal", [](Fixture& f) {
    EXPECT_OK(api.SignalEvent(f.e));
    EXPECT(f.state() == ONNXIFI_EVENT_STATE_SIGNALLED);
  });
  add(checks, "second_signal", [](Fixture& f) {
    EXPECT_OK(api.SignalEvent(f.e));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_STATE, api.SignalEvent(f.e));
    EXPECT(f.state() == ONNXIFI_EVENT_STATE_SIGNALLED);
  });
  add(checks, "wait_after_signal", [](Fixture& f) {
    EXPECT_OK(api.SignalEvent(f.e));
    EXPECT_OK(api.WaitEvent(f.e));
    EXPECT_OK(api.WaitEvent(f.e));
  });
  add(checks, "wait_across_threads", [](Fixture& f) {
    std::atomic<int> woken{0};
    Crowd waiters(8, [&](int) {
      EXPECT_OK(api.WaitEvent(f.e));
      ++woken;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT(woken == 0);
    EXPECT_OK(api.SignalEvent(f.e));
    waiters.join();
    EXPECT(woken == 8);
  });
  add(checks, "one_winner_among_signals", [](Fixture& f) {
    std::atomic<int> won{0}, lost{0};
    Crowd(8, [&](int) { (api.SignalEvent(f.e) == ONNXIFI_STATUS_SUCCESS ? won : lost)++; }).join();
    EXPECT(won == 1 && lost == 7);
  });
  add(checks, "release", [](Fixture& f) {
    EXPECT_OK(api.ReleaseEvent(f.e));
    onnxEventState s = 5;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.GetEventState(f.e, &s));
    EXPECT(s == ONNXIFI_EVENT_STATE_INVALID);
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.SignalEvent(f.e));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.WaitEvent(f.e));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.ReleaseEvent(f.e));
  });
  for (uintptr_t wild : {uintptr_t{0}, uintptr_t{1}, uintptr_t{0xdead}, UINTPTR_MAX})
    checks.push_back({"event/wild_handle_" + std::to_string(wild), [wild] {
                        const auto e = reinterpret_cast<onnxEvent>(wild);
                        EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.SignalEvent(e));
                        EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.WaitEvent(e));
                        EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.ReleaseEvent(e));
                      }});
  add(checks, "null_state",
      [](Fixture& f) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetEventState(f.e, nullptr)); });
  add(checks, "init_null",
      [](Fixture& f) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.InitEvent(f.d.backend, nullptr)); });
  add(checks, "init_wild_backend", [](Fixture&) {
    auto e = reinterpret_cast<onnxEvent>(1);
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_BACKEND, api.InitEvent(reinterpret_cast<onnxBackend>(0x31), &e));
    EXPECT(e == nullptr);
  });
  add(checks, "handles_are_never_used_twice", [](Fixture& f) {
    const onnxEvent first = f.e;
    EXPECT_OK(api.ReleaseEvent(f.e));
    for (int i = 0; i < 1000; ++i) {
      EXPECT_OK(api.InitEvent(f.d.backend, &f.e));
      EXPECT(f.e != first);
      EXPECT_OK(api.ReleaseEvent(f.e));
    }
  });
  add(checks, "wait_for_times_out", [](Fixture& f) {
    onnxEventState state = 0;
    onnxStatus status = 9;
    size_t length = 0;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_OK(wait_for(f)(f.e, 30, &state, &status, nullptr, &length));
    EXPECT(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(25));
    EXPECT(state == ONNXIFI_EVENT_STATE_NONSIGNALLED && status == ONNXIFI_STATUS_SUCCESS && length == 0);
  });
  add(checks, "wait_for_signalled", [](Fixture& f) {
    onnxEventState state = 0;
    onnxStatus status = 9;
    EXPECT_OK(api.SignalEvent(f.e));
    EXPECT_OK(wait_for(f)(f.e, 0, &state, &status, nullptr, nullptr));
    EXPECT(state == ONNXIFI_EVENT_STATE_SIGNALLED && status == ONNXIFI_STATUS_SUCCESS);
  });
  add(checks, "wait_for_null_state", [](Fixture& f) {
    onnxStatus status;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, wait_for(f)(f.e, 1, nullptr, &status, nullptr, nullptr));
  });
  add(checks, "wait_for_null_status", [](Fixture& f) {
    onnxEventState state;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, wait_for(f)(f.e, 1, &state, nullptr, nullptr, nullptr));
  });
  add(checks, "wait_for_message_without_length", [](Fixture& f) {
    onnxEventState state;
    onnxStatus status;
    char message[8];
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, wait_for(f)(f.e, 1, &state, &status, message, nullptr));
  });
  add(checks, "wait_for_wild_event", [](Fixture& f) {
    onnxEventState state = 5;
    onnxStatus status;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT,
                  wait_for(f)(reinterpret_cast<onnxEvent>(0x77), 1, &state, &status, nullptr, nullptr));
    EXPECT(state == ONNXIFI_EVENT_STATE_INVALID);
  });
  add(checks, "wild_event_with_null_state",
      [](Fixture&) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.GetEventState(nullptr, nullptr)); });
  add(checks, "other_handles_are_no_events", [](Fixture& f) {
    onnxEventState state = 5;
    for (void* handle : {f.d.backend, f.d.id}) {
      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.SignalEvent(handle));
      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.WaitEvent(handle));
      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.GetEventState(handle, &state));
      EXPECT_STATUS(ONNXIFI_STATUS_INVALID_EVENT, api.ReleaseEvent(handle));
      EXPECT(state == ONNXIFI_EVENT_STATE_INVALID);
    }
  });
  add(checks, "init_on_a_released_backend", [](Fixture& f) {
    onnxBackend b;
    EXPECT_OK(api.InitBackend(f.d.id, nullptr, &b));
    EXPECT_OK(api.ReleaseBackend(b));
    auto e = reinterpret_cast<onnxEvent>(1);
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_BACKEND, api.InitEvent(b, &e));
    EXPECT(e == nullptr);
  });
  add(checks, "outlives_its_backend", [](Fixture& f) {
    onnxBackend b;
    EXPECT_OK(api.InitBackend(f.d.id, nullptr, &b));
    onnxEvent e;
    EXPECT_OK(api.InitEvent(b, &e));
    EXPECT_OK(api.ReleaseBackend(b));
    EXPECT_OK(api.SignalEvent(e));
    EXPECT_OK(api.ReleaseEvent(e));
  });
}

}  // namespace abi
