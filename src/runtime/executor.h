#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/graph.h"
#include "ops/op.h"

namespace smelt {

/// Limits and cancellation of one run; shared by all graphs that it enters.
class RunControl {
 public:
  void begin(const SessionOptions& options);
  /// Counts one step; an error when cancelled, over the step limit or over time.
  Status tick();
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  Status charge(size_t bytes);  ///< memory taken by the run
  void release(size_t bytes) { held_ -= bytes < held_ ? bytes : held_; }

 private:
  std::atomic<bool> cancelled_{false};
  uint64_t steps_ = 0, max_steps_ = 0;
  size_t held_ = 0, max_held_ = 0;
  bool timed_ = false;
  std::chrono::steady_clock::time_point deadline_{};
};

/// Runs graphs of a module node by node with the reference kernels; allocates as it goes. The obvious way, which the
/// planned way (plan.h) is tested against, and the way of graphs whose shapes depend on data.
class Executor {
 public:
  Executor(std::shared_ptr<const Module> module, const SessionOptions& options);
  Result<std::vector<Datum>> run(int graph, std::span<const Datum> inputs, int depth = 0);

  std::shared_ptr<const Module> module;
  SessionOptions options;
  std::vector<Datum> states;
  RunControl control;
  ThreadPool threads;
  uint64_t random_state;

  void reset_state();
  uint64_t next_random();
};

}  // namespace smelt
