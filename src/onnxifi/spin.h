#pragma once

#include <chrono>
#include <thread>

namespace smelt::onnxifi {

/// Polls a condition for a short time before a caller goes to sleep: a run of a small graph is over sooner than a
/// thread wakes up. On a machine with one processor it does not poll.
template <class F>
bool spin_until(F&& condition) {
  static const bool several = std::thread::hardware_concurrency() > 1;
  if (condition()) return true;
  if (!several) return false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 32; ++i) {
      if (condition()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
  return false;
}

}  // namespace smelt::onnxifi
