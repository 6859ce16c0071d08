// For tests: Vulkan entry points that fail or count, in place of the driver's.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/device/vk.h"

namespace smelt::vulkan {

template <auto Entry>
struct FakeCall;

/// While it lives, the entry point (&vkQueueSubmit, ...) counts its calls and, given a result, does nothing but give
/// it. It comes and goes while no thread makes a pipeline: entry points are plain pointers.
template <class R, class... A, R (**Entry)(A...)>
struct FakeCall<Entry> {
  FakeCall() { begin(); }
  explicit FakeCall(R result) {
    given = result;
    fails = true;
    begin();
  }
  ~FakeCall() {
    Device::settle();
    *Entry = real;
    prelude = nullptr;
    fails = false;
  }
  FakeCall(const FakeCall&) = delete;
  FakeCall& operator=(const FakeCall&) = delete;
  int count() const { return calls; }
  /// What each call does before it gives its result.
  void before(std::function<void()> first) { prelude = std::move(first); }

 private:
  static void begin() {
    Device::settle();
    real = *Entry;
    calls = 0;
    *Entry = call;
  }
  static R call(A... a) {
    ++calls;
    if (prelude) prelude();
    return fails ? given : real(a...);
  }
  static inline R (*real)(A...) = nullptr;
  static inline std::atomic<int> calls = 0;
  static inline bool fails = false;
  static inline std::function<void()> prelude;
  static inline R given{};
};

}  // namespace smelt::vulkan
