#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "graph/graph.h"

#include "ops/core/op.h"
#include "runtime/block_pool.h"
#include "smelt/options.h"

namespace smelt {

/// What a model brings along: the default limits of a run are in proportion to it.
struct ModelSize {
  size_t nodes = 0;      ///< of all graphs
  size_t constants = 0;  ///< bytes
  /// Bytes that the file itself plans for the activations of its largest method, up to half of the machine's memory.
  size_t planned = 0;
};
ModelSize size_of(const Module& module);

/// What a graph is to a run: the one that the session was asked to run, or one that a node of another runs.
enum class GraphRole : uint8_t { kEntry, kBody };

/// Limits and cancellation of one run; shared by all graphs that it enters.
///
/// Where the options give no limit, a run may hold 1 GiB + 64 bytes an input byte + 16 bytes a constant byte + what the
/// file plans, and take 10^6 steps + 16,384 a node + one for each 16 bytes of inputs and constants. A step is one node;
/// entering a graph costs one for each KiB or 8 elements of a sequence that it is handed, work that a body hands to a
/// device 64. So a small model that loops for ever, or whose loop gathers data without end, is stopped soon, while a
/// large one may decode thousands of tokens.
class RunControl {
 public:
  void begin(const SessionOptions& options, const ModelSize& model, std::span<const Datum> inputs);
  /// Counts one step; an error when cancelled, over the step limit or over time.
  Status tick() { return spend(1); }
  /// Counts several at once.
  Status spend(uint64_t steps) {
    steps_ += steps;
    if (timed_ || steps_ > max_steps_ || cancelled_.load(std::memory_order_relaxed)) return check_limits();
    return Ok();
  }
  /// Counts what graph `graph` is handed. An error when that has grown, from call to call, out of proportion.
  Status enter(int graph, std::span<const Datum> inputs);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  Status charge(size_t bytes);  ///< memory taken by the run
  /// An error unless a string tensor made from `inputs` fits, each element as long as their longest texts together.
  Status check_text(std::span<const Datum> inputs, int64_t elements) const;
  Status charge_plan(size_t bytes, GraphRole role);  ///< memory taken by a plan's arena
  // An error if charge() or charge_plan() would be one. Nothing stays charged.
  Status check(size_t bytes);
  Status check_plan(size_t bytes, GraphRole role);
  void release(size_t bytes) { held_ -= bytes < held_ ? bytes : held_; }
  size_t held() const { return held_; }

 private:
  /// An error when cancelled, over the step limit or over time.
  Status check_limits() const;

  std::atomic<bool> cancelled_{false};
  uint64_t steps_ = 0, max_steps_ = 0;
  size_t held_ = 0, max_held_ = 0;
  size_t max_grown_ = 0;             ///< bytes that a graph may be handed; above, eight times its first call's
  size_t max_body_ = 0;              ///< bytes of a plan of a called graph
  std::vector<size_t> first_entry_;  ///< bytes + 1 of each graph's first call; 0: none yet
  bool timed_ = false;
  std::chrono::steady_clock::time_point deadline_{};
};

/// Sees the values of the graph that a session runs as its nodes make them, those of graphs that it calls left out.
class ValueTap {
 public:
  virtual ~ValueTap() = default;
  /// `node` has made value `id`. The contents may be overwritten, unless `shared`: they are those of another value or
  /// of a variable. What lies on a device alone is not shown. Values between the
  /// parts of decomposed nodes have ids behind those of the graph.
  virtual Status made(const Node& node, ValueId id, Datum& value, bool shared) = 0;
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
  ModelSize size;
  std::vector<Datum> states;
  RunControl control;
  ValueTap* tap = nullptr;           ///< null: nobody looks on
  std::shared_ptr<ThreadPool> pool;  ///< the options', or one of the environment's own
  ThreadPool& threads;
  ThreadPool one_thread;  ///< for what is too little work to share
  const std::shared_ptr<BlockPool> blocks = std::make_shared<BlockPool>();

  virtual void reset_state();
  uint64_t next_random();

 private:
  uint64_t random_state_ = 0;
};

/// What a kernel asks of the run around its node.
class RunContext : public KernelContext {
 public:
  RunContext(Environment& env, const Node& node, int depth) : env_(env), depth_(depth) { node_ = &node; }
  ThreadPool& threads() override { return env_.threads; }
  Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs) override {
    return env_.call(graph, inputs, depth_ + 1);
  }
  Datum& state(int index) override { return env_.states[static_cast<size_t>(index)]; }
  Status tick() override { return env_.control.tick(); }
  uint64_t random() override { return env_.next_random(); }
  const Module& module() const override { return *env_.module; }

 protected:
  Environment& env_;
  int depth_;
};

/// Static type of what a datum holds.
ValueType type_of(const Datum& datum);

/// True if the datum is a tensor of this element type and shape, or neither is a tensor.
bool has_type(const Datum& datum, const ValueType& type);

/// What the shape rule of a node gave in its last run.
struct InferredTypes {
  std::vector<ValueType> inputs, outputs;
  bool hold = false;   ///< the outputs follow from the types of the inputs alone, which are tensors
  bool given = false;  ///< the outputs are those of this run, whatever the inputs were
};

/// Runs one node by its shape rule and reference kernel, allocating its outputs: the obvious way. `in` is aligned with
/// node.inputs, `out` with node.outputs; `in` is empty afterwards, with its memory. Quantized tensors pass through
/// float32 where the kernel has no integers. `types`: of the node's run before, or none.
Status execute_node(Environment& env, const Graph& graph, const Node& node, std::vector<Datum>&& in,
                    std::vector<Datum>& out, int depth, InferredTypes& types);
inline Status execute_node(Environment& env, const Graph& graph, const Node& node, std::vector<Datum>&& in,
                           std::vector<Datum>& out, int depth) {
  InferredTypes types;
  return execute_node(env, graph, node, std::move(in), out, depth, types);
}

/// True if execute_node() never asks the back-ends for a kernel of the operator.
inline bool runs_by_reference(const OpInfo& info) {
  return (info.flags & (kDynamic | kContainer | kControl | kEffect)) != 0;
}

/// True if the node has outputs, none of them has elements (`empty(i)`), and it does nothing else. A kernel then does
/// not run: around an extent of 0 others may be of any size.
bool nothing_to_compute(const Node& node, const std::function<bool(size_t)>& empty);

}  // namespace smelt
