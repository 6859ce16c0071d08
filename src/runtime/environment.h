#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
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
  size_t held() const { return held_; }

 private:
  std::atomic<bool> cancelled_{false};
  uint64_t steps_ = 0, max_steps_ = 0;
  size_t held_ = 0, max_held_ = 0;
  bool timed_ = false;
  std::chrono::steady_clock::time_point deadline_{};
};

/// What a run shares: threads, limits, variables, the random stream, and the way into other graphs.
class Environment {
 public:
  Environment(std::shared_ptr<const Module> module, const SessionOptions& options);
  virtual ~Environment() = default;
  /// Runs a graph of the module. Outputs own their storage when depth > 0.
  virtual Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs, int depth) = 0;
  /// Runs a node by a fast kernel, its outputs allocated; false where there is none.
  virtual Result<bool> run_fast(const Graph&, const Node&, KernelContext&, std::span<const ValueType> /*inputs*/,
                                std::span<const ValueType> /*outputs*/) {
    return false;
  }

  std::shared_ptr<const Module> module;
  SessionOptions options;
  std::vector<Datum> states;
  RunControl control;
  ThreadPool threads;

  void reset_state();
  uint64_t next_random();

 private:
  uint64_t random_state_ = 0;
};

/// Static type of what a datum holds.
ValueType type_of(const Datum& datum);

/// Runs one node by its shape rule and reference kernel, allocating its outputs: the obvious way. `in` is aligned with
/// node.inputs, `out` with node.outputs. Quantized tensors pass through float32 where the kernel has no integers.
Status execute_node(Environment& env, const Graph& graph, const Node& node, std::vector<Datum> in,
                    std::vector<Datum>& out, int depth);

/// "subgraph 0, operator 12 CONV_2D" for messages.
std::string node_label(const Node& node);

}  // namespace smelt
