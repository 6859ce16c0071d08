#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/owned_outputs.h"
#include "runtime/plan.h"

namespace smelt {

/// What update_plan() made of a plan.
enum class PlanUpdate : uint8_t {
  kDone,       ///< it is one for the new inputs
  kTooSmall,   ///< it is as it was: its memory is too small for some value
  kUnchanged,  ///< it cannot become one and is as it was
  kBroken,     ///< it cannot become one and must not run any more
};

/// Runs graphs by plans, which it keeps per graph and input shapes.
class PlannedEnvironment final : public Environment {
 public:
  /// `models`: what the module's nodes may run on, best first; at most one of them has memory of its own.
  /// CompileMode::kDry: plans show what would run.
  PlannedEnvironment(std::shared_ptr<const Module> module, const SessionOptions& options,
                     std::vector<std::shared_ptr<BackendModel>> models, CompileMode mode = CompileMode::kRun);
  Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs, int depth) override;
  Result<bool> run_fast(const Graph& graph, const Node& node, KernelContext& ctx, std::span<const ValueType> inputs,
                        std::span<const ValueType> outputs) override;
  void reset_state() override;
  Status run(int graph, std::span<const Datum> inputs, const GraphCall& call, std::vector<Datum>& outputs);

  /// Finds or makes the plan for inputs like these.
  Result<Plan*> plan_for(int graph, std::span<const Datum> inputs, GraphRole role, ContentUse contents);
  /// Makes the plan for inputs of these types without running it.
  Result<const Plan*> prepare(int graph, std::span<const ValueType> inputs);
  const std::vector<std::unique_ptr<Plan>>& plans(int graph) const { return plans_[static_cast<size_t>(graph)]; }
  const Plan* latest(int graph) const;  ///< the plan that ran last; null before the first run
  /// True if the results of a graph, which one node alone runs, hold in its plan's memory until that node runs again.
  bool lends_results(int graph) const { return lends_results_[static_cast<size_t>(graph)]; }

  /// Computes a node while planning: by the reference kernel, since little that runs once is worth choosing another
  /// for. `types`: of its outputs, as far as they are known.
  Status fold_node(const Graph& graph, const Node& node, std::vector<Datum> in, std::vector<ValueType> types,
                   std::vector<Datum>& out);
  /// Memory for a plan of GraphRole::kEntry, which all of them use in turn: of what was made last if that suits.
  /// Null: there is none. fills: one run writes all of it.
  std::shared_ptr<ArenaMemory> entry_arena(size_t bytes, bool fills);

  /// ThreadPool::near() of the run's pool: one answer a run.
  bool threads_are_near();

  CompileMode mode() const { return mode_; }
  /// When weights are packed for the plan that is being made.
  PackTime pack_time() const { return pack_time_; }
  const std::vector<std::shared_ptr<BackendModel>>& models() const { return models_; }
  std::span<const std::unique_ptr<BackendSession>> backends() const { return backends_; }
  /// The back-end that has memory of its own; null: none.
  BackendSession* device() const { return device_; }
  /// The kernel that a step runs, for reports: of a node whose shapes only a run knows the one of its last run.
  const char* kernel_of(const Step& step) const;
  /// Instruction set level of the host's kernels; "reference" where there are none.
  const char* isa() const;
  ScratchStack scratch;
  GivenMemory given_outputs;  ///< that callers own

 private:
  /// The kernel of a node whose shapes are known only as it runs, for the types that it ran with last.
  struct LateKernel {
    std::vector<ValueType> inputs, outputs;
    std::shared_ptr<Segment> segment;  ///< null: none supports the node
    const char* name = "";             ///< of the kernel, static
    bool made = false;                 ///< false: memory ran out as it was to be made
  };
  /// run_fast() while planning: for nodes that make so much that it pays, by kernels that give the reference's bits.
  [[gnu::cold]] Result<bool> fold_fast(const Graph& graph, const Node& node, KernelContext& ctx,
                                       std::span<const ValueType> outputs);
  /// Makes of the plan that ran last one for these inputs, if it ran once and they are larger: plans for caches that
  /// grow by a row a run are not asked for again.
  PlanUpdate grow_plan(std::vector<std::unique_ptr<Plan>>& list, std::span<const ValueType> inputs, GraphRole role);
  /// As much as the step on the host that asks for most takes.
  void reserve_scratch(const Plan& plan);
  Result<Plan*> add_plan(int graph, std::span<const ValueType> inputs, std::span<const Datum> given, GraphRole role);
  std::shared_ptr<Segment> late_segment(const Graph& graph, const Node& node, LateKernel& late);

  CompileMode mode_;
  std::vector<std::shared_ptr<BackendModel>> models_;
  std::vector<std::unique_ptr<BackendSession>> backends_;
  BackendSession* device_ = nullptr;
  std::shared_ptr<ArenaMemory> entry_arena_;
  std::map<const Node*, LateKernel> late_;
  std::vector<bool> lends_results_;  ///< by graph
  bool folding_ = false;
  PackTime pack_time_ = PackTime::kPlan;
  uint64_t runs_ = 0;                                      ///< that have ended
  std::optional<bool> near_;                               ///< of this run; nullopt: no step has asked
  std::vector<std::vector<std::unique_ptr<Plan>>> plans_;  ///< by graph, most recently used first
};

}  // namespace smelt
